//! User data, carried and never looked into.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// First byte of a payload that a codec made (compressed, encrypted, offloaded).
///
/// No JSON text starts with it, so one byte tells the two apart.
pub const CODEC_MARK: u8 = 0;

/// Deepest nesting of arrays and objects a payload may have.
///
/// Deeper texts would overflow the stack of readers that recurse, PostgreSQL's among them.
pub const DEPTH_MAX: usize = 100;

/// JSON text, or what a codec made of it, as the bytes that are stored.
///
/// The bytes are kept exactly as given: numbers beyond 2^53, `\u0000` and duplicate keys come
/// back as they went in, on every store. A clone is cheap (shared bytes).
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Payload(Bytes);

/// Why some bytes are not a payload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The text is not JSON, or not UTF-8.
    #[error("payload is not valid JSON: {0}")]
    Syntax(String),
    /// Arrays and objects nest deeper than [`DEPTH_MAX`].
    #[error("payload nests deeper than {DEPTH_MAX} levels")]
    TooDeep,
    /// A string holds a surrogate escape (`\ud800`) without its other half: no Unicode text.
    #[error("payload holds a lone surrogate escape, which is not Unicode text")]
    LoneSurrogate,
    /// The value could not be turned into JSON, or JSON into the value.
    #[error("payload does not fit the type: {0}")]
    Type(String),
    /// The bytes were made by a codec and have to be decoded first.
    #[error("payload is encoded by a codec; decode it before reading it as JSON")]
    Encoded,
}

impl Payload {
    /// The payload that is not there; what an event without one carries. Reads as JSON `null`.
    pub const ABSENT: Self = Self(Bytes::new());

    /// JSON `null`.
    #[must_use]
    pub const fn null() -> Self {
        Self(Bytes::from_static(b"null"))
    }

    /// Takes JSON text as it is, after checking that it is some.
    ///
    /// # Errors
    /// [`PayloadError`] when the text is not JSON, nests too deep or is not Unicode.
    pub fn from_json_text(text: impl Into<Bytes>) -> Result<Self, PayloadError> {
        let bytes: Bytes = text.into();
        check_json(&bytes)?;
        Ok(Self(bytes))
    }

    /// Serialises a value.
    ///
    /// # Errors
    /// [`PayloadError`] when the value has no JSON form (a map with keys that are not strings) or nests too deep.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, PayloadError> {
        let text = serde_json::to_vec(value).map_err(|e| PayloadError::Type(e.to_string()))?;
        check_json(&text)?;
        Ok(Self(text.into()))
    }

    /// What a codec made; must start with [`CODEC_MARK`].
    ///
    /// # Errors
    /// [`PayloadError::Syntax`] when the mark is missing.
    pub fn from_codec(bytes: impl Into<Bytes>) -> Result<Self, PayloadError> {
        let bytes: Bytes = bytes.into();
        if bytes.first() == Some(&CODEC_MARK) {
            Ok(Self(bytes))
        } else {
            Err(PayloadError::Syntax("codec output lacks its mark".into()))
        }
    }

    /// Bytes read back from a store, which were a payload when they were written.
    #[must_use]
    pub fn from_stored(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }

    /// Reads the payload as a value; an absent one reads as `null`.
    ///
    /// # Errors
    /// [`PayloadError`] when it does not fit `T`, or is still encoded.
    pub fn to_value<T: DeserializeOwned>(&self) -> Result<T, PayloadError> {
        if self.is_encoded() {
            return Err(PayloadError::Encoded);
        }
        let text: &[u8] = if self.is_absent() { b"null" } else { &self.0 };
        serde_json::from_slice(text).map_err(|e| PayloadError::Type(e.to_string()))
    }

    /// The stored bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The stored bytes, shared.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// Size as stored.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True for [`Payload::ABSENT`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.is_absent()
    }

    /// True for [`Payload::ABSENT`].
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.0.is_empty()
    }

    /// True when a codec made it.
    #[must_use]
    pub fn is_encoded(&self) -> bool {
        self.0.first() == Some(&CODEC_MARK)
    }
}

/// Accepts exactly the texts that every reader we have agrees on: UTF-8, JSON grammar, bounded depth,
/// escapes that are Unicode. serde_json skips over strings it does not have to decode, so
/// lone surrogates are looked for here.
fn check_json(text: &[u8]) -> Result<&RawValue, PayloadError> {
    check_shape(text)?;
    serde_json::from_slice(text).map_err(|e| PayloadError::Syntax(e.to_string()))
}

/// Depth and surrogates in one pass, before any parser sees the text. It assumes nothing about
/// the text's validity: what it lets through, the parser judges.
fn check_shape(text: &[u8]) -> Result<(), PayloadError> {
    let mut depth = 0_usize;
    let mut at = 0;
    let mut in_string = false;
    while at < text.len() {
        match (in_string, text[at]) {
            (false, b'[' | b'{') => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return Err(PayloadError::TooDeep);
                }
            }
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            (_, b'"') => in_string = !in_string,
            (true, b'\\') => {
                at += escape_len(&text[at..])?;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// Length of the escape that starts `rest`; a surrogate pair counts as one.
fn escape_len(rest: &[u8]) -> Result<usize, PayloadError> {
    let Some(unit) = unicode_escape(rest) else {
        return Ok(2);
    };
    match unit {
        0xD800..=0xDBFF => match rest.get(6..).and_then(unicode_escape) {
            Some(0xDC00..=0xDFFF) => Ok(12),
            _ => Err(PayloadError::LoneSurrogate),
        },
        0xDC00..=0xDFFF => Err(PayloadError::LoneSurrogate),
        _ => Ok(6),
    }
}

fn unicode_escape(rest: &[u8]) -> Option<u16> {
    let digits = rest.strip_prefix(b"\\u")?.get(..4)?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(&self.0) {
            Ok("") => f.write_str("(absent)"),
            Ok(text) if !self.is_encoded() => f.write_str(text),
            _ => write!(f, "({} encoded bytes)", self.0.len()),
        }
    }
}

/// A payload as one string, without loss: absent, JSON and a codec's output stay apart.
///
/// For records that carry payloads inside JSON of their own: `#[serde(with = "payload::text")]`.
pub mod text {
    use serde::{Deserialize, Deserializer, Serialize as _, Serializer};

    use super::{BASE64, Payload};
    use base64::Engine as _;

    /// Writes it.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(payload: &Payload, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return payload.serialize(serializer);
        }
        match std::str::from_utf8(&payload.0) {
            Ok("") => serializer.serialize_str(""),
            Ok(text) if !payload.is_encoded() => serializer.collect_str(&format_args!("j{text}")),
            _ => serializer.collect_str(&format_args!("b{}", BASE64.encode(&payload.0))),
        }
    }

    /// Reads it.
    ///
    /// # Errors
    /// The deserializer's, and what is not a payload.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Payload, D::Error> {
        use serde::de::Error as _;
        if !deserializer.is_human_readable() {
            return Payload::deserialize(deserializer);
        }
        let whole = String::deserialize(deserializer)?;
        if let Some(json) = whole.strip_prefix('j') {
            Payload::from_json_text(json.to_owned()).map_err(D::Error::custom)
        } else if let Some(encoded) = whole.strip_prefix('b') {
            let bytes = BASE64.decode(encoded).map_err(D::Error::custom)?;
            Payload::from_codec(bytes).map_err(D::Error::custom)
        } else if whole.is_empty() {
            Ok(Payload::ABSENT)
        } else {
            Err(D::Error::custom("not a payload in text form"))
        }
    }
}

/// What JSON of another shape says about a payload that cannot be embedded as it is.
#[derive(Deserialize)]
enum Marked {
    /// A codec's output, in base64.
    #[serde(rename = "$bytes")]
    Bytes(String),
    /// JSON text that would be taken for one of these two.
    #[serde(rename = "$json")]
    Json(String),
}

impl Marked {
    fn read(text: &str) -> Option<Payload> {
        match serde_json::from_str(text).ok()? {
            Self::Bytes(encoded) => Payload::from_codec(BASE64.decode(encoded).ok()?).ok(),
            Self::Json(text) => Payload::from_json_text(text).ok(),
        }
    }
}

/// As JSON the payload is embedded as it is; a codec's output, which is no JSON, as `{"$bytes": base64}`. The few texts
/// that would be read as that are written as `{"$json": text}`, so that nothing is lost either way. A binary format gets the bytes.
impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap as _;
        if !serializer.is_human_readable() {
            return serializer.serialize_bytes(&self.0);
        }
        if self.is_absent() {
            return serializer.serialize_unit();
        }
        let map = |serializer: S, key, value: &str| {
            let mut map = serializer.serialize_map(Some(1))?;
            map.serialize_entry(key, value)?;
            map.end()
        };
        match check_json(&self.0) {
            Ok(text) if Marked::read(text.get()).is_some() => map(serializer, "$json", text.get()),
            Ok(text) => text.serialize(serializer),
            Err(_) => map(serializer, "$bytes", &BASE64.encode(&self.0)),
        }
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return deserializer.deserialize_byte_buf(BinaryForm);
        }
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        if let Some(marked) = Marked::read(raw.get()) {
            return Ok(marked);
        }
        let text: Box<str> = raw.into();
        Self::from_json_text(text.into_string()).map_err(serde::de::Error::custom)
    }
}

/// A payload in a binary format: its bytes, which are checked, since they may come from anyone.
struct BinaryForm;

impl serde::de::Visitor<'_> for BinaryForm {
    type Value = Payload;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes of a payload")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Payload, E> {
        self.visit_byte_buf(bytes.to_vec())
    }

    fn visit_byte_buf<E: serde::de::Error>(self, bytes: Vec<u8>) -> Result<Payload, E> {
        let payload = match bytes.first() {
            None => Ok(Payload::ABSENT),
            Some(&CODEC_MARK) => Payload::from_codec(bytes),
            Some(_) => Payload::from_json_text(bytes),
        };
        payload.map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_bytes_it_was_given() {
        for text in [
            "9007199254740993",
            r#""\u0000""#,
            r#"{"a":1,"a":2}"#,
            " [1 , 2] ",
            r#""\ud83d\ude00""#,
            "1e400",
        ] {
            assert_eq!(
                Payload::from_json_text(text).unwrap().as_bytes(),
                text.as_bytes()
            );
        }
    }

    #[test]
    fn refuses_what_is_no_json_text() {
        for text in ["", "{", "nul", "01", "\"\t\"", "'a'", "[1,]", "\u{feff}1"] {
            assert!(
                matches!(Payload::from_json_text(text), Err(PayloadError::Syntax(_))),
                "{text:?}"
            );
        }
        assert!(Payload::from_json_text(&b"\"\xff\""[..]).is_err());
    }

    #[test]
    fn refuses_lone_surrogates() {
        for text in [
            r#""\ud800""#,
            r#""\udc00""#,
            r#""\ud800\u0041""#,
            r#"{"\ud800":1}"#,
        ] {
            assert_eq!(
                Payload::from_json_text(text),
                Err(PayloadError::LoneSurrogate),
                "{text}"
            );
        }
        assert!(
            Payload::from_json_text(r#""\\ud800""#).is_ok(),
            "an escaped backslash is text"
        );
    }

    #[test]
    fn refuses_deep_nesting_without_recursing() {
        let ok = "[".repeat(DEPTH_MAX) + &"]".repeat(DEPTH_MAX);
        assert!(Payload::from_json_text(ok).is_ok());
        assert_eq!(
            Payload::from_json_text("[".repeat(1_000_000)),
            Err(PayloadError::TooDeep)
        );
        assert!(
            Payload::from_json_text(r#""[[[[""#).is_ok(),
            "brackets in strings do not count"
        );
    }

    #[test]
    fn text_form_loses_nothing() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Holder(#[serde(with = "text")] Payload);
        let codec = Payload::from_codec(vec![CODEC_MARK, 255]).unwrap();
        let json = Payload::from_json_text(r#"{"$bytes":"AA==", "n":9007199254740993}"#).unwrap();
        for payload in [Payload::ABSENT, Payload::null(), json, codec] {
            let text = serde_json::to_string(&Holder(payload.clone())).unwrap();
            assert_eq!(
                serde_json::from_str::<Holder>(&text).unwrap(),
                Holder(payload)
            );
        }
        assert!(serde_json::from_str::<Holder>(r#""x""#).is_err());
    }

    #[test]
    fn json_form_loses_nothing() {
        let codec = Payload::from_codec(vec![CODEC_MARK, 255]).unwrap();
        let texts = [
            r#"{"$bytes":"AP8="}"#,
            r#" {"\u0024bytes" : "AP8="}"#,
            r#"{"$bytes":"no mark"}"#,
            r#"{"$bytes":"AP8=","n":9007199254740993}"#,
            r#"{"$json":"1"}"#,
            r#"{"$json":"{\"$json\":\"1\"}"}"#,
            r#"{"$json":1}"#,
            r#""$bytes""#,
        ];
        let texts = texts.map(|text| Payload::from_json_text(text).unwrap());
        for payload in texts.into_iter().chain([codec]) {
            let text = serde_json::to_string(&payload).unwrap();
            let read: Payload = serde_json::from_str(&text).unwrap();
            // White space around a value is not part of it inside a larger document.
            assert_eq!(
                read.as_bytes().trim_ascii(),
                payload.as_bytes().trim_ascii(),
                "{text}"
            );
        }
    }

    #[test]
    fn absent_reads_as_null_and_codec_output_is_not_read() {
        assert_eq!(Payload::ABSENT.to_value::<Option<u8>>(), Ok(None));
        let encoded = Payload::from_codec(vec![CODEC_MARK, 7]).unwrap();
        assert_eq!(encoded.to_value::<u8>(), Err(PayloadError::Encoded));
        assert_eq!(
            serde_json::to_string(&encoded).unwrap(),
            r#"{"$bytes":"AAc="}"#
        );
        assert!(Payload::from_codec(vec![1]).is_err());
    }
}
