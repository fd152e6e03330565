//! A payload of 4 MB that no database can compress, with a number in front.

use std::sync::Arc;

/// Length of the text behind the number.
pub(super) const BYTES: usize = 4_000_000;

/// The text that all payloads share; each puts its number in front.
#[derive(Clone)]
pub(super) struct Blob(Arc<str>);

impl Blob {
    /// Letters and digits in the order of a linear congruence: no escapes in JSON, nothing for a
    /// compressor.
    pub(super) fn new() -> Self {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let text: String = (0..BYTES)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let index = usize::try_from(state >> 58).unwrap_or_default();
                char::from(LETTERS[index % LETTERS.len()])
            })
            .collect();
        Self(text.into())
    }

    /// The bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Length of payload `number` as text.
pub(super) fn length(number: usize) -> usize {
    BYTES + 1 + number.to_string().len()
}

/// The sum of the numbers of so many payloads, counted from 1.
pub(super) fn sum(payloads: usize) -> u64 {
    let payloads = payloads as u64;
    payloads * (payloads + 1) / 2
}
