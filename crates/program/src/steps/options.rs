//! How an activity is run.

use std::time::Duration;

use everruns_durable::prelude::ExhaustedPolicy;

use crate::fields::Fields;
use crate::mistake::Mistake;
use crate::path::Path;
use crate::slot::{Attempts, Slot};
use crate::value::Value;

/// The `options` of an activity; what is left out is the library's default.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) max_attempts: Option<Slot<Attempts>>,
    pub(crate) initial_interval: Option<Slot<Duration>>,
    pub(crate) backoff: Option<Slot<f64>>,
    pub(crate) start_to_close: Option<Slot<Duration>>,
    pub(crate) schedule_to_start: Option<Slot<Duration>>,
    pub(crate) schedule_to_close: Option<Slot<Duration>>,
    pub(crate) heartbeat: Option<Slot<Duration>>,
    pub(crate) priority: Option<Slot<i32>>,
    pub(crate) on_exhausted: Option<Slot<ExhaustedPolicy>>,
}

impl Options {
    pub(super) fn parse(value: &Value, path: &Path<'_>) -> Result<Self, Mistake> {
        let fields = Fields::of(value, path, "an object of options")?;
        let options = Self {
            max_attempts: fields.optional_slot("max_attempts")?,
            initial_interval: fields.optional_slot("initial_interval_ms")?,
            backoff: fields.optional_slot("backoff")?,
            start_to_close: fields.optional_slot("start_to_close_ms")?,
            schedule_to_start: fields.optional_slot("schedule_to_start_ms")?,
            schedule_to_close: fields.optional_slot("schedule_to_close_ms")?,
            heartbeat: fields.optional_slot("heartbeat_ms")?,
            priority: fields.optional_slot("priority")?,
            on_exhausted: fields.optional_slot("on_exhausted")?,
        };
        fields.finish("an activity's options")?;
        Ok(options)
    }
}
