//! Turns.

use std::collections::BTreeSet;

use durable_core::{AttributeValue, WorkflowEvent};
use everruns_durable::persistence::limits::ATTRIBUTES_MAX;
use everruns_durable::persistence::model::{
    ClosePolicy, LeaseRequest, NewChild, NewOutboxEvent, NewTask, NewTimer, Next, OutSignal,
    TaskEnd, TurnCommit, UpdateAnswer, WorkflowStatus,
};
use uuid::Uuid;

use super::super::intent::{Ending, FactsTaken, Flaw, Intent, TurnIntent};
use super::super::session::Session;
use super::super::universe::{
    ACTIVITY_IDS, ATTRIBUTES, CHILDREN, TIMERS, UPDATES, id, id_within, ms, trace,
};
use super::Generator;

/// Tasks of the run that were leased lately: some are dead by now.
fn letters_of(session: &Session, run: Uuid) -> Vec<Uuid> {
    let leases = session.leases.values().rev().map(|(lease, _)| lease);
    let of_run = leases.filter(|lease| lease.run_id == run).take(8);
    let tasks: BTreeSet<Uuid> = of_run.map(|lease| lease.task_id).collect();
    tasks.into_iter().collect()
}

impl Generator {
    pub(super) fn turns(&mut self, session: &Session) -> Intent {
        let mut runs: Vec<Uuid> = self.several(Self::run);
        if !self.random.one_in(80) {
            let mut seen = BTreeSet::new();
            runs.retain(|run| seen.insert(*run));
        }
        if self.random.one_in(12) {
            runs = vec![self.run_with(|run| run.status == WorkflowStatus::Failed)];
        }
        let mut turns: Vec<TurnIntent> = runs
            .into_iter()
            .map(|run| self.turn(run, session))
            .collect();
        if self.random.one_in(6) {
            let first = self.first_turn(session);
            turns.retain(|turn| turn.content.run_id != first.content.run_id);
            turns.push(first);
        }
        Intent::Turns(turns)
    }

    /// A turn that starts its run.
    fn first_turn(&mut self, session: &Session) -> TurnIntent {
        let run = self.run_to_start();
        let mut start = self.start(run);
        if !self.random.one_in(20) {
            start.business_id = None;
            start.idempotency_key = None;
            start.signals = Vec::new();
            start.updates = Vec::new();
        }
        let mut turn = self.turn(run, session);
        turn.content.start = Some(Box::new(start));
        turn
    }

    /// A set of turns that was sent before.
    pub(super) fn same_turns(&mut self, session: &Session) -> Intent {
        let recent: Vec<usize> = session.turns.keys().rev().take(6).copied().collect();
        if recent.is_empty() {
            return self.turns(session);
        }
        Intent::SameTurns {
            step: self.random.pick(&recent),
        }
    }

    fn turn(&mut self, run: Uuid, session: &Session) -> TurnIntent {
        let failed = self
            .view
            .get(&run)
            .is_some_and(|run| run.status == WorkflowStatus::Failed);
        let child = self.view.get(&run).is_some_and(|run| run.parent.is_some());
        let ending = if child && self.random.percent(15) {
            Ending::Complete(self.payload())
        } else {
            self.ending(failed)
        };
        let ends = !matches!(ending, Ending::Wait | Ending::Reset { .. });
        let may_queue = !ends || self.random.one_in(40);
        let mut content = self.empty_turn(run);
        self.fill(&mut content, may_queue);
        if matches!(ending, Ending::Reset { .. }) && self.random.percent(60) {
            content.requeued_letters = letters_of(session, run);
        }
        let some_to_finish = if self.has_lease(session, run) { 60 } else { 6 };
        let finished = if self.random.percent(some_to_finish) {
            let lease = self.last_use(session, |of, _| of == run);
            let end = self.task_end();
            vec![(lease, end)]
        } else {
            Vec::new()
        };
        content.unread_rest = ends && self.random.percent(30);
        let all_but_few = if ends && !content.unread_rest { 30 } else { 6 };
        let facts = match self.random.below(all_but_few) {
            0 => FactsTaken::None,
            1 => FactsTaken::AllBut(1),
            _ => FactsTaken::All,
        };
        TurnIntent {
            content,
            facts,
            finished,
            ending,
            flaw: self.flaw(),
        }
    }

    fn ending(&mut self, failed: bool) -> Ending {
        match self.random.below(100) {
            0..3 => Ending::Complete(self.payload()),
            3..6 => Ending::Fail(self.failure()),
            6..8 => Ending::Cancel("asked to".into()),
            8..13 => Ending::ContinueAsNew {
                input: self.payload(),
                carried: self.carried(),
            },
            13..19 => self.reset(),
            19..70 if failed => self.reset(),
            _ => Ending::Wait,
        }
    }

    fn reset(&mut self) -> Ending {
        Ending::Reset {
            place: i64::try_from(self.random.below(1_000)).expect("small"),
        }
    }

    fn carried(&mut self) -> Vec<u64> {
        let first = self.random.below(200);
        (0..self.random.below(3)).map(|n| first + n).collect()
    }

    fn flaw(&mut self) -> Flaw {
        match self.random.below(100) {
            0..2 => Flaw::Sequence(1),
            2 => Flaw::Sequence(-1),
            3 => Flaw::Epoch,
            4 => Flaw::FactsBeyond,
            5 => Flaw::FactsBehind,
            6 => Flaw::NoEvent,
            _ => Flaw::None,
        }
    }

    fn task_end(&mut self) -> TaskEnd {
        match self.random.below(4) {
            0 => TaskEnd::Failed(self.failure()),
            1 => TaskEnd::Cancelled,
            _ => TaskEnd::Completed,
        }
    }

    fn empty_turn(&mut self, run_id: Uuid) -> TurnCommit {
        TurnCommit {
            run_id,
            start: None,
            turn_id: self.new_id(11),
            expected_sequence: 0,
            expected_epoch: 0,
            facts_through: 0,
            unread_rest: false,
            finished_tasks: Vec::new(),
            fired_timers: Vec::new(),
            events: Vec::new(),
            tasks: Vec::new(),
            cancelled_activities: Vec::new(),
            timers: Vec::new(),
            cancelled_timers: Vec::new(),
            children: Vec::new(),
            signals: Vec::new(),
            updates: Vec::new(),
            attributes: [].into(),
            outbox: Vec::new(),
            step_logs: Vec::new(),
            requeued_letters: Vec::new(),
            next: Next::Wait,
            lease: None,
            owner: self.owner(),
        }
    }

    fn fill(&mut self, turn: &mut TurnCommit, may_queue: bool) {
        let run = turn.run_id;
        if !self.random.one_in(15) {
            turn.events.push(self.event());
        }
        if self.random.percent(10) {
            turn.fired_timers = self.distinct(TIMERS);
        }
        if self.random.one_in(12) {
            turn.cancelled_activities = self.distinct(ACTIVITY_IDS);
        }
        if self.random.one_in(12) {
            turn.cancelled_timers = self.distinct(TIMERS);
        }
        if may_queue {
            self.fill_queue(turn);
        }
        if self.random.one_in(10) {
            turn.children = self.children();
        }
        if self.random.one_in(10) {
            turn.signals = vec![OutSignal {
                run_id: self.run(),
                signal: self.signal(),
            }];
        }
        if self.random.percent(15) {
            turn.updates = self.answers();
        }
        if self.random.one_in(6) {
            let value = self.random.percent(70).then(|| self.attribute());
            turn.attributes.insert(self.name(ATTRIBUTES), value);
        }
        if self.random.one_in(60) {
            self.fill_attributes(turn);
        }
        if self.random.one_in(8) {
            turn.outbox = vec![self.outbox_event(run)];
        }
        if self.random.one_in(8) {
            turn.step_logs = vec![self.step_log(run)];
        }
        if self.random.percent(60) {
            turn.lease = Some(LeaseRequest {
                worker_id: self.worker(),
                lease: self.lease_length().max(ms(1)),
            });
        }
    }

    /// As many search attributes as a run may have: too many for a run that has others and keeps
    /// them.
    fn fill_attributes(&mut self, turn: &mut TurnCommit) {
        turn.attributes.clear();
        let kind = self.random.pick(&["x", "y"]);
        for i in 0..ATTRIBUTES_MAX {
            let value = Some(AttributeValue::Int(1));
            turn.attributes.insert(format!("{kind}{i}"), value);
        }
        if self.random.percent(50) {
            let others = ATTRIBUTES.iter().map(|name| ((*name).to_owned(), None));
            turn.attributes.extend(others);
        }
    }

    fn fill_queue(&mut self, turn: &mut TurnCommit) {
        if self.random.percent(40) {
            let ids = self.distinct(ACTIVITY_IDS);
            turn.tasks = ids.into_iter().map(|id| self.task(id)).collect();
        }
        if self.random.percent(20) {
            turn.timers = self
                .distinct(TIMERS)
                .into_iter()
                .map(|timer_id| NewTimer {
                    timer_id,
                    after: ms(self.random.pick(&[0, 20, 800, 15_000])),
                })
                .collect();
        }
    }

    fn task(&mut self, activity_id: String) -> NewTask {
        let activity_type = self.activity_type();
        NewTask {
            // Once in a while an id that was used before, perhaps by a task that is still queued.
            task_id: if self.random.one_in(6) {
                id(self.random.below(2), 12)
            } else {
                self.new_id(12)
            },
            options: self.options(&activity_type),
            activity_id,
            activity_type,
            input: self.payload(),
            delay: self
                .random
                .pick(&[None, None, None, Some(ms(0)), Some(ms(300))]),
            lease: self.random.percent(50),
            trace: trace(self.random.below(16)),
        }
    }

    fn children(&mut self) -> Vec<NewChild> {
        self.distinct(CHILDREN)
            .into_iter()
            .map(|child_id| {
                let run = self.run_to_start();
                let mut start = self.start(run);
                start.idempotency_key = None;
                start.signals.clear();
                start.updates.clear();
                start.owner = None;
                NewChild {
                    child_id,
                    close_policy: self.random.pick(&[
                        ClosePolicy::Cancel,
                        ClosePolicy::Terminate,
                        ClosePolicy::Abandon,
                    ]),
                    start,
                }
            })
            .collect()
    }

    fn answers(&mut self) -> Vec<UpdateAnswer> {
        self.distinct(UPDATES)
            .into_iter()
            .map(|update_id| UpdateAnswer {
                update_id,
                result: if self.random.percent(70) {
                    Ok(self.payload())
                } else {
                    Err(self.failure())
                },
            })
            .collect()
    }

    fn outbox_event(&mut self, run: Uuid) -> NewOutboxEvent {
        NewOutboxEvent {
            id: id_within(run, self.random.below(10), 13),
            event_type: "order.changed".into(),
            payload: self.payload(),
            idempotency_key: self.random.percent(30).then(|| "key".to_owned()),
        }
    }

    /// An event that no other table has to agree with.
    fn event(&mut self) -> WorkflowEvent {
        let number = self.new_number();
        match self.random.below(6) {
            0 => WorkflowEvent::PatchMarked {
                patch_id: format!("patch-{number}"),
            },
            1 => WorkflowEvent::LocalActivityFailed {
                activity_id: format!("local-{number}"),
                activity_type: "local".into(),
                error: self.failure(),
            },
            2 => WorkflowEvent::HumanTaskOpened {
                task_id: format!("human-{number}"),
                request: self.payload(),
            },
            _ => WorkflowEvent::SideEffectRecorded {
                effect_id: format!("effect-{number}"),
                value: self.payload(),
            },
        }
    }

    /// One to three of these, each once.
    fn distinct(&mut self, of: &[&str]) -> Vec<String> {
        let count = self.random.pick(&[1, 1, 2, 3]);
        let chosen: BTreeSet<&str> = (0..count).map(|_| self.random.pick(of)).collect();
        chosen.into_iter().map(str::to_owned).collect()
    }
}
