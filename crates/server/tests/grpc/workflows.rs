//! Workflow code over the wire: turns, replays, queries, and workers that die or lie.

use durable_proto::v1;
use everruns_durable::client::{RunHandle, Untyped};
use everruns_durable::core::Payload;
use v1::action::Action;
use v1::item::Item;
use v1::server_message::Message as FromServer;
use v1::worker_message::Message as FromWorker;

use crate::place::{Caller, Place};
use crate::workman::{Workman, hello, step, workflow_type};

fn host(worker_id: &str, build: &str) -> v1::Hello {
    v1::Hello {
        workflow_types: vec![workflow_type("trip")],
        build: build.to_owned(),
        ..hello(worker_id)
    }
}

async fn start(place: &Place) -> RunHandle<Untyped> {
    let input = Payload::from_value("Rome").expect("JSON");
    place
        .client()
        .start_named("trip", input)
        .await
        .expect("started")
}

async fn connect(caller: &mut Caller, worker_id: &str, build: &str) -> Workman {
    Workman::connect(caller, host(worker_id, build))
        .await
        .expect("welcomed")
}

fn timer(id: &str, ms: u64) -> Action {
    Action::StartTimer(v1::StartTimer {
        timer_id: id.to_owned(),
        duration_ms: ms,
    })
}

fn complete(result: &'static str) -> Action {
    Action::CompleteWorkflow(v1::CompleteWorkflow {
        result: result.into(),
    })
}

fn kinds(activation: &v1::Activation) -> Vec<(&'static str, bool)> {
    let name = |item: &Item| match item {
        Item::Started(_) => "started",
        Item::TimerFired(_) => "timer",
        Item::SignalReceived(_) => "signal",
        Item::QueryAsked(_) => "query",
        Item::CancelRequested(_) => "cancel",
        Item::UpdateReceived(_) => "update",
        Item::ChildCompleted(_) => "child",
        _ => "other",
    };
    let items = activation.items.iter();
    items
        .map(|item| (name(item.item.as_ref().unwrap()), item.replayed))
        .collect()
}

#[tokio::test]
async fn run_is_turned_by_a_worker_that_knows_only_the_contract() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let mut workman = connect(&mut caller, "w", "one").await;
    let run = start(&place).await;
    let first = workman.activation().await;
    assert!(first.from_start);
    assert_eq!(kinds(&first), [("started", false)]);
    workman
        .answer(&first, vec![step(vec![timer("t", 1)])])
        .await;
    let second = workman.activation().await;
    assert!(
        !second.from_start,
        "only what is new, to a worker that keeps the run"
    );
    assert_eq!(
        (second.after_items, kinds(&second)),
        (1, vec![("timer", false)])
    );
    workman
        .answer(&second, vec![step(vec![complete("\"there\"")])])
        .await;
    let result: String = run.result().await.unwrap().to_value().unwrap();
    assert_eq!(result, "there");
    let FromServer::ForgetRun(forget) = workman.hear().await.unwrap() else {
        panic!("the instance is not needed any more");
    };
    assert_eq!(forget.run_id, run.id().to_string());
}

#[tokio::test]
async fn worker_lost_in_mid_turn_commits_nothing_and_another_takes_the_run() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let mut dead = connect(&mut caller, "dead", "one").await;
    let run = start(&place).await;
    let first = dead.activation().await;
    dead.answer(&first, vec![step(vec![timer("t", 1)])]).await;
    let second = dead.activation().await;
    assert_eq!(kinds(&second), [("timer", false)]);
    drop((dead, caller));
    let mut caller = place.caller(None).await;
    let mut heir = connect(&mut caller, "heir", "one").await;
    let all = heir.activation().await;
    assert!(all.from_start);
    assert_eq!(kinds(&all), [("started", true), ("timer", false)]);
    let steps = vec![step(vec![timer("t", 1)]), step(vec![complete("1")])];
    heir.answer(&all, steps).await;
    assert!(run.result().await.is_ok());
}

#[tokio::test]
async fn code_that_is_not_the_one_that_made_the_history_blocks_the_run_until_other_code_comes() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let mut workman = connect(&mut caller, "old", "one").await;
    let run = start(&place).await;
    let first = workman.activation().await;
    workman
        .answer(&first, vec![step(vec![timer("t", 1)])])
        .await;
    workman.activation().await;
    drop((workman, caller));
    let mut caller = place.caller(None).await;
    let mut wrong = connect(&mut caller, "wrong", "two").await;
    let all = wrong.activation().await;
    let steps = vec![step(vec![timer("other", 1)]), step(vec![complete("1")])];
    wrong.answer(&all, steps).await;
    let blocked = loop {
        let record = run.get().await.unwrap();
        match record.blocked {
            Some(blocked) => break blocked,
            None => tokio::task::yield_now().await,
        }
    };
    assert_eq!(blocked.build, "two");
    assert!(blocked.reason.contains("other"), "{}", blocked.reason);
    let mut mended = connect(&mut caller, "mended", "three").await;
    let all = mended.activation().await;
    let steps = vec![step(vec![timer("t", 1)]), step(vec![complete("2")])];
    mended.answer(&all, steps).await;
    assert!(run.result().await.is_ok());
}

#[tokio::test]
async fn worker_that_did_not_keep_the_run_is_told_everything() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let mut workman = connect(&mut caller, "w", "one").await;
    let run = start(&place).await;
    let first = workman.activation().await;
    workman
        .answer(&first, vec![step(vec![timer("t", 1)])])
        .await;
    let second = workman.activation().await;
    workman
        .say(FromWorker::TurnAnswer(v1::TurnAnswer {
            activation_id: second.activation_id,
            answer: Some(v1::turn_answer::Answer::NotKept(v1::NotKept {})),
        }))
        .await;
    let all = workman.activation().await;
    assert!(all.from_start);
    let steps = vec![step(vec![timer("t", 1)]), step(vec![complete("1")])];
    workman.answer(&all, steps).await;
    assert!(run.result().await.is_ok());
}

#[tokio::test]
async fn query_is_answered_by_an_instance_of_its_own() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let mut workman = connect(&mut caller, "w", "one").await;
    let run = start(&place).await;
    let first = workman.activation().await;
    workman
        .answer(&first, vec![step(vec![timer("t", 60_000)])])
        .await;
    let (client, run_id) = (place.client(), run.id());
    let asked = tokio::spawn(async move { client.query::<i64>(run_id, "where", &1).await });
    let query = workman.activation().await;
    assert!(query.ephemeral && query.from_start);
    assert_eq!(kinds(&query), [("started", true), ("query", false)]);
    let answer = v1::query_answer::Answer::Result("7".into());
    let answered = v1::Step {
        query: Some(v1::QueryAnswer {
            answer: Some(answer),
        }),
        ..v1::Step::default()
    };
    let steps = vec![step(vec![timer("t", 60_000)]), answered];
    workman.answer(&query, steps).await;
    assert_eq!(asked.await.unwrap().unwrap(), 7);
}

#[tokio::test]
async fn signals_updates_and_side_effects_are_on_record() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let mut workman = connect(&mut caller, "w", "one").await;
    let run = start(&place).await;
    let first = workman.activation().await;
    let mut noted = step(vec![timer("t", 60_000)]);
    let effect = v1::SideEffect {
        effect_id: "dice".to_owned(),
        value: "6".into(),
    };
    noted.memories = vec![v1::Memory {
        memory: Some(v1::memory::Memory::SideEffect(effect)),
    }];
    workman.answer(&first, vec![noted]).await;
    run.signal("ping", &"hello").await.unwrap();
    let signal = workman.activation().await;
    assert_eq!(kinds(&signal), [("signal", false)]);
    workman.answer(&signal, vec![v1::Step::default()]).await;
    let (client, run_id) = (place.client(), run.id());
    let refused = tokio::spawn(async move {
        client
            .update(run_id, "set", &1)
            .await_result::<String>()
            .await
    });
    let update = workman.activation().await;
    assert_eq!(kinds(&update), [("update", false)]);
    let no = v1::Step {
        refused: Some(v1::Failure {
            r#type: "No".to_owned(),
            ..v1::Failure::default()
        }),
        ..v1::Step::default()
    };
    workman.answer(&update, vec![no]).await;
    assert!(
        refused
            .await
            .unwrap()
            .unwrap_err()
            .failure()
            .unwrap()
            .is("No")
    );
    drop((workman, caller));
    let mut caller = place.caller(None).await;
    let mut heir = connect(&mut caller, "heir", "one").await;
    run.signal("ping", &"again").await.unwrap();
    let all = heir.activation().await;
    // Nothing is on record for the first signal, so that it may not have been answered.
    let expected = [("started", true), ("signal", false), ("signal", false)];
    assert_eq!(kinds(&all), expected, "a refused update leaves no trace");
    let Some(v1::memory::Memory::SideEffect(kept)) = &all.items[0].memories[0].memory else {
        panic!("{:?}", all.items[0].memories);
    };
    assert_eq!((&*kept.effect_id, &kept.value[..]), ("dice", &b"6"[..]));
    let end = step(vec![complete("1")]);
    let steps = vec![step(vec![timer("t", 60_000)]), v1::Step::default(), end];
    heir.answer(&all, steps).await;
    assert!(run.result().await.is_ok());
}

#[tokio::test]
async fn nonsense_from_a_worker_blocks_its_run_and_harms_nobody_else() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let mut workman = connect(&mut caller, "w", "one").await;
    let run = start(&place).await;
    let first = workman.activation().await;
    workman.answer(&first, Vec::new()).await;
    loop {
        if let Some(blocked) = run.get().await.unwrap().blocked {
            assert!(
                blocked.reason.contains("0 steps for 1 items"),
                "{}",
                blocked.reason
            );
            break;
        }
        tokio::task::yield_now().await;
    }
    let other = start(&place).await;
    let second = workman.activation().await;
    workman
        .answer(&second, vec![step(vec![complete("1")])])
        .await;
    assert!(other.result().await.is_ok());
}

#[tokio::test]
async fn what_the_code_gave_up_in_the_same_turn_does_not_count() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let mut workman = connect(&mut caller, "w", "one").await;
    let run = start(&place).await;
    let first = workman.activation().await;
    workman
        .answer(&first, vec![step(vec![timer("a", 1), timer("b", 1)])])
        .await;
    // Both fire; however they arrive, the first of them gives the other up.
    let other = |item: &v1::Item| match item.item.as_ref().unwrap() {
        Item::TimerFired(fired) if fired.timer_id == "a" => "b",
        _ => "a",
    };
    let give_up = |id: &str| {
        Action::CancelTimer(v1::CancelTimer {
            timer_id: id.to_owned(),
        })
    };
    let fired = workman.activation().await;
    let mut steps = vec![step(vec![give_up(other(&fired.items[0])), timer("c", 1)])];
    let both_at_once = fired.items.len() == 2;
    if both_at_once {
        steps.push(step(vec![timer("wrong", 1)]));
    }
    let last_given_up = other(&fired.items[0]).to_owned();
    workman.answer(&fired, steps).await;
    let is_last = |next: &v1::Activation| {
        let last = next.items.last().unwrap().item.as_ref().unwrap();
        matches!(last, Item::TimerFired(fired) if fired.timer_id == "c")
    };
    let again = || {
        vec![
            step(vec![timer("a", 1), timer("b", 1)]),
            step(vec![give_up(&last_given_up), timer("c", 1)]),
        ]
    };
    let mut next = workman.activation().await;
    let mut from_start = false;
    while !is_last(&next) {
        // The one that was given up has left the inbox, and the instance is made anew for it.
        assert_eq!(next.items.len(), 2, "{next:?}");
        from_start = true;
        workman.answer(&next, again()).await;
        next = workman.activation().await;
    }
    if both_at_once {
        let anew = from_start || next.from_start;
        assert!(anew, "the instance had seen what does not count");
    }
    let mut steps = vec![step(vec![complete("1")])];
    if next.from_start {
        steps = again();
        steps.push(step(vec![complete("1")]));
    }
    workman.answer(&next, steps).await;
    assert!(run.result().await.is_ok());
}
