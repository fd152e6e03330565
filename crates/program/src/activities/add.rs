//! `add`.

use everruns_durable::core::strict::Strict;
use everruns_durable::prelude::{Activity, ActivityContext, ActivityResult, async_trait};
use serde::{Deserialize, Serialize};

use super::invalid_input;
use crate::expr::kind;
use crate::number::sum;
use crate::value::Value;

/// `add` {a, b}: answers their sum, as `$add` does.
#[derive(Debug, Clone, Copy)]
pub struct Add;

/// Input of [`Add`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summands {
    a: Value,
    b: Value,
}

#[async_trait]
impl Activity for Add {
    const TYPE: &'static str = "add";
    type Input = Strict<Summands>;
    type Output = Value;

    async fn execute(
        &self,
        _ctx: &ActivityContext,
        Strict(input): Strict<Summands>,
    ) -> ActivityResult<Value> {
        let Summands { a, b } = input;
        if !(a.as_number().is_some() && b.as_number().is_some()) {
            let message = format!(
                "add needs two numbers, and has {} and {}",
                kind(&a),
                kind(&b)
            );
            return Err(invalid_input(message));
        }
        sum(&a, &b).ok_or_else(|| invalid_input(format!("the sum of {a} and {b} overflows")))
    }
}
