//! `fail_n`.

use everruns_durable::core::error_types;
use everruns_durable::core::strict::Strict;
use everruns_durable::prelude::{
    Activity, ActivityContext, ActivityError, ActivityResult, async_trait,
};
use serde::{Deserialize, Serialize};

/// `fail_n` {n, error_type?, non_retryable?}: fails while the attempt is at most n, then answers the attempt.
#[derive(Debug, Clone, Copy)]
pub struct FailN;

/// Input of [`FailN`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failing {
    n: u32,
    #[serde(default = "generic")]
    error_type: String,
    #[serde(default)]
    non_retryable: bool,
}

fn generic() -> String {
    error_types::GENERIC.to_owned()
}

#[async_trait]
impl Activity for FailN {
    const TYPE: &'static str = "fail_n";
    type Input = Strict<Failing>;
    type Output = u32;

    async fn execute(
        &self,
        ctx: &ActivityContext,
        Strict(input): Strict<Failing>,
    ) -> ActivityResult<u32> {
        if ctx.attempt > input.n {
            return Ok(ctx.attempt);
        }
        let message = format!("attempt {} fails, as asked", ctx.attempt);
        let error = ActivityError::new(input.error_type, message);
        Err(if input.non_retryable {
            error.non_retryable()
        } else {
            error
        })
    }
}
