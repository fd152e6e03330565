//! `echo`.

use everruns_durable::prelude::{Activity, ActivityContext, ActivityResult, Payload, async_trait};

/// `echo`: answers its input.
#[derive(Debug, Clone, Copy)]
pub struct Echo;

#[async_trait]
impl Activity for Echo {
    const TYPE: &'static str = "echo";
    type Input = Payload;
    type Output = Payload;

    async fn execute(&self, _ctx: &ActivityContext, input: Payload) -> ActivityResult<Payload> {
        Ok(input)
    }
}
