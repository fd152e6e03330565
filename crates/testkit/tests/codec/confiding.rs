//! An async workflow that has a payload wherever one can have one: side effects, local activities, updates that are refused and
//! taken, signals carried over, a child, a question from elsewhere.

use everruns_durable::Client;
use everruns_durable::engine::EngineBuilder;
use everruns_durable::prelude::*;
use serde_json::{Value, json};

use crate::{canary, payload};

/// Fails with the canary in its details where its input says so.
#[activity]
async fn confide(input: Value) -> ActivityResult<Value> {
    if input["place"] == "doomed" {
        let error = ActivityError::new("Doomed", "no secret").non_retryable();
        return Err(error.with_details(payload("details")));
    }
    Ok(canary("confided"))
}

#[workflow]
async fn confidant(_ctx: WorkflowContext, input: Value) -> WorkflowResult<Value> {
    assert_eq!(input, canary("child"));
    Ok(canary("child result"))
}

#[workflow]
async fn confiding(ctx: WorkflowContext, input: Value) -> WorkflowResult<Value> {
    if input["again"] == true {
        let carried: Value = ctx.signal("carried").await?;
        assert_eq!(carried, canary("carried"));
        return Ok(canary("workflow result"));
    }
    ctx.on_query("secret", |asked: Value| {
        assert_eq!(asked, canary("question"));
        canary("answer")
    });
    ctx.on_update("tell", |told: Value| async move { Ok(told) })
        .validate(|told| {
            if told["place"] == "refused" {
                let refused = WorkflowError::new("Refused", "no secret").into_failure();
                return Err(refused.with_details(payload("details")).into());
            }
            Ok::<(), WorkflowError>(())
        });
    let made: Value = ctx.side_effect(|| canary("side effect"))?;
    assert_eq!(made, canary("side effect"));
    ctx.local_activity::<confide>(canary("local")).await?;
    let failed = ctx.local_activity::<confide>(canary("doomed")).await;
    failed.expect_err("it is doomed");
    ctx.activity::<confide>(canary("queued")).await?;
    ctx.child::<confidant>(canary("child")).await?;
    ctx.signal::<Value>("go").await?;
    ctx.continue_as_new(json!({ "again": true, "secret": canary("continued") }))
}

pub(crate) fn hosting(engine: EngineBuilder) -> EngineBuilder {
    engine
        .workflow::<confiding>()
        .workflow::<confidant>()
        .activity(confide)
}

/// Runs it through all of that; `elsewhere` is a client that does not know its code.
pub(crate) async fn run(client: &Client, elsewhere: &Client) {
    let run = client.start::<confiding>(canary("workflow input"));
    let run = run.memo(&canary("memo")).await.expect("it starts");
    let told = run.update("tell", &canary("told")).await_result::<Value>();
    assert_eq!(told.await.expect("it answers"), canary("told"));
    let refused = run.update("tell", &canary("refused"));
    let error = refused.await_result::<Value>().await.expect_err("refused");
    assert_eq!(error.failure().expect("why").details, payload("details"));
    let question = canary("question");
    let asked = elsewhere.query::<Value>(run.id(), "secret", &question);
    assert_eq!(asked.await.expect("it answers"), canary("answer"));
    for name in ["carried", "go"] {
        let sent = run.signal(name, &canary(name)).await;
        sent.expect("it is taken");
    }
    let result = run.result().await.expect("it completes");
    assert_eq!(result, canary("workflow result"));
}
