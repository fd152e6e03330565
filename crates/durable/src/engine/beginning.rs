//! Runs that are started together with their first turn: one commit instead of two, and nothing to read in between.

use tokio::sync::oneshot;

use crate::hosting::{Offer, Taking};
use crate::persistence::model::StartRun;

/// A run to be started with its first turn.
///
/// Only a promise to try: one that is dropped has not begun, or it is not known whether it has. Whoever asked for it then starts the run
/// on its own, which finds it if it exists.
pub(crate) struct Beginning {
    pub(crate) start: StartRun,
    asked_by: AskedBy,
}

/// Who asked for it.
pub(super) enum AskedBy {
    /// A client beside this engine: the turn is committed here, with the start.
    Client(oneshot::Sender<()>),
    /// A client in another process, which commits the turn with the start itself.
    Offer(Taking),
}

impl AskedBy {
    /// The run has begun.
    pub(super) fn tell(self) {
        match self {
            // Who asked may not wait any more.
            Self::Client(begun) => drop(begun.send(())),
            // Whoever committed it knows.
            Self::Offer(_) => {}
        }
    }
}

impl Beginning {
    /// The run, and where to hear that it has begun. An error there: it has not, as far as is known.
    pub(crate) fn of(start: StartRun) -> (Self, oneshot::Receiver<()>) {
        let (begun, heard) = oneshot::channel();
        let asked_by = AskedBy::Client(begun);
        (Self { start, asked_by }, heard)
    }

    /// A run that is about to be started in another process.
    pub(crate) fn offered(offer: Offer) -> Self {
        let (start, taking) = offer.into_parts();
        let asked_by = AskedBy::Offer(taking);
        Self { start, asked_by }
    }

    pub(super) fn into_parts(self) -> (Box<StartRun>, AskedBy) {
        (Box::new(self.start), self.asked_by)
    }
}

#[cfg(test)]
mod tests {
    use std::future::IntoFuture as _;

    use durable_core::Payload;
    use uuid::Uuid;

    use super::*;
    use crate::engine::Engine;
    use crate::hosting::FirstTurn;
    use crate::persistence::model::{TurnCommit, TurnOutcome, WorkflowStatus};
    use crate::prelude::*;

    #[activity(crate = "crate")]
    async fn double(n: u32) -> ActivityResult<u32> {
        Ok(n * 2)
    }

    #[workflow(crate = "crate")]
    async fn doubled(ctx: WorkflowContext, n: u32) -> WorkflowResult<u32> {
        ctx.activity::<double>(n).await
    }

    async fn engine() -> Engine {
        let engine = Engine::in_memory().workflow::<doubled>().activity(double);
        engine.start().await.expect("starts")
    }

    fn start() -> StartRun {
        let input = Payload::from_json_text("4").expect("a number");
        StartRun::new(Uuid::from_u128(7), "doubled", input)
    }

    /// The first turn that the engine answers an offer with.
    async fn first_turn(engine: &Engine) -> FirstTurn {
        let (offer, taken) = Offer::of(start());
        engine.node.hub.desk.begin(Beginning::offered(offer));
        taken.await.expect("taken")
    }

    async fn commit_with_start(engine: &Engine, mut turn: TurnCommit) -> TurnOutcome {
        assert!(turn.is_first_of(start().run_id));
        turn.start = Some(Box::new(start()));
        let outcomes = engine.store().commit_turns(vec![turn], None).await;
        outcomes.expect("committed").remove(0)
    }

    async fn completes(engine: &Engine) {
        let run = engine.client().run::<doubled>(start().run_id);
        assert_eq!(run.result().await.expect("a result"), 8);
    }

    #[tokio::test]
    async fn a_turn_that_was_offered_goes_on_when_it_is_committed_elsewhere() {
        let engine = engine().await;
        let (turn, told) = first_turn(&engine).await.into_parts();
        let outcome = commit_with_start(&engine, turn).await;
        told.send(outcome).expect("somebody waits");
        completes(&engine).await;
    }

    #[tokio::test]
    async fn a_turn_whose_outcome_is_lost_is_found_out() {
        let engine = engine().await;
        let (turn, told) = first_turn(&engine).await.into_parts();
        commit_with_start(&engine, turn).await;
        drop(told);
        completes(&engine).await;
    }

    #[tokio::test]
    async fn a_run_that_was_not_started_with_its_turn_begins_like_any_other() {
        let engine = engine().await;
        drop(first_turn(&engine).await);
        let store = engine.store();
        engine.node.hub.desk.emptied().await;
        let there = store.get_run(start().run_id).await.expect("read");
        assert!(there.is_none(), "nobody has started it");
        let run = engine.client().start::<doubled>(4).run_id(start().run_id);
        run.into_future().await.expect("starts");
        completes(&engine).await;
        let run = store.get_run(start().run_id).await.expect("read");
        let status = run.map(|run| run.status);
        assert_eq!(status, Some(WorkflowStatus::Completed));
    }

    #[tokio::test]
    async fn an_engine_that_is_about_to_go_declines() {
        let engine = engine().await;
        engine.node.hub.desk.close();
        let (offer, taken) = Offer::of(start());
        engine.node.hub.desk.begin(Beginning::offered(offer));
        taken.await.expect_err("declined");
    }
}
