//! The workflow that carries out plans.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use everruns_durable::prelude::*;
use everruns_durable::workflow::{Birth, Program, WorkflowDefinition, function_program};
use serde_json::{Value, json};

use super::deeds::perform;
use super::{Deed, Plan};

/// What a deed comes to.
pub(super) type Done<'a> = Pin<Box<dyn Future<Output = WorkflowResult<Value>> + Send + 'a>>;

/// Updates that were applied, by name.
pub(super) type Applied = BTreeMap<String, State<Vec<i64>>>;

/// Which code carries plans out: the same but for what [`Deed::Patched`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Release {
    /// Before the patches.
    First,
    /// With the patches.
    Second,
}

/// Carries out a plan, with the code of today.
#[workflow]
pub(in crate::sim) async fn planned(
    ctx: WorkflowContext,
    plan: Plan,
) -> WorkflowResult<Vec<Value>> {
    carry_out(ctx, plan, Release::Second).await
}

/// The same workflow as it was before the patches: another build hosts it.
pub(in crate::sim) struct PlannedBefore;

impl WorkflowDefinition for PlannedBefore {
    const TYPE: &'static str = planned::TYPE;
    type Input = Plan;
    type Output = Vec<Value>;

    fn program(birth: Birth) -> Box<dyn Program> {
        function_program::<Self, _, _>(birth, |ctx, plan| carry_out(ctx, plan, Release::First))
    }
}

/// What the deeds of a run share.
pub(super) struct Setting {
    pub(super) ctx: WorkflowContext,
    pub(super) applied: Applied,
    pub(super) release: Release,
}

async fn carry_out(
    ctx: WorkflowContext,
    plan: Plan,
    release: Release,
) -> WorkflowResult<Vec<Value>> {
    let results = ctx.state(Vec::new());
    let seen = results.clone();
    let iteration = ctx.info().iteration;
    ctx.on_query("results", move |()| (iteration, seen.get()));
    let setting = Setting {
        applied: take_updates(&ctx, &plan),
        ctx,
        release,
    };
    let mut outcome = Ok(());
    for deed in &plan.deeds {
        match perform(&setting, deed).await {
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
            perform(&setting, deed).await?;
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
