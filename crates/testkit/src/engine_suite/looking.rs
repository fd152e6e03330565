//! Queries and validators: they look and leave no trace, whatever they do, and wherever they are asked from.

use everruns_durable::client::Client;
use everruns_durable::engine::EngineBuilder;
use everruns_durable::prelude::*;
use uuid::Uuid;

use super::functions::Noted;
use super::{Arena, Effects, claims};

claims! { "looking":
    a_validator_that_panics_refuses_the_update_and_the_run_goes_on,
    what_a_validator_asks_for_comes_to_nothing,
    a_query_that_panics_is_an_error_and_the_run_goes_on,
    a_finished_run_is_asked_from_elsewhere,
    a_question_from_elsewhere_leaves_no_trace_and_never_sees_half_a_turn,
    an_update_that_nobody_can_take_says_so_and_is_taken_later,
}

fn engine(arena: &Arena, effects: &Effects) -> EngineBuilder {
    arena
        .engine(effects)
        .workflow::<nosy>()
        .workflow::<halves>()
        .activity(Noted(effects.clone()))
}

/// Its validator and its query do all that they must not; the input `"panic"` makes them panic.
#[workflow]
async fn nosy(ctx: WorkflowContext) -> WorkflowResult<Vec<String>> {
    let taken = ctx.state(Vec::new());
    let (of_update, of_query, meddling) = (taken.clone(), taken.clone(), ctx.clone());
    let meddle = move |input: &str| {
        let _ = meddling.now();
        meddling.set_attribute("meddled", true);
        drop(meddling.activity::<Noted>("meddled".to_owned()));
        assert!(input != "panic", "asked to");
    };
    let (looking, ctx_of_update) = (meddle.clone(), ctx.clone());
    ctx.on_query("taken", move |input: String| {
        looking(&input);
        of_query.get()
    });
    ctx.on_update("take", move |input: String| {
        let (taken, ctx) = (of_update.clone(), ctx_of_update.clone());
        async move {
            let noted = ctx.activity::<Noted>(input).await?;
            taken.update(|taken| taken.push(noted));
            Ok(())
        }
    })
    .validate(move |input: &String| {
        meddle(input);
        if input == "bad" {
            return Err(WorkflowError::new("Bad", "no"));
        }
        Ok(())
    });
    ctx.signal::<()>("end").await?;
    ctx.activity::<Noted>("end".to_owned()).await?;
    Ok(taken.get())
}

async fn event_names(client: &Client, run_id: Uuid) -> Vec<&'static str> {
    let history = client.history(run_id).await.expect("there");
    let events = history.events.iter();
    events.map(|event| event.event.event_type()).collect()
}

async fn a_validator_that_panics_refuses_the_update_and_the_run_goes_on(arena: &Arena) {
    let engine = engine(arena, &Effects::new())
        .start()
        .await
        .expect("starts");
    let run = engine.client().start::<nosy>(()).await.expect("starts");
    let refused = run.update("take", "panic").await_result::<()>().await;
    let error = refused.expect_err("refused");
    assert!(error.is_update_failed(), "{error}");
    assert!(error.to_string().contains("asked to"), "{error}");
    let taken = run.update("take", "good").await_result::<()>().await;
    taken.expect("the run goes on");
    run.signal("end", &()).await.expect("sends");
    assert_eq!(run.result().await.expect("completes"), ["good"]);
    engine.shutdown().await.expect("stops");
}

async fn what_a_validator_asks_for_comes_to_nothing(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let client = engine.client();
    let run = client.start::<nosy>(()).await.expect("starts");
    for (input, taken) in [("bad", false), ("one", true), ("bad", false), ("two", true)] {
        let answer = run.update("take", input).await_result::<()>().await;
        assert_eq!(answer.is_ok(), taken, "{input}");
    }
    run.signal("end", &()).await.expect("sends");
    assert_eq!(run.result().await.expect("completes"), ["one", "two"]);
    assert_eq!(effects.all(), ["one", "two", "end"]);
    let names = event_names(&client, run.id()).await;
    assert!(!names.contains(&"side_effect.recorded"), "{names:?}");
    assert!(!names.contains(&"search_attributes.upserted"), "{names:?}");
    let attributes = client.attributes(run.id()).await.expect("there");
    assert!(attributes.is_empty(), "{attributes:?}");
    engine.shutdown().await.expect("stops");
}

async fn a_query_that_panics_is_an_error_and_the_run_goes_on(arena: &Arena) {
    let engine = engine(arena, &Effects::new())
        .start()
        .await
        .expect("starts");
    let run = engine.client().start::<nosy>(()).await.expect("starts");
    for client in [engine.client(), Client::on(arena.store.clone())] {
        let asked = client
            .query::<Vec<String>>(run.id(), "taken", "panic")
            .await;
        let error = asked.expect_err("it panics");
        let why = error.failure().expect("the handler failed");
        assert!(why.message.contains("asked to"), "{error}");
        let asked = client.query::<Vec<String>>(run.id(), "taken", "calm").await;
        assert!(asked.expect("answers").is_empty());
    }
    run.signal("end", &()).await.expect("sends");
    run.result().await.expect("completes");
    engine.shutdown().await.expect("stops");
}

async fn a_finished_run_is_asked_from_elsewhere(arena: &Arena) {
    let engine = engine(arena, &Effects::new())
        .start()
        .await
        .expect("starts");
    let run = engine.client().start::<nosy>(()).await.expect("starts");
    let taken = run.update("take", "one").await_result::<()>().await;
    taken.expect("taken");
    run.signal("end", &()).await.expect("sends");
    run.result().await.expect("completes");
    let elsewhere = Client::on(arena.store.clone());
    let asked = elsewhere.query::<Vec<String>>(run.id(), "taken", "calm");
    assert_eq!(asked.await.expect("answers"), ["one"]);
    let asked = elsewhere.query::<()>(run.id(), "colour", &());
    let error = asked.await.expect_err("there is none");
    assert!(error.is_query_not_found(), "{error}");
    assert!(error.to_string().contains("taken"), "{error}");
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn halves(ctx: WorkflowContext) -> WorkflowResult<()> {
    let pair = ctx.state((0_u32, 0_u32));
    let (seen, inner) = (pair.clone(), ctx.clone());
    ctx.on_query("pair", move |()| {
        let _ = inner.now();
        seen.get()
    });
    for n in 1..=5 {
        pair.update(|pair| pair.0 = n);
        // Between the two halves the turn waits for a local activity.
        ctx.local_activity::<Noted>(format!("half {n}")).await?;
        pair.update(|pair| pair.1 = n);
        ctx.activity::<Noted>(format!("whole {n}")).await?;
    }
    Ok(())
}

async fn a_question_from_elsewhere_leaves_no_trace_and_never_sees_half_a_turn(arena: &Arena) {
    let engine = engine(arena, &Effects::new())
        .start()
        .await
        .expect("starts");
    let run = engine.client().start::<halves>(()).await.expect("starts");
    let elsewhere = Client::on(arena.store.clone());
    loop {
        let pair = elsewhere.query::<(u32, u32)>(run.id(), "pair", &()).await;
        let (a, b) = pair.expect("answers");
        assert_eq!(a, b, "half of a turn was seen");
        if a == 5 {
            break;
        }
    }
    run.result().await.expect("completes");
    let names = event_names(&engine.client(), run.id()).await;
    let traces = names
        .iter()
        .filter(|name| name.starts_with("update.") || **name == "side_effect.recorded");
    assert_eq!(traces.count(), 0, "{names:?}");
    engine.shutdown().await.expect("stops");
}

async fn an_update_that_nobody_can_take_says_so_and_is_taken_later(arena: &Arena) {
    let client = Client::on(arena.store.clone());
    let run = client.start::<nosy>(()).await.expect("starts");
    let update = run.update("take", "early").id("u").await_result::<()>();
    let error = update.await.expect_err("nobody is there");
    assert!(error.is_no_worker_for_type(), "{error}");
    let engine = engine(arena, &Effects::new())
        .start()
        .await
        .expect("starts");
    let update = client.update_handle(run.id(), "u");
    update.result::<()>().await.expect("taken");
    run.signal("end", &()).await.expect("sends");
    assert_eq!(run.result().await.expect("completes"), ["early"]);
    engine.shutdown().await.expect("stops");
}
