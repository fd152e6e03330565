//! Async functions where they are easily got wrong: handlers that may only look, cleaning up after a cancel, wakes from outside.

mod asynchronous;

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Waker};

use asynchronous::{Live, activity, answered, call, given_up, signal, started};
use durable_core::function::{Context, UpdateHandler};
use durable_core::{
    Failure, Payload, ProgramError, Turn, TurnError, WorkflowAction as A, WorkflowError,
    WorkflowEvent as E,
};

fn wait(ctx: &Context, name: &str) -> durable_core::function::SignalWait {
    ctx.signal(name, Location::caller())
}

/// Does everything a handler can do, of which nothing may be left.
fn meddle(ctx: &Context) {
    let _ = ctx.side_effect(|| Payload::from_value(&1));
    let _ = ctx.unique();
    let _ = ctx.patched("new");
    let ticket = ctx.ticket(Location::caller());
    ticket.tell(A::UpsertSearchAttributes {
        attributes: std::collections::BTreeMap::new(),
    });
    let mut cx = TaskContext::from_waker(Waker::noop());
    assert!(pin!(call(ctx, "never")).poll(&mut cx).is_pending());
    assert!(pin!(wait(ctx, "go")).poll(&mut cx).is_pending());
    ctx.continue_with(Payload::null());
    ctx.on_query("later", Arc::new(|_: &Payload| Ok(Payload::null())));
}

/// Its query `look`, and the validator of its update `change`, meddle; the input `"panic"` makes them panic.
fn meddlesome() -> Live {
    Live::new(|ctx| async move {
        let of_query = ctx.clone();
        let look = move |input: &Payload| {
            meddle(&of_query);
            assert!(input.to_value::<String>().unwrap() != "panic", "asked to");
            Ok::<_, Failure>(Payload::null())
        };
        ctx.on_query("look", Arc::new(look.clone()));
        let handler = UpdateHandler {
            run: Arc::new(|input| Box::pin(async move { Ok(input) })),
            validate: Some(Arc::new(move |input| look(input).map(|_| ()))),
        };
        ctx.on_update("change", handler);
        wait(&ctx, "early").await?;
        call(&ctx, "a").await
    })
}

#[test]
fn handlers_that_look_leave_no_trace_even_when_they_panic() {
    for input in ["calm", "panic"] {
        let mut run = meddlesome();
        run.take(started());
        run.take(signal("go", "for somebody else"));
        let program = run.state.program();
        let input = Payload::from_value(input).unwrap();
        // What the handler answers is not the point here.
        let _ = catch_unwind(AssertUnwindSafe(|| program.query("look", &input)));
        let _ = catch_unwind(AssertUnwindSafe(|| {
            program.validate_update("change", &input)
        }));
        assert!(program.query("later", &input).is_err());
        assert_eq!(run.take(signal("early", "x")), [activity(1, "a")]);
        assert!(!run.event_names().contains(&"side_effect.recorded"));
        assert!(!run.event_names().contains(&"patch.marked"));
        run.every_prefix_replays();
    }
}

fn settled(run: &mut Live) -> Option<E> {
    let mut turn = Turn::default();
    run.state.settle(&mut turn).unwrap();
    turn.events.pop().map(|(_, event)| event)
}

#[test]
fn cleaning_up_may_wait_for_a_signal() {
    let mut run = Live::new(|ctx| async move {
        let error = call(&ctx, "long").await.unwrap_err();
        wait(&ctx, "confirmed").await?;
        Err(error)
    });
    run.take(started());
    assert_eq!(run.take(signal("cancel", "enough")), [given_up(1)]);
    assert_eq!(settled(&mut run), None, "it still cleans up");
    let end = A::CancelWorkflow {
        reason: "enough".into(),
    };
    assert_eq!(run.take(signal("confirmed", "yes")), [end]);
    run.every_prefix_replays();
}

#[test]
fn cleaning_up_may_wait_for_a_condition() {
    let mut run = Live::new(|ctx| async move {
        let confirmed = Arc::new(Mutex::new(false));
        let (set, look) = (Arc::clone(&confirmed), confirmed);
        let handler: durable_core::function::SignalHandler = Arc::new(move |_| {
            *set.lock().unwrap() = true;
            true
        });
        ctx.on_signal("confirmed", &handler);
        let error = wait(&ctx, "never").await.unwrap_err();
        ctx.until(move || *look.lock().unwrap(), Location::caller())
            .await?;
        Err(error)
    });
    run.take(started());
    run.take(signal("cancel", "enough"));
    assert_eq!(settled(&mut run), None, "it still cleans up");
    let end = A::CancelWorkflow {
        reason: "enough".into(),
    };
    assert_eq!(run.take(signal("confirmed", "yes")), [end]);
}

/// Something of somebody else's: ready once it was woken.
#[derive(Clone, Default)]
struct Foreign {
    waker: Arc<Mutex<Option<Waker>>>,
}

impl Foreign {
    fn wake(&self) {
        self.waker
            .lock()
            .unwrap()
            .take()
            .expect("it is awaited")
            .wake();
    }

    fn poll(&self, cx: &mut TaskContext<'_>, polled: &mut bool) -> Poll<()> {
        let mut waker = self.waker.lock().unwrap();
        if std::mem::replace(polled, true) && waker.is_none() {
            return Poll::Ready(());
        }
        *waker = Some(cx.waker().clone());
        Poll::Pending
    }

    async fn done(self) {
        let mut polled = false;
        poll_fn(|cx| self.poll(cx, &mut polled)).await;
    }
}

/// Both, as `join!` would.
async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (Box::pin(a), Box::pin(b));
    let (mut first, mut second) = (None, None);
    poll_fn(|cx| {
        if first.is_none()
            && let Poll::Ready(value) = a.as_mut().poll(cx)
        {
            first = Some(value);
        }
        if second.is_none()
            && let Poll::Ready(value) = b.as_mut().poll(cx)
        {
            second = Some(value);
        }
        match (first.take(), second.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (first, second) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

fn beside(foreign: &Foreign) -> Live {
    let foreign = foreign.clone();
    Live::new(move |ctx| {
        let foreign = foreign.clone();
        async move {
            let (answer, ()) = both(call(&ctx, "a"), foreign.done()).await;
            answer
        }
    })
}

fn is_foreign(error: &TurnError) -> bool {
    matches!(error, TurnError::Program(ProgramError::Foreign { .. }))
}

#[test]
fn run_that_a_foreign_wake_led_to_its_end_is_not_ended() {
    let foreign = Foreign::default();
    let mut run = beside(&foreign);
    run.take(started());
    foreign.wake();
    let error = run.try_take(&answered(1, "x")).unwrap_err();
    assert!(is_foreign(&error), "{error}");
}

#[test]
fn foreign_wake_rings_once_and_the_look_that_follows_tells() {
    let foreign = Foreign::default();
    let mut run = beside(&foreign);
    let rung = Arc::new(AtomicUsize::new(0));
    let bell = Arc::clone(&rung);
    run.state.on_foreign_wake(Arc::new(move || {
        bell.fetch_add(1, Ordering::SeqCst);
    }));
    run.take(started());
    let waker = foreign.waker.lock().unwrap().clone().expect("awaited");
    run.state.check().unwrap();
    waker.wake_by_ref();
    waker.wake_by_ref();
    assert_eq!(rung.load(Ordering::SeqCst), 1);
    let error = run.state.check().unwrap_err();
    assert!(is_foreign(&error), "{error}");
}

/// Wakes whoever it was told when it is dropped, as the sending half of a channel does.
struct WakesWhenDropped(Arc<Mutex<Option<Waker>>>);

impl Drop for WakesWhenDropped {
    fn drop(&mut self) {
        if let Some(waker) = self.0.lock().unwrap().take() {
            waker.wake();
        }
    }
}

#[test]
fn program_that_is_dropped_rings_nobody() {
    let mut run = Live::new(|ctx| async move {
        let waker = Arc::new(Mutex::new(None));
        let sender = WakesWhenDropped(Arc::clone(&waker));
        poll_fn(|cx| {
            *waker.lock().unwrap() = Some(cx.waker().clone());
            Poll::Ready(())
        })
        .await;
        let answer = call(&ctx, "a").await;
        drop(sender);
        answer
    });
    let rung = Arc::new(AtomicUsize::new(0));
    let bell = Arc::clone(&rung);
    run.state.on_foreign_wake(Arc::new(move || {
        bell.fetch_add(1, Ordering::SeqCst);
    }));
    run.take(started());
    drop(run);
    assert_eq!(rung.load(Ordering::SeqCst), 0);
}

/// Polled once, then kept and left alone, as by a hand-written combinator.
struct PolledOnce<F>(Option<Pin<Box<F>>>, bool);

impl<F: Future> Future for PolledOnce<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        let this = &mut *self;
        if !std::mem::replace(&mut this.1, true)
            && let Some(future) = &mut this.0
        {
            assert!(future.as_mut().poll(cx).is_pending());
        }
        Poll::Pending
    }
}

impl<F> Unpin for PolledOnce<F> {}

#[test]
fn condition_that_holds_and_is_not_polled_again_wakes_once() {
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&looks);
    let mut run = Live::new(move |ctx| {
        let counted = Arc::clone(&counted);
        async move {
            let open = Arc::new(Mutex::new(false));
            let (set, look) = (Arc::clone(&open), open);
            let handler: durable_core::function::SignalHandler = Arc::new(move |_| {
                *set.lock().unwrap() = true;
                true
            });
            ctx.on_signal("open", &handler);
            let until = ctx.until(
                move || {
                    counted.fetch_add(1, Ordering::SeqCst);
                    *look.lock().unwrap()
                },
                Location::caller(),
            );
            let kept = PolledOnce(Some(Box::pin(until)), false);
            let (answer, ()) = both(call(&ctx, "a"), kept).await;
            answer
        }
    });
    run.take(started());
    assert_eq!(run.take(signal("open", "x")), []);
    assert!(
        looks.load(Ordering::SeqCst) < 10,
        "it was woken over and over"
    );
}

#[test]
fn condition_that_held_is_forgotten() {
    let mut run = Live::new(|ctx| async move {
        let mut until = Box::pin(ctx.until(|| false, Location::caller()));
        poll_fn(|cx| {
            assert!(until.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        let error = until.as_mut().await.unwrap_err();
        assert!(error.is_cancelled());
        // Answered, it is not waited for any more: with nothing else to wait for, this is foreign.
        std::future::pending::<()>().await;
        Err::<Payload, WorkflowError>(error)
    });
    run.take(started());
    let error = run.try_take(&signal("cancel", "x")).unwrap_err();
    assert!(is_foreign(&error), "{error}");
}
