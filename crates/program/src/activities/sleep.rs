//! `sleep`.

use std::time::Duration;

use everruns_durable::core::error_types;
use everruns_durable::core::strict::Strict;
use everruns_durable::prelude::{
    Activity, ActivityContext, ActivityError, ActivityResult, async_trait,
};
use serde::{Deserialize, Serialize};

/// `sleep` {ms, heartbeat_ms?}: sleeps in a worker, with a heartbeat every so often if asked; stops when it is cancelled.
#[derive(Debug, Clone, Copy)]
pub struct SleepFor;

/// Input of [`SleepFor`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sleeping {
    ms: u64,
    #[serde(default)]
    heartbeat_ms: Option<u64>,
}

#[async_trait]
impl Activity for SleepFor {
    const TYPE: &'static str = "sleep";
    type Input = Strict<Sleeping>;
    type Output = ();

    async fn execute(
        &self,
        ctx: &ActivityContext,
        Strict(input): Strict<Sleeping>,
    ) -> ActivityResult<()> {
        let every = input.heartbeat_ms.map(|ms| ms.max(1));
        let mut left = input.ms;
        while left > 0 {
            let nap = every.map_or(left, |every| every.min(left));
            tokio::select! {
                biased;
                () = ctx.cancelled() => return Err(cancelled()),
                () = tokio::time::sleep(Duration::from_millis(nap)) => left -= nap,
            }
            if every.is_some() {
                let slept = serde_json::json!({"slept_ms": input.ms - left});
                ctx.heartbeat_with(&slept).map_err(|_| cancelled())?;
            }
        }
        Ok(())
    }
}

fn cancelled() -> ActivityError {
    ActivityError::new(error_types::CANCELLED, "the sleep was cancelled").non_retryable()
}
