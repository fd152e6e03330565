//! The workflow that carries out plans.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use everruns_durable::prelude::*;
use serde_json::{Value, json};

use super::deeds::perform;
use super::{Deed, Plan};

/// What a deed comes to.
pub(super) type Done<'a> = Pin<Box<dyn Future<Output = WorkflowResult<Value>> + Send + 'a>>;

/// Updates that were applied, by name.
pub(super) type Applied = BTreeMap<String, State<Vec<i64>>>;

/// Carries out a plan.
#[workflow]
pub(in crate::sim) async fn planned(
    ctx: WorkflowContext,
    plan: Plan,
) -> WorkflowResult<Vec<Value>> {
    let results = ctx.state(Vec::new());
    let seen = results.clone();
    let iteration = ctx.info().iteration;
    ctx.on_query("results", move |()| (iteration, seen.get()));
    let applied = take_updates(&ctx, &plan);
    let mut outcome = Ok(());
    for deed in &plan.deeds {
        match perform(&ctx, &applied, deed).await {
            Ok(Value::Null) => {}
            Ok(value) => results.update(|all| all.push(value)),
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    if outcome.as_ref().is_err_and(|error| error.is_cancelled()) {
        for deed in &plan.cleanup {
            perform(&ctx, &applied, deed).await?;
        }
    }
    outcome.map(|()| results.get())
}

/// Sets up the updates of a plan before anything else: one that comes early finds its handler.
fn take_updates(ctx: &WorkflowContext, plan: &Plan) -> Applied {
    let mut all = Applied::new();
    for deed in &plan.deeds {
        let Deed::Updates { name, .. } = deed else {
            continue;
        };
        let applied = ctx.state(Vec::new());
        all.insert(name.clone(), applied.clone());
        let inner = ctx.clone();
        ctx.on_update(name.clone(), move |n: i64| {
            let (applied, ctx) = (applied.clone(), inner.clone());
            async move {
                // Odd ones take their time.
                if n % 2 == 1 {
                    ctx.activity_named::<Value>("echo", json!(n)).await?;
                }
                applied.update(|all| all.push(n));
                Ok(n * 2)
            }
        })
        .validate(|n| match *n {
            0.. => Ok(()),
            _ => Err(WorkflowError::new("Negative", "must not be negative")),
        });
    }
    all
}
