//! What claims about messages, ends, lists and retention share.

use std::time::Duration;

use durable_core::{Failure, WorkflowEvent};
use everruns_durable::persistence::model::{
    ClosePolicy, DeadLetter, DlqFilter, Dump, NewChild, NewSignal, NewTimer, NewUpdate, Next, Page,
    Relayed, SendOutcome, SendSignal, SendUpdate, TaskRecord, TerminateOutcome, TerminateRun,
    TurnCommit,
};
use uuid::Uuid;

use super::{World, json, one};

impl World {
    /// Sends this signal, whatever the outcome.
    pub async fn send(&self, run_id: Uuid, signal: NewSignal) -> SendOutcome {
        let send = SendSignal { run_id, signal };
        one(self.store.send_signals(vec![send], self.now()).await)
    }

    /// An update.
    pub fn new_update(&self, update_id: &str) -> NewUpdate {
        NewUpdate {
            update_id: update_id.into(),
            name: "rename".into(),
            input: json("\"new name\""),
        }
    }

    /// Sends this update, whatever the outcome.
    pub async fn update(&self, run_id: Uuid, update: NewUpdate) -> SendOutcome {
        let send = SendUpdate { run_id, update };
        one(self.store.send_updates(vec![send], self.now()).await)
    }

    /// Terminates a run, whatever the outcome.
    pub async fn terminate(&self, run_id: Uuid, reason: &str) -> TerminateOutcome {
        let terminate = TerminateRun {
            run_id,
            reason: reason.into(),
        };
        one(self.store.terminate_runs(vec![terminate], self.now()).await)
    }

    /// The same turn made to fail the run.
    #[must_use]
    pub fn failing(mut turn: TurnCommit, error: Failure) -> TurnCommit {
        turn.events.push(WorkflowEvent::WorkflowFailed {
            error: error.clone().into(),
        });
        turn.next = Next::Fail { error };
        turn
    }

    /// The same turn made to end the run as cancelled.
    #[must_use]
    pub fn cancelling(mut turn: TurnCommit) -> TurnCommit {
        let reason = String::from("asked to stop");
        turn.events.push(WorkflowEvent::WorkflowCancelled {
            reason: reason.clone(),
        });
        turn.next = Next::Cancel { reason };
        turn
    }

    /// The same turn made to continue the run as new.
    #[must_use]
    pub fn continuing(mut turn: TurnCommit, carried: Vec<NewSignal>) -> TurnCommit {
        let input = json("\"again\"");
        turn.events.push(WorkflowEvent::WorkflowContinuedAsNew {
            iteration: 1,
            input: input.clone(),
        });
        turn.next = Next::ContinueAsNew { input, carried };
        turn
    }

    /// Sets a timer by a turn.
    pub async fn set_timer(&self, run_id: Uuid, timer_id: &str, after: Duration) {
        let mut turn = self.turn(run_id).await;
        turn.timers.push(NewTimer {
            timer_id: timer_id.into(),
            after,
        });
        self.committed(turn).await;
    }

    /// A child to ask for.
    pub fn new_child(&self, child_id: &str, close_policy: ClosePolicy) -> NewChild {
        NewChild {
            child_id: child_id.into(),
            close_policy,
            start: self.new_start(),
        }
    }

    /// Asks for a child by a turn and answers its run id; the relay has yet to start it.
    pub async fn ask_for_child(&self, parent: Uuid, child: NewChild) -> Uuid {
        let run_id = child.start.run_id;
        let mut turn = self.turn(parent).await;
        turn.children.push(child);
        assert!(self.committed(turn).await.has_messages);
        run_id
    }

    /// A child of the run, started.
    pub async fn child_of(&self, parent: Uuid, close_policy: ClosePolicy) -> Uuid {
        let run_id = self
            .ask_for_child(parent, self.new_child("child", close_policy))
            .await;
        assert_eq!(self.relay().await.delivered, 1);
        run_id
    }

    /// Delivers messages until none is left, those that deliveries cause included.
    pub async fn settle(&self) -> Relayed {
        let mut all = Relayed::default();
        loop {
            let relayed = self.relay().await;
            if relayed.delivered + relayed.dropped == 0 {
                return all;
            }
            all.delivered += relayed.delivered;
            all.dropped += relayed.dropped;
            all.ready_runs.extend(relayed.ready_runs);
        }
    }

    /// The run's events, all iterations.
    pub async fn history(&self, run_id: Uuid) -> Vec<WorkflowEvent> {
        let history = self.store.load_history(run_id, 0).await;
        let history = history.expect("load_history").expect("the run exists");
        history.events.into_iter().map(|e| e.event).collect()
    }

    /// The events of the facts that wait for a run.
    pub async fn waiting_events(&self, run_id: Uuid) -> Vec<WorkflowEvent> {
        let turn = self.waiting(run_id).await;
        turn.facts.into_iter().map(|fact| fact.event).collect()
    }

    /// The run's queued task for this activity.
    pub async fn queued(&self, run_id: Uuid, activity_id: &str) -> Option<TaskRecord> {
        let tasks = self.dump(run_id).await.tasks;
        tasks.into_iter().find(|t| t.activity_id == activity_id)
    }

    /// Every dead letter, whole, in the order of the list.
    pub async fn letters(&self) -> Vec<DeadLetter> {
        let listed = self.store.list_dlq(DlqFilter::default(), Page::default());
        let mut letters = Vec::new();
        for listed in listed.await.expect("list_dlq") {
            let letter = self.store.get_dead_letter(listed.id).await;
            let letter = letter.expect("get_dead_letter").expect("it is listed");
            assert_eq!(
                letter.clone().listed(),
                listed,
                "a list has the letter without payloads"
            );
            letters.push(letter);
        }
        letters
    }

    /// Everything the store holds.
    pub async fn everything(&self) -> Dump {
        self.store.dump().await.expect("dump")
    }
}
