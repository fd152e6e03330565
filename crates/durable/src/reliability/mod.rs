//! Breakers and limiters: what protects the things that activities call.

mod gate;

pub(crate) use gate::{Gate, Verdict};
