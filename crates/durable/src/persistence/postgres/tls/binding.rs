//! Channel binding (RFC 5929, `tls-server-end-point`): the password's proof holds for this server's certificate only.

use sha2::{Digest as _, Sha256, Sha384, Sha512};

/// Signature algorithms by their identifiers, as DER writes them behind tag and length.
const SHA256: [&[u8]; 2] = [
    // sha256WithRSAEncryption, ecdsa-with-SHA256
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b],
    &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02],
];
const SHA384: [&[u8]; 2] = [
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0c],
    &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03],
];
const SHA512: [&[u8]; 2] = [
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0d],
    &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04],
];
/// md5WithRSAEncryption, sha1WithRSAEncryption: the hash is SHA-256 then, says the RFC.
const WEAK: [&[u8]; 2] = [
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x04],
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x05],
];

/// The hash of a certificate, by the hash that its signature is made with. None where that has no one hash (Ed25519, RSA-PSS): there
/// is no binding then, as in libpq.
pub(super) fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let (fields, _) = element(certificate)?;
    let (_, behind_body) = element(fields)?;
    let (algorithm, _) = element(behind_body)?;
    let (identifier, _) = element(algorithm)?;
    if SHA256.contains(&identifier) || WEAK.contains(&identifier) {
        Some(Sha256::digest(certificate).to_vec())
    } else if SHA384.contains(&identifier) {
        Some(Sha384::digest(certificate).to_vec())
    } else if SHA512.contains(&identifier) {
        Some(Sha512::digest(certificate).to_vec())
    } else {
        None
    }
}

/// The content of the DER element that a text begins with, and what follows it.
fn element(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = text.get(1..)?.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            let length = digits
                .iter()
                .fold(0, |sum, digit| sum << 8 | usize::from(*digit));
            (length, rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate in outline: a body, an algorithm, a signature.
    fn certificate(identifier: &[u8]) -> Vec<u8> {
        let wrap = |tag: u8, content: &[u8]| {
            let length = u16::try_from(content.len()).unwrap().to_be_bytes();
            [&[tag, 0x82], &length[..], content].concat()
        };
        let algorithm = wrap(0x30, &wrap(0x06, identifier));
        let body = wrap(0x30, &[7; 300]);
        wrap(0x30, &[body, algorithm, wrap(0x03, &[1; 64])].concat())
    }

    #[test]
    fn the_hash_is_the_one_of_the_signature() {
        for (identifier, length) in [
            (SHA256[0], 32),
            (SHA256[1], 32),
            (WEAK[1], 32),
            (SHA384[1], 48),
            (SHA512[0], 64),
        ] {
            let hash = end_point(&certificate(identifier)).unwrap();
            assert_eq!(hash.len(), length, "{identifier:x?}");
        }
        assert_eq!(
            end_point(&certificate(&[0x2b, 0x65, 0x70])),
            None,
            "Ed25519"
        );
    }

    #[test]
    fn what_is_cut_off_has_none() {
        let whole = certificate(SHA256[0]);
        for end in 0..whole.len() {
            assert_eq!(end_point(&whole[..end]), None, "{end}");
        }
    }
}
