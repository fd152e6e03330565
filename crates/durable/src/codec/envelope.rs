//! The form of a codec's output: the mark, the codec's name, a colon, and whatever the codec likes.
//!
//! The name says whose it is, to codecs that share a database and to people who look into one.

use durable_core::Payload;
use durable_core::payload::CODEC_MARK;

use super::CodecError;

/// Wraps what a codec made.
///
/// # Errors
/// [`CodecError::Failed`] for a name with a colon in it.
pub fn seal(name: &str, body: &[u8]) -> Result<Payload, CodecError> {
    if name.contains(':') {
        let message = format!("{name:?} is no name for a codec: it holds a colon");
        return Err(CodecError::Failed(message));
    }
    let mut bytes = Vec::with_capacity(name.len() + 2 + body.len());
    bytes.push(CODEC_MARK);
    bytes.extend_from_slice(name.as_bytes());
    bytes.push(b':');
    bytes.extend_from_slice(body);
    Payload::from_codec(bytes).map_err(|error| CodecError::Failed(error.to_string()))
}

/// What the codec of this name made; none for plain JSON and for what another one made.
#[must_use]
pub fn open<'a>(name: &str, payload: &'a Payload) -> Option<&'a [u8]> {
    let rest = payload.as_bytes().strip_prefix(&[CODEC_MARK])?;
    rest.strip_prefix(name.as_bytes())?.strip_prefix(b":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_codec_finds_its_own_and_no_other() {
        let sealed = seal("zip", b":1").unwrap();
        assert_eq!(sealed.as_bytes(), b"\0zip::1");
        assert_eq!(open("zip", &sealed), Some(&b":1"[..]));
        assert_eq!(open("zi", &sealed), None);
        assert!(seal("zip:", b"").is_err());
        let plain = Payload::from_json_text(r#""zip:1""#).unwrap();
        assert_eq!(open("zip", &plain), None);
    }
}
