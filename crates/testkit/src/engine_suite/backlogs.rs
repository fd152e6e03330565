//! Runs with more waiting facts than one turn takes.

use std::sync::Arc;

use everruns_durable::Client;
use everruns_durable::core::{Payload, WorkflowEvent};
use everruns_durable::persistence::limits::{
    HISTORY_PAGE_BYTES_MAX, PAYLOAD_BYTES_MAX, TURN_FACTS_BYTES_MAX, TURN_FACTS_MAX,
};
use everruns_durable::persistence::model::{HistoryEvent, NewSignal, SendSignal};
use everruns_durable::prelude::*;
use uuid::Uuid;

use super::{Arena, claims};
use crate::faults::{FaultRates, FaultyStore};

claims! { "backlogs":
    a_backlog_is_taken_in_order_by_several_turns,
    a_run_that_continues_as_new_leaves_the_backlog_where_it_is,
    a_run_continues_as_new_while_signals_stream_in,
    a_run_that_ends_in_the_middle_of_a_backlog_keeps_the_rest_unread,
    a_run_whose_activity_ends_sees_the_backlog_first,
    more_bytes_than_one_call_may_bring_do_not_block_a_run,
    a_run_is_rebuilt_from_a_history_of_several_pages_before_and_after_a_reset,
}

/// Signals that one iteration of the collector takes.
const AN_ITERATION: u64 = 100;

#[workflow]
async fn adds_up(ctx: WorkflowContext, count: u64) -> WorkflowResult<Vec<u64>> {
    let mut seen = Vec::new();
    for _ in 0..count {
        seen.push(ctx.signal::<u64>("n").await?);
    }
    Ok(seen)
}

/// Takes so many signals, a hundred an iteration; answers how many came in their place.
#[workflow]
async fn continues(
    ctx: WorkflowContext,
    (taken, in_place, count): (u64, u64, u64),
) -> WorkflowResult<u64> {
    let mut in_place = in_place;
    for n in taken..taken + AN_ITERATION {
        let got: u64 = ctx.signal("n").await?;
        in_place += u64::from(got == n);
    }
    let taken = taken + AN_ITERATION;
    if taken >= count {
        return Ok(in_place);
    }
    ctx.continue_as_new((taken, in_place, count))
}

/// Counts blobs.
#[workflow]
async fn counts_blobs(ctx: WorkflowContext, count: u64) -> WorkflowResult<u64> {
    for _ in 0..count {
        ctx.signal::<String>("blob").await?;
    }
    Ok(count)
}

/// Ends with its activity, and says how many signals it saw before.
#[workflow]
async fn ends_with_activity(ctx: WorkflowContext, input: ()) -> WorkflowResult<u64> {
    let () = input;
    let mut work = std::pin::pin!(ctx.activity::<gate>(()));
    let mut seen = 0;
    loop {
        tokio::select! {
            biased;
            n = ctx.signal::<u64>("n") => { n?; seen += 1; }
            done = &mut work => { done?; return Ok(seen); }
        }
    }
}

#[activity]
async fn gate(_ctx: ActivityContext, _input: ()) -> ActivityResult<()> {
    Ok(())
}

async fn send(arena: &Arena, run_id: Uuid, name: &str, payloads: impl Iterator<Item = Payload>) {
    let sends: Vec<SendSignal> = payloads
        .zip(1..)
        .map(|(payload, number)| SendSignal {
            run_id,
            signal: NewSignal {
                signal_id: Uuid::from_u128(number),
                signal_type: name.to_owned(),
                payload,
            },
        })
        .collect();
    for some in sends.chunks(if name == "blob" { 8 } else { 1_000 }) {
        let sent = arena.store.send_signals(some.to_vec(), None).await;
        assert_eq!(sent.expect("sent").len(), some.len());
    }
}

fn numbers(count: u64) -> impl Iterator<Item = Payload> {
    (0..count).map(|n| Payload::from_value(&n).expect("JSON"))
}

async fn events(arena: &Arena, run_id: Uuid) -> Vec<HistoryEvent> {
    let mut events: Vec<HistoryEvent> = Vec::new();
    loop {
        let after = events.last().map_or(0, |event| event.sequence_num);
        let history = arena.store.load_history(run_id, after).await;
        let history = history.expect("reads").expect("there");
        let sequence = history.run.sequence;
        events.extend(history.events);
        if events
            .last()
            .is_none_or(|last| last.sequence_num >= sequence)
        {
            return events;
        }
    }
}

fn signals_in(events: &[HistoryEvent]) -> (usize, usize) {
    let is = |event: &HistoryEvent, wanted| matches!(event.event, WorkflowEvent::SignalReceived { unread, .. } if unread == wanted);
    let read = events.iter().filter(|event| is(event, false)).count();
    (read, events.iter().filter(|event| is(event, true)).count())
}

async fn a_backlog_is_taken_in_order_by_several_turns(arena: &Arena) {
    let count = TURN_FACTS_MAX as u64 * 2 + 50;
    let run = Client::on(arena.store.clone()).start::<adds_up>(count);
    let run = run.await.expect("starts");
    send(arena, run.id(), "n", numbers(count)).await;
    let engine = arena.bare().workflow::<adds_up>().start().await;
    let engine = engine.expect("starts");
    let seen = run.result().await.expect("completes");
    assert!(seen.into_iter().eq(0..count));
    engine.shutdown().await.expect("stops");
}

async fn a_run_that_continues_as_new_leaves_the_backlog_where_it_is(arena: &Arena) {
    const COUNT: u64 = 3_000;
    let run = Client::on(arena.store.clone()).start::<continues>((0, 0, COUNT));
    let run = run.await.expect("starts");
    send(arena, run.id(), "n", numbers(COUNT)).await;
    let store = FaultyStore::new(Arc::clone(&arena.store), 0, FaultRates::NONE);
    let store = Arc::new(store);
    let watched = arena.on(Arc::clone(&store) as _);
    let engine = watched.bare().workflow::<continues>().start().await;
    let engine = engine.expect("starts");
    assert_eq!(run.result().await.expect("completes"), COUNT);
    engine.shutdown().await.expect("stops");

    // Each signal is one event and arrived once: an iteration writes what it took, and nothing of
    // what waits behind.
    let all = events(arena, run.id()).await;
    assert_eq!(signals_in(&all), (COUNT as usize, 0));
    let iterations = COUNT / AN_ITERATION;
    assert_eq!(all.len() as u64, COUNT + 2 * iterations);
    let stored = arena.store.get_run(run.id()).await.expect("reads");
    assert_eq!(stored.expect("there").arrivals, COUNT as i64);
    let faults = store.faults();
    let commits = faults.get("commit_turns").map_or(0, |counts| counts.calls);
    assert!(commits <= 2 * iterations, "{commits} commits");
}

async fn a_run_continues_as_new_while_signals_stream_in(arena: &Arena) {
    const COUNT: u64 = 500;
    let engine = arena.bare().workflow::<continues>().start().await;
    let engine = engine.expect("starts");
    let run = engine.client().start::<continues>((0, 0, COUNT)).await;
    let run = run.expect("starts");
    for n in 0..COUNT {
        run.signal("n", &n).await.expect("taken");
    }
    assert_eq!(run.result().await.expect("completes"), COUNT);
    let all = events(arena, run.id()).await;
    assert_eq!(signals_in(&all), (COUNT as usize, 0));
    engine.shutdown().await.expect("stops");
}

async fn a_run_that_ends_in_the_middle_of_a_backlog_keeps_the_rest_unread(arena: &Arena) {
    let (read, sent) = (50, TURN_FACTS_MAX as u64 * 2 + 7);
    let run = Client::on(arena.store.clone()).start::<adds_up>(read);
    let run = run.await.expect("starts");
    send(arena, run.id(), "n", numbers(sent)).await;
    let engine = arena.bare().workflow::<adds_up>().start().await;
    let engine = engine.expect("starts");
    assert_eq!(run.result().await.expect("completes").len() as u64, read);
    let all = events(arena, run.id()).await;
    let unread = (sent - read) as usize;
    assert_eq!(signals_in(&all), (read as usize, unread));
    assert!(all.last().expect("the end").event.is_terminal());
    engine.shutdown().await.expect("stops");
}

async fn a_run_whose_activity_ends_sees_the_backlog_first(arena: &Arena) {
    let sent = TURN_FACTS_MAX as u64 * 3 + 100;
    let run = Client::on(arena.store.clone()).start::<ends_with_activity>(());
    let run = run.await.expect("starts");
    send(arena, run.id(), "n", numbers(sent)).await;
    let engine = arena.bare().workflow::<ends_with_activity>();
    let engine = engine.activity(gate).start().await.expect("starts");
    assert_eq!(run.result().await.expect("completes"), sent);
    let all = events(arena, run.id()).await;
    assert_eq!(signals_in(&all), (sent as usize, 0));
    engine.shutdown().await.expect("stops");
}

async fn more_bytes_than_one_call_may_bring_do_not_block_a_run(arena: &Arena) {
    // More than two turns take. (The limit of a call is far above: 256 MiB would only take longer.)
    let count = 2 * TURN_FACTS_BYTES_MAX / PAYLOAD_BYTES_MAX + 1;
    let run = Client::on(arena.store.clone()).start::<counts_blobs>(count as u64);
    let run = run.await.expect("starts");
    let text = format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX - 2));
    let blob = Payload::from_json_text(text).expect("JSON");
    send(arena, run.id(), "blob", std::iter::repeat_n(blob, count)).await;
    let engine = arena.bare().workflow::<counts_blobs>().start().await;
    let engine = engine.expect("starts");
    assert_eq!(run.result().await.expect("completes"), count as u64);
    engine.shutdown().await.expect("stops");
}

async fn a_run_is_rebuilt_from_a_history_of_several_pages_before_and_after_a_reset(arena: &Arena) {
    let pages = 2 * HISTORY_PAGE_BYTES_MAX / PAYLOAD_BYTES_MAX + 1;
    let client = Client::on(arena.store.clone());
    let run = client.start::<counts_blobs>(pages as u64 + 1).await;
    let run = run.expect("starts");
    let text = format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX - 64));
    let blob = Payload::from_json_text(text).expect("JSON");
    send(arena, run.id(), "blob", std::iter::repeat_n(blob, pages)).await;
    let first = arena.bare().workflow::<counts_blobs>().start().await;
    let first = first.expect("starts");
    while arena.store.load_turns(&[run.id()]).await.expect("reads")[0]
        .as_ref()
        .is_none_or(|turn| turn.run.ready_at.is_some())
    {
        tokio::task::yield_now().await;
    }
    first.shutdown().await.expect("stops");
    // Another engine has only the history. The reset takes the last signal back, which comes again.
    let stored = arena.store.get_run(run.id()).await.expect("reads");
    let last = stored.expect("there").sequence;
    let reset = client.reset_to(run.id(), last - 1).await;
    reset.expect("is reset");
    let second = arena.bare().workflow::<counts_blobs>().start().await;
    let second = second.expect("starts");
    run.signal("blob", &"small").await.expect("taken");
    assert_eq!(run.result().await.expect("completes"), pages as u64 + 1);
    second.shutdown().await.expect("stops");
}
