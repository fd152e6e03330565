//! Workflows as async functions: facts in, exact actions out, and the same again on every replay.

mod asynchronous;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use asynchronous::{
    Live, activity, answered, call, child, fired, given_up, signal, started, timer, with_memories,
};
use durable_core::function::{Scope, UpdateHandler};
use durable_core::{
    Fact, Failure, Payload, ProgramError, QueryError, RequestKind, TurnError, WorkflowAction as A,
    WorkflowError, WorkflowEvent as E, error_types,
};

fn text(value: &str) -> Payload {
    Payload::from_value(value).unwrap()
}

#[test]
fn sequential_awaits_ask_one_after_the_other() {
    let mut run = Live::new(|ctx| async move {
        let a = call(&ctx, "a").await?;
        let b = call(&ctx, "b").await?;
        Ok(text(&format!(
            "{}{}",
            a.to_value::<String>()?,
            b.to_value::<String>()?
        )))
    });
    assert_eq!(run.take(started()), [activity(1, "a")]);
    assert_eq!(run.take(answered(1, "x")), [activity(2, "b")]);
    let end = A::CompleteWorkflow { result: text("xy") };
    assert_eq!(run.take(answered(2, "y")), [end]);
    run.every_prefix_replays();
}

#[test]
fn branches_get_their_ids_when_they_are_made_and_not_when_they_are_polled() {
    let mut run = Live::new(|ctx| async move {
        let a = call(&ctx, "a");
        let b = call(&ctx, "b");
        // Polled the other way round.
        let (b, a) = futures_join(b, a).await;
        Ok(text(&format!(
            "{}{}",
            a?.to_value::<String>()?,
            b?.to_value::<String>()?
        )))
    });
    assert_eq!(run.take(started()), [activity(1, "a"), activity(2, "b")]);
    assert_eq!(run.take(answered(2, "y")), []);
    let end = A::CompleteWorkflow { result: text("xy") };
    assert_eq!(run.take(answered(1, "x")), [end]);
    run.every_prefix_replays();
}

#[test]
fn loser_of_a_race_is_given_up_and_its_late_result_changes_nothing() {
    let mut run = Live::new(|ctx| async move {
        let winner = first_of(call(&ctx, "slow"), timer_of(&ctx, 5)).await;
        call(&ctx, if winner == 0 { "won" } else { "late" }).await
    });
    assert_eq!(run.take(started()), [activity(1, "slow"), timer(2, 5)]);
    assert_eq!(run.take(fired(2)), [given_up(1), activity(3, "late")]);
    run.every_prefix_replays();
}

#[test]
fn what_is_asked_for_and_dropped_in_one_step_never_happened() {
    let mut run = Live::new(|ctx| async move {
        let ready = std::future::ready(Ok(Payload::null()));
        first_of(call(&ctx, "a"), ready).await;
        call(&ctx, "b").await
    });
    assert_eq!(run.take(started()), [activity(2, "b")]);
}

#[test]
fn dropped_child_is_asked_to_stop() {
    let mut run = Live::new(|ctx| async move {
        let winner = first_of(child_of(&ctx, "c"), timer_of(&ctx, 5)).await;
        Ok(Payload::from_value(&winner).unwrap())
    });
    assert_eq!(run.take(started()), [child(1, "c"), timer(2, 5)]);
    let stop = A::CancelChildWorkflow {
        workflow_id: "1".into(),
    };
    let end = A::CompleteWorkflow {
        result: Payload::from_value(&1).unwrap(),
    };
    assert_eq!(run.take(fired(2)), [stop, end]);
    run.every_prefix_replays();
}

#[test]
fn signals_are_read_in_order_by_name_and_early_ones_wait() {
    let mut run = Live::new(|ctx| async move {
        call(&ctx, "first").await?;
        let here = std::panic::Location::caller();
        let a = ctx.signal("go", here).await?;
        let b = ctx.signal("go", here).await?;
        Ok(text(&format!("{:?} {:?}", a.payload, b.payload)))
    });
    run.take(started());
    assert_eq!(run.take(signal("go", "1")), []);
    assert_eq!(run.take(signal("other", "9")), []);
    assert_eq!(run.take(answered(1, "x")), []);
    let [A::CompleteWorkflow { result }] = &run.take(signal("go", "2"))[..] else {
        panic!("not completed");
    };
    let expected = format!("{:?} {:?}", text("1"), text("2"));
    assert_eq!(result.to_value::<String>().unwrap(), expected);
    let unread: Vec<_> = run.state.take_unread();
    assert_eq!(unread.len(), 1);
    assert_eq!(unread[0].signal_type, "other");
    run.every_prefix_replays();
}

#[test]
fn wait_that_is_dropped_leaves_the_signal_to_the_next_one() {
    let mut run = Live::new(|ctx| async move {
        let here = std::panic::Location::caller();
        let early = async { ctx.signal("go", here).await.map(|signal| signal.payload) };
        first_of(early, timer_of(&ctx, 5)).await;
        ctx.signal("go", here).await.map(|signal| signal.payload)
    });
    assert_eq!(run.take(started()), [timer(1, 5)]);
    assert_eq!(run.take(fired(1)), []);
    let end = A::CompleteWorkflow {
        result: text("late"),
    };
    assert_eq!(run.take(signal("go", "late")), [end]);
    run.every_prefix_replays();
}

#[test]
fn side_effect_is_made_once() {
    let made = Arc::new(Mutex::new(0));
    let count = Arc::clone(&made);
    let mut run = Live::new(move |ctx| {
        let count = Arc::clone(&count);
        async move {
            let value = ctx.side_effect(|| -> Result<_, WorkflowError> {
                let mut made = count.lock().unwrap();
                *made += 1;
                Ok(Payload::from_value(&*made).unwrap())
            })?;
            call(&ctx, "a").await?;
            Ok(value)
        }
    });
    assert_eq!(run.take(started()), [activity(2, "a")]);
    assert_eq!(
        run.event_names(),
        [
            "workflow.started",
            "side_effect.recorded",
            "activity.scheduled"
        ]
    );
    run.every_prefix_replays();
    let end = A::CompleteWorkflow {
        result: Payload::from_value(&1).unwrap(),
    };
    assert_eq!(run.take(answered(1, "x")), []);
    assert_eq!(run.take(answered(2, "x")), [end]);
    assert_eq!(*made.lock().unwrap(), 1);
}

#[test]
fn side_effect_that_history_lacks_is_a_divergence_at_its_line() {
    let mut old = Live::new(|ctx| async move { call(&ctx, "a").await });
    old.take(started());
    let error = old
        .replay_with(|ctx| async move {
            let made = ctx.side_effect(|| Ok::<_, WorkflowError>(Payload::null()))?;
            call(&ctx, "a").await?;
            Ok(made)
        })
        .err()
        .expect("a divergence")
        .to_string();
    assert!(error.contains("record side effect \"1\""), "{error}");
    assert!(error.contains("function.rs:"), "{error}");
}

#[test]
fn divergence_tells_both_sides_the_line_and_the_mend() {
    let mut old = Live::new(|ctx| async move { call(&ctx, "a").await });
    old.take(started());
    let error = old
        .replay_with(|ctx| async move { timer_of(&ctx, 5).await })
        .err()
        .expect("a divergence")
        .to_string();
    for part in [
        "history has \"schedule activity \"1\" of type \"a\"\"",
        "the code asks to \"start timer \"1\"\"",
        "asynchronous/mod.rs:",
        "ctx.patched(",
    ] {
        assert!(error.contains(part), "{part:?} is not in {error}");
    }
}

#[test]
fn run_past_the_patch_keeps_the_old_side_and_a_new_run_takes_the_new_one() {
    let new_code = |ctx: durable_core::function::Context| async move {
        let name = if ctx.patched("p") { "new" } else { "old" };
        call(&ctx, name).await?;
        call(&ctx, if ctx.patched("p") { "new2" } else { "old2" }).await
    };
    let mut old = Live::new(|ctx| async move {
        call(&ctx, "old").await?;
        call(&ctx, "old2").await
    });
    old.take(started());
    let mut moved = old.replay_with(new_code).unwrap();
    assert_eq!(moved.take(answered(1, "x")), [activity(2, "old2")]);
    moved.every_prefix_replays();
    let mut fresh = Live::new(new_code);
    assert_eq!(fresh.take(started()), [activity(1, "new")]);
    assert_eq!(fresh.take(answered(1, "x")), [activity(2, "new2")]);
    assert!(fresh.event_names().contains(&"patch.marked"));
    fresh.every_prefix_replays();
}

#[test]
fn patch_that_is_removed_from_the_code_still_replays() {
    let mut run = Live::new(|ctx| async move {
        let name = if ctx.patched("p") { "new" } else { "old" };
        call(&ctx, name).await
    });
    run.take(started());
    run.replay_with(|ctx| async move { call(&ctx, "new").await })
        .unwrap();
}

#[test]
fn request_to_stop_reaches_everything_that_is_waited_for_and_cleaning_up_works() {
    let mut run = Live::new(|ctx| async move {
        let error = call(&ctx, "long").await.unwrap_err();
        assert!(error.is_cancelled());
        call(&ctx, "clean").await?;
        Err(error)
    });
    run.take(started());
    assert_eq!(
        run.take(signal("cancel", "enough")),
        [given_up(1), activity(2, "clean")]
    );
    let end = A::CancelWorkflow {
        reason: "enough".into(),
    };
    assert_eq!(run.take(answered(2, "x")), [end]);
    run.every_prefix_replays();
}

#[test]
fn what_is_shielded_goes_on_when_the_run_is_asked_to_stop() {
    let mut run = Live::new(|ctx| async move {
        let inner = ctx.clone();
        let release = ctx.shield(async move { call(&inner, "release").await });
        let (released, other) = futures_join(release, call(&ctx, "other")).await;
        assert!(other.is_err_and(|error| error.is_cancelled()));
        released?;
        Err(WorkflowError::cancelled("as asked"))
    });
    let both = [activity(1, "other"), activity(2, "release")];
    assert_eq!(run.take(started()), both);
    assert_eq!(run.take(signal("cancel", "enough")), [given_up(1)]);
    let end = A::CancelWorkflow {
        reason: "enough".into(),
    };
    assert_eq!(run.take(answered(2, "x")), [end]);
    run.every_prefix_replays();
}

#[test]
fn awaiting_something_foreign_is_an_error_that_names_the_mend() {
    let mut run = Live::new(|_ctx| async move {
        std::future::pending::<()>().await;
        Ok(Payload::null())
    });
    let Err(TurnError::Program(error @ ProgramError::Foreign { .. })) = run.try_take(&started())
    else {
        panic!("not noticed");
    };
    assert!(!error.fails_the_run());
    assert!(error.to_string().contains("ctx.sleep"), "{error}");
}

#[test]
fn wake_from_outside_is_noticed_beside_something_of_the_contexts() {
    let waker = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&waker);
    let mut run = Live::new(move |ctx| {
        let seen = Arc::clone(&seen);
        async move {
            let foreign = std::future::poll_fn(move |cx| {
                *seen.lock().unwrap() = Some(cx.waker().clone());
                std::task::Poll::<Result<Payload, WorkflowError>>::Pending
            });
            first_of(foreign, call(&ctx, "a")).await;
            call(&ctx, "b").await
        }
    });
    run.take(started());
    waker.lock().unwrap().take().expect("polled").wake();
    let error = run.try_take(&answered(1, "x")).unwrap_err();
    assert!(
        matches!(error, TurnError::Program(ProgramError::Foreign { .. })),
        "{error}"
    );
}

#[test]
fn self_wake_is_not_foreign() {
    let mut run = Live::new(|ctx| async move {
        let mut yielded = false;
        std::future::poll_fn(|cx| {
            if std::mem::replace(&mut yielded, true) {
                return std::task::Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            std::task::Poll::Pending
        })
        .await;
        call(&ctx, "a").await
    });
    assert_eq!(run.take(started()), [activity(1, "a")]);
}

#[test]
fn query_sees_the_state_and_leaves_no_trace() {
    let mut run = Live::new(|ctx| async move {
        let seen = Arc::new(Mutex::new(0));
        let count = Arc::clone(&seen);
        let of_query = ctx.clone();
        let answer = move |_: &Payload| {
            // A call made in a query is never polled and must not take a place.
            drop(call(&of_query, "never"));
            Payload::from_value(&*count.lock().unwrap())
                .map_err(|e| Failure::new("E", e.to_string()))
        };
        ctx.on_query("seen", Arc::new(answer));
        loop {
            ctx.signal("add", std::panic::Location::caller()).await?;
            *seen.lock().unwrap() += 1;
            call(&ctx, "added").await?;
        }
    });
    run.take(started());
    let ask = |run: &Live| run.state.program().query("seen", &Payload::null()).unwrap();
    assert_eq!(ask(&run).to_value::<i32>().unwrap(), 0);
    assert_eq!(run.take(signal("add", "x")), [activity(1, "added")]);
    assert_eq!(ask(&run).to_value::<i32>().unwrap(), 1);
    run.every_prefix_replays();
    let error = run.state.program().query("other", &Payload::null());
    let Err(QueryError::NotFound { known, .. }) = error else {
        panic!("found");
    };
    assert_eq!(known, ["seen"]);
}

#[test]
fn update_is_checked_before_and_answered_after() {
    let mut run = Live::new(|ctx| async move {
        let of_update = ctx.clone();
        let handler = UpdateHandler {
            run: Arc::new(move |input| {
                let ctx = of_update.clone();
                Box::pin(async move {
                    call(&ctx, "apply")
                        .await
                        .map_err(WorkflowError::into_failure)?;
                    Ok(input)
                })
            }),
            validate: Some(Arc::new(|input| match input.to_value::<i64>() {
                Ok(amount) if amount > 0 => Ok(()),
                _ => Err(Failure::new("NotPositive", "must be positive")),
            })),
        };
        ctx.on_update("deposit", handler);
        ctx.signal("end", std::panic::Location::caller())
            .await
            .map(|signal| signal.payload)
    });
    run.take(started());
    let check = |run: &Live, amount: i64| {
        let input = Payload::from_value(&amount).unwrap();
        run.state.program().validate_update("deposit", &input)
    };
    assert_eq!(check(&run, -1).unwrap_err().error_type, "NotPositive");
    assert!(check(&run, 5).is_ok());
    let accepted = |id: &str| Fact::UpdateAccepted {
        update_id: id.into(),
        name: "deposit".into(),
        input: Payload::from_value(&5).unwrap(),
    };
    assert_eq!(run.take(accepted("u")), [activity(1, "apply")]);
    let answer = A::CompleteUpdate {
        update_id: "u".into(),
        result: Payload::from_value(&5).unwrap(),
    };
    assert_eq!(run.take(answered(1, "x")), [answer]);
    assert_eq!(run.take(accepted("v")), [activity(2, "apply")]);
    let actions = run.take(signal("end", "done"));
    assert!(
        matches!(&actions[0], A::FailUpdate { update_id, .. } if update_id == "v"),
        "{actions:?}"
    );
    assert!(
        matches!(&actions[1], A::CompleteWorkflow { .. }),
        "{actions:?}"
    );
    run.every_prefix_replays();
}

#[test]
fn update_that_ends_the_run_is_answered() {
    let mut run = Live::new(|ctx| async move {
        let ended = Arc::new(Mutex::new(false));
        let by_update = Arc::clone(&ended);
        let handler = UpdateHandler {
            run: Arc::new(move |input| {
                *by_update.lock().unwrap() = true;
                Box::pin(async move { Ok(input) })
            }),
            validate: None,
        };
        ctx.on_update("end", handler);
        let holds = move || *ended.lock().unwrap();
        ctx.until(holds, std::panic::Location::caller()).await?;
        Ok(Payload::null())
    });
    run.take(started());
    let update = Fact::UpdateAccepted {
        update_id: "u".into(),
        name: "end".into(),
        input: Payload::null(),
    };
    let answer = A::CompleteUpdate {
        update_id: "u".into(),
        result: Payload::null(),
    };
    let end = A::CompleteWorkflow {
        result: Payload::null(),
    };
    assert_eq!(run.take(update), [answer, end]);
    run.every_prefix_replays();
}

#[test]
fn waits_for_signals_and_conditions_are_shielded_too() {
    let mut run = Live::new(|ctx| async move {
        let done = Arc::new(Mutex::new(false));
        let look = Arc::clone(&done);
        let inner = ctx.clone();
        let here = std::panic::Location::caller();
        let signal = ctx.shield(async move {
            inner.signal("go", here).await?;
            *done.lock().unwrap() = true;
            Ok(Payload::null())
        });
        let inner = ctx.clone();
        let condition = ctx.shield(async move {
            inner.until(move || *look.lock().unwrap(), here).await?;
            call(&inner, "both").await
        });
        let (signal, condition) = futures_join(signal, condition).await;
        signal.and(condition)
    });
    run.take(started());
    assert_eq!(run.take(signal("cancel", "enough")), []);
    assert_eq!(run.take(signal("go", "now")), [activity(1, "both")]);
    run.every_prefix_replays();
}

#[test]
fn scope_that_is_cancelled_gives_up_what_runs_in_it() {
    let mut run = Live::new(|ctx| async move {
        let scope = Scope::new();
        let abort = scope.clone();
        let handler: durable_core::function::SignalHandler = Arc::new(move |_| {
            abort.cancel();
            true
        });
        ctx.on_signal("abort", &handler);
        let done = scope.run(call(&ctx, "long")).await;
        Ok(Payload::from_value(&done.is_some()).unwrap())
    });
    run.take(started());
    let end = A::CompleteWorkflow {
        result: Payload::from_value(&false).unwrap(),
    };
    assert_eq!(run.take(signal("abort", "now")), [given_up(1), end]);
    run.every_prefix_replays();
}

#[test]
fn condition_is_looked_at_after_everything_that_happens() {
    let mut run = Live::new(|ctx| async move {
        let count = Arc::new(Mutex::new(0));
        let (add, look) = (Arc::clone(&count), Arc::clone(&count));
        let handler: durable_core::function::SignalHandler = Arc::new(move |_| {
            *add.lock().unwrap() += 1;
            true
        });
        ctx.on_signal("add", &handler);
        ctx.until(
            move || *look.lock().unwrap() == 2,
            std::panic::Location::caller(),
        )
        .await?;
        Ok(Payload::null())
    });
    run.take(started());
    assert_eq!(run.take(signal("add", "x")), []);
    let end = A::CompleteWorkflow {
        result: Payload::null(),
    };
    assert_eq!(run.take(signal("add", "x")), [end]);
    run.every_prefix_replays();
}

#[test]
fn failure_of_an_activity_is_told_with_its_cause() {
    let mut run = Live::new(|ctx| async move {
        let error = call(&ctx, "a").await.unwrap_err();
        assert_eq!(error.error_type, error_types::ACTIVITY_FAILED);
        assert!(error.is("CardDeclined"));
        Err(error)
    });
    run.take(started());
    let failed = Fact::ActivityFailed {
        activity_id: "1".into(),
        error: Failure::new("CardDeclined", "no money"),
    };
    let actions = run.take(failed);
    assert!(matches!(&actions[..], [A::FailWorkflow { error }] if error.is("CardDeclined")));
    run.every_prefix_replays();
}

#[test]
fn continuation_is_asked_for_with_its_input() {
    let mut run = Live::new(|ctx| async move {
        call(&ctx, "a").await?;
        ctx.continue_with(text("next"));
        Err(WorkflowError::new(error_types::CONTINUE_AS_NEW, "on"))
    });
    run.take(started());
    let end = A::ContinueAsNew {
        input: text("next"),
    };
    assert_eq!(run.take(answered(1, "x")), [end]);
}

#[test]
fn step_that_records_only_memories_was_decided() {
    let program = |ctx: durable_core::function::Context| async move {
        let _ = ctx.patched("p");
        ctx.signal("go", std::panic::Location::caller())
            .await
            .map(|signal| signal.payload)
    };
    let events = with_memories(vec![
        E::WorkflowStarted {
            input: Payload::null(),
        },
        E::PatchMarked {
            patch_id: "p".into(),
        },
    ]);
    let mut run = Live::resumed(program, events);
    assert_eq!(run.resumed_events(), 0);
    let actions = run.take(signal("go", "x"));
    assert!(matches!(&actions[..], [A::CompleteWorkflow { .. }]));
    assert_eq!(
        RequestKind::RecordSideEffect.to_string(),
        "record side effect"
    );
}

/// Both, polled in the order given.
async fn futures_join<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (Box::pin(a), Box::pin(b));
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(|cx| {
        if first.is_none()
            && let std::task::Poll::Ready(value) = a.as_mut().poll(cx)
        {
            first = Some(value);
        }
        if second.is_none()
            && let std::task::Poll::Ready(value) = b.as_mut().poll(cx)
        {
            second = Some(value);
        }
        match (first.take(), second.take()) {
            (Some(a), Some(b)) => std::task::Poll::Ready((a, b)),
            (a, b) => {
                (first, second) = (a, b);
                std::task::Poll::Pending
            }
        }
    })
    .await
}

/// Which one answered first, in order; the other is dropped.
async fn first_of<T>(a: impl Future<Output = T>, b: impl Future<Output = T>) -> usize {
    let (mut a, mut b) = (Box::pin(a), Box::pin(b));
    std::future::poll_fn(|cx| {
        if a.as_mut().poll(cx).is_ready() {
            return std::task::Poll::Ready(0);
        }
        b.as_mut().poll(cx).map(|_| 1)
    })
    .await
}

fn timer_of(ctx: &durable_core::function::Context, seconds: u64) -> durable_core::function::Call {
    asynchronous::sleep(ctx, Duration::from_secs(seconds))
}

fn child_of(ctx: &durable_core::function::Context, name: &str) -> durable_core::function::Call {
    asynchronous::start_child(ctx, name)
}
