//! Encryption.

use std::collections::BTreeMap;
use std::fmt;

use aes_gcm::aead::{Aead as _, Payload as Message};
use aes_gcm::{Aes256Gcm, KeyInit as _};
use async_trait::async_trait;
use durable_core::Payload;
use sha2::{Digest as _, Sha256};

use super::{CodecError, PayloadCodec, envelope};

/// Name in the stored form.
const NAME: &str = "aes256gcm";
/// Random, new for every payload.
const NONCE_BYTES: usize = 12;

/// Encrypts payloads with AES-256-GCM: they can neither be read nor changed without the key.
///
/// The stored form names the key. To change keys, give the new one to [`AesGcmCodec::new`] and the one before to
/// [`AesGcmCodec::with_old_key`], in every process; an old key may go when no run that was started under it is left.
/// Nonces are random, so one key is good for some four thousand million payloads.
#[derive(Clone)]
pub struct AesGcmCodec {
    current: String,
    keys: BTreeMap<String, Key>,
}

#[derive(Clone)]
struct Key {
    cipher: Box<Aes256Gcm>,
    /// Hides fingerprints; derived, so that it says nothing about the key.
    fingerprints: [u8; 32],
}

impl AesGcmCodec {
    /// Encrypts with this key; the id is stored with every payload, and chosen by you.
    ///
    /// # Errors
    /// [`CodecError::Failed`] for an id that is empty or longer than 255 bytes.
    pub fn new(id: impl Into<String>, key: &[u8; 32]) -> Result<Self, CodecError> {
        let current = id.into();
        let codec = Self {
            current: current.clone(),
            keys: BTreeMap::new(),
        };
        codec.with_old_key(current, key)
    }

    /// Also reads what was encrypted with this key.
    ///
    /// # Errors
    /// [`CodecError::Failed`] for an id that is empty, longer than 255 bytes, or given to another key.
    pub fn with_old_key(
        mut self,
        id: impl Into<String>,
        key: &[u8; 32],
    ) -> Result<Self, CodecError> {
        let id = id.into();
        if id.is_empty() || u8::try_from(id.len()).is_err() {
            let message = format!("a key id has 1 to 255 bytes; {id:?} has {}", id.len());
            return Err(CodecError::Failed(message));
        }
        let mut hash = Sha256::new();
        hash.update(b"durable: fingerprints of starts");
        hash.update(key);
        let key = Key {
            cipher: Box::new(Aes256Gcm::new(key.into())),
            fingerprints: hash.finalize().into(),
        };
        if self.keys.insert(id.clone(), key).is_some() {
            let message = format!("two keys have the id {id:?}");
            return Err(CodecError::Failed(message));
        }
        Ok(self)
    }

    /// The current key, then the others.
    fn ring(&self) -> impl Iterator<Item = (&String, &Key)> {
        let current = self.keys.get_key_value(&self.current);
        let others = self.keys.iter().filter(|(id, _)| **id != self.current);
        current.into_iter().chain(others)
    }

    fn decrypted(&self, sealed: &Payload, body: &[u8]) -> Result<Payload, CodecError> {
        let damaged = |why: &str| CodecError::Damaged(why.to_owned());
        let cut_off = || damaged("it is cut off");
        let (length, rest) = body.split_first().ok_or_else(cut_off)?;
        let (id, rest) = rest
            .split_at_checked(usize::from(*length))
            .ok_or_else(cut_off)?;
        let id = std::str::from_utf8(id).map_err(|_| damaged("its key has no name"))?;
        let (nonce, ciphertext) = rest.split_first_chunk().ok_or_else(cut_off)?;
        let key = self.keys.get(id);
        let key = key.ok_or_else(|| CodecError::UnknownKey(id.to_owned()))?;
        let nonce: &[u8; NONCE_BYTES] = nonce;
        let header = &sealed.as_bytes()[..sealed.len() - rest.len()];
        let message = Message {
            msg: ciphertext,
            aad: header,
        };
        let plain = key.cipher.decrypt(nonce.into(), message);
        let plain = plain.map_err(|_| damaged("its seal does not fit"))?;
        Ok(Payload::from_stored(plain))
    }
}

#[async_trait]
impl PayloadCodec for AesGcmCodec {
    fn name(&self) -> String {
        let ids: Vec<&str> = self.ring().map(|(id, _)| id.as_str()).collect();
        format!("{NAME} ({})", ids.join(", "))
    }

    /// Stored: length of the key's id, the id, the nonce, the encrypted bytes with their seal. The seal covers all of it.
    async fn encode(&self, payload: Payload) -> Result<Payload, CodecError> {
        let id = &self.current;
        let key = &self.keys[id];
        let length = u8::try_from(id.len()).expect("checked when the key was given");
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce)
            .map_err(|error| CodecError::unavailable("the system gives no random bytes", error))?;
        let mut body = vec![length];
        body.extend_from_slice(id.as_bytes());
        let header = envelope::seal(NAME, &body)?;
        let message = Message {
            msg: payload.as_bytes(),
            aad: header.as_bytes(),
        };
        let ciphertext = key.cipher.encrypt(&nonce.into(), message);
        let ciphertext =
            ciphertext.map_err(|_| CodecError::Failed("it cannot be encrypted".to_owned()))?;
        body.extend_from_slice(&nonce);
        body.extend_from_slice(&ciphertext);
        envelope::seal(NAME, &body)
    }

    async fn decode(&self, payload: Payload) -> Result<Payload, CodecError> {
        match envelope::open(NAME, &payload) {
            Some(body) => self.decrypted(&payload, body),
            None => Ok(payload),
        }
    }

    fn fingerprints(&self, plain: i64) -> Vec<i64> {
        let hidden = |key: &Key| {
            let mut hash = Sha256::new();
            hash.update(key.fingerprints);
            hash.update(plain.to_le_bytes());
            let digest: [u8; 32] = hash.finalize().into();
            let (first, _) = digest
                .split_first_chunk()
                .expect("a digest has eight bytes");
            i64::from_le_bytes(*first)
        };
        self.ring().map(|(_, key)| hidden(key)).collect()
    }
}

/// Names the keys and shows none.
impl fmt::Debug for AesGcmCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: [u8; 32] = [1; 32];
    const NEW: [u8; 32] = [2; 32];

    fn secret() -> Payload {
        Payload::from_json_text(r#"{"card":"4111"}"#).unwrap()
    }

    fn codec(id: &str, key: &[u8; 32]) -> AesGcmCodec {
        AesGcmCodec::new(id, key).unwrap()
    }

    #[tokio::test]
    async fn what_is_encrypted_comes_back_and_never_looks_the_same() {
        let codec = codec("k1", &NEW);
        let first = codec.encode(secret()).await.unwrap();
        let second = codec.encode(secret()).await.unwrap();
        assert_ne!(first, second);
        assert!(first.is_encoded());
        assert!(!first.as_bytes().windows(4).any(|bytes| bytes == b"4111"));
        assert_eq!(codec.decode(first).await.unwrap(), secret());
    }

    #[tokio::test]
    async fn no_bit_can_be_changed() {
        let codec = codec("k", &NEW);
        let sealed = codec.encode(secret()).await.unwrap();
        for bit in 0..sealed.len() * 8 {
            let mut bytes = sealed.as_bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let changed = Payload::from_stored(bytes);
            match codec.decode(changed.clone()).await {
                Ok(passed) => assert_eq!(passed, changed, "bit {bit}: another codec's, passed on"),
                Err(CodecError::Damaged(_) | CodecError::UnknownKey(_)) => {}
                Err(error) => panic!("bit {bit}: {error}"),
            }
        }
        for length in 0..sealed.len() {
            let cut = Payload::from_stored(sealed.as_bytes()[..length].to_vec());
            assert_ne!(codec.decode(cut).await.ok(), Some(secret()));
        }
    }

    #[tokio::test]
    async fn an_old_key_reads_and_the_current_one_writes() {
        let before = codec("k1", &OLD).encode(secret()).await.unwrap();
        let rotated = codec("k2", &NEW).with_old_key("k1", &OLD).unwrap();
        assert_eq!(rotated.decode(before).await.unwrap(), secret());
        let after = rotated.encode(secret()).await.unwrap();
        assert_eq!(codec("k2", &NEW).decode(after).await.unwrap(), secret());
    }

    #[tokio::test]
    async fn a_key_that_is_not_there_is_named() {
        let sealed = codec("k1", &OLD).encode(secret()).await.unwrap();
        let error = codec("k2", &NEW).decode(sealed.clone()).await.unwrap_err();
        assert!(matches!(&error, CodecError::UnknownKey(id) if id == "k1"));
        assert!(!error.is_temporary());
        let error = codec("k1", &NEW).decode(sealed).await.unwrap_err();
        assert!(
            matches!(error, CodecError::Damaged(_)),
            "the id alone opens nothing"
        );
    }

    #[tokio::test]
    async fn plain_payloads_are_read_as_they_are() {
        assert_eq!(codec("k", &NEW).decode(secret()).await.unwrap(), secret());
    }

    #[test]
    fn fingerprints_are_hidden_and_found_again_after_a_rotation() {
        let before = codec("k1", &OLD).fingerprints(7);
        let rotated = codec("k2", &NEW).with_old_key("k1", &OLD).unwrap();
        let after = rotated.fingerprints(7);
        assert_ne!(before[0], 7);
        assert_ne!(after[0], before[0], "the current key comes first");
        assert_eq!(after[1..], before);
        assert_ne!(codec("k1", &OLD).fingerprints(8), before);
    }

    #[test]
    fn a_ring_takes_an_id_once_and_shows_no_key() {
        assert!(codec("k", &NEW).with_old_key("k", &OLD).is_err());
        assert!(AesGcmCodec::new("", &NEW).is_err());
        assert!(AesGcmCodec::new("k".repeat(256), &NEW).is_err());
        assert_eq!(format!("{:?}", codec("k", &NEW)), "aes256gcm (k)");
    }
}
