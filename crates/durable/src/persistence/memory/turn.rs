//! Committing a turn: what it writes, in the order of the contract.

use std::mem::take;

use durable_core::{Failure, Payload, Timestamp, WorkflowEvent};
use uuid::Uuid;

use super::accept::{accept, drops_queue};
use super::queue::held_the_line;
use super::start::owner;
use super::state::State;
use crate::persistence::model::after;
use crate::persistence::model::{
    Committed, HistoryEvent, NewSignal, NewTimer, Next, OwnerRequest, PlacedTask, Rejection,
    RollupKind, RollupOutcome, StartOutcome, TaskLease, TaskPlace, TaskRecord, TaskStatus,
    TimerRecord, TurnCommit, TurnOutcome, WorkflowStatus,
};
use crate::persistence::{Bug, planted};

/// How a run ends.
pub(super) struct End {
    pub(super) status: WorkflowStatus,
    pub(super) result: Payload,
    pub(super) error: Option<Failure>,
}

impl End {
    /// The end that a turn brings, if it does.
    pub(super) fn of(next: &Next) -> Option<Self> {
        let (status, result, error) = match next {
            Next::Complete { result } => (WorkflowStatus::Completed, result.clone(), None),
            Next::Fail { error } => (WorkflowStatus::Failed, Payload::ABSENT, Some(error.clone())),
            Next::Cancel { .. } => (WorkflowStatus::Cancelled, Payload::ABSENT, None),
            Next::Wait | Next::ContinueAsNew { .. } | Next::Reset { .. } => return None,
        };
        Some(Self {
            status,
            result,
            error,
        })
    }
}

/// What a turn's commit did besides.
#[derive(Default)]
pub(super) struct Written {
    pub(super) messages: bool,
    pub(super) line_moved: bool,
}

impl State {
    pub(super) fn commit_turn(&mut self, mut turn: TurnCommit, now: Timestamp) -> TurnOutcome {
        if let Some(start) = turn.start.take()
            && let StartOutcome::Rejected(why) = self.start_run(*start, None, now)
        {
            return TurnOutcome::Rejected(Rejection::NotStarted(why));
        }
        let Some(run) = self.find(turn.run_id) else {
            return TurnOutcome::Rejected(Rejection::NotFound);
        };
        let (run_id, turn_id) = (turn.run_id, turn.turn_id);
        let task_ids: Vec<Uuid> = turn.tasks.iter().map(|task| task.task_id).collect();
        let repeated = run.run().last_turn == Some(turn_id);
        let mut written = Written::default();
        if !repeated {
            if let Err(why) = accept(run, &turn, now) {
                return TurnOutcome::Rejected(why);
            }
            written = self.write_turn(turn, Some(turn_id), now);
        }
        let run = self.at(run_id);
        let tasks = task_ids.iter().filter_map(|id| run.tasks().get(id));
        TurnOutcome::Committed(Committed {
            sequence: run.run().sequence,
            arrivals: run.run().arrivals,
            tasks: tasks.map(|task| placed(task, turn_id)).collect(),
            has_messages: written.messages,
            line_moved: written.line_moved,
            repeated,
        })
    }

    /// Writes an accepted turn. `last_turn` is what the run will remember.
    pub(super) fn write_turn(
        &mut self,
        mut turn: TurnCommit,
        last_turn: Option<Uuid>,
        now: Timestamp,
    ) -> Written {
        let run_id = turn.run_id;
        for id in take(&mut turn.requeued_letters) {
            self.requeue_letter(run_id, id, now);
        }
        let mut head_left = false;
        for finished in take(&mut turn.finished_tasks) {
            head_left |= self.finish_in_turn(finished, now);
        }
        head_left |= self.drop_named(&turn);
        if drops_queue(&turn.next) {
            self.drop_queue(run_id);
        }
        let line_moved = head_left && self.at(run_id).line_head().is_some();
        if turn.leaves_rest_unread() {
            self.keep_rest_unread(&mut turn);
        }
        self.take_facts(run_id, turn.facts_through, now);
        match turn.next {
            Next::Reset { .. } => self.drop_queue_facts(run_id),
            Next::ContinueAsNew { .. } => self.keep_only_mail(run_id),
            _ => {}
        }
        let sequence = self.append_events(run_id, take(&mut turn.events), now);
        let epoch = self.epoch_after(&turn);
        self.set_timers(run_id, take(&mut turn.timers), epoch, now);
        self.queue_tasks(&mut turn, sequence, epoch, now);
        self.release_line(run_id, now);
        let end = End::of(&turn.next);
        let messages = self.write_messages(&mut turn, sequence, end.as_ref());
        self.answer_updates(run_id, take(&mut turn.updates), end.is_some(), now);
        self.set_attributes(run_id, take(&mut turn.attributes));
        self.add_outbox(run_id, take(&mut turn.outbox), now);
        self.add_step_logs(run_id, take(&mut turn.step_logs), now);
        self.settle_run(run_id, last_turn, turn.owner, now);
        match turn.next {
            Next::Wait => {}
            Next::ContinueAsNew { input, carried } => {
                self.continue_as_new(run_id, input, carried, now);
            }
            Next::Reset { .. } => self.reset_run(run_id, epoch, now),
            Next::Complete { .. } | Next::Fail { .. } | Next::Cancel { .. } => {
                self.end_run(run_id, end.expect("these three are the ends"), now);
            }
        }
        Written {
            messages,
            line_moved,
        }
    }

    /// Tasks of cancelled activities, fired and cancelled timers leave. Answers whether one of them held the line.
    fn drop_named(&mut self, turn: &TurnCommit) -> bool {
        let run_id = turn.run_id;
        let mut head_left = false;
        for activity_id in &turn.cancelled_activities {
            if let Some(task_id) = self.at(run_id).task_of(activity_id) {
                let task = self.take_task(run_id, task_id);
                head_left |= task.is_some_and(|task| held_the_line(&task));
            }
        }
        for timer_id in turn.fired_timers.iter().chain(&turn.cancelled_timers) {
            self.take_timer(run_id, timer_id);
        }
        head_left
    }

    fn drop_queue(&mut self, run_id: Uuid) {
        let tasks: Vec<Uuid> = self.at(run_id).tasks().keys().copied().collect();
        for task_id in tasks {
            self.take_task(run_id, task_id);
        }
        let timers: Vec<String> = self.at(run_id).timers().keys().cloned().collect();
        for timer_id in timers {
            self.take_timer(run_id, &timer_id);
        }
    }

    /// What tasks and timers told no longer counts after a reset.
    fn drop_queue_facts(&mut self, run_id: Uuid) {
        self.at_mut(run_id).facts.retain(|_, fact| {
            let name = fact.event.event_type();
            !(name.starts_with("activity.") || name == "timer.fired")
        });
    }

    /// Appends events; answers the number of the last one.
    fn append_events(&mut self, run_id: Uuid, events: Vec<WorkflowEvent>, now: Timestamp) -> i64 {
        let run = self.at_mut(run_id);
        let mut sequence = run.run().sequence;
        for event in events {
            sequence += 1;
            run.events.push(HistoryEvent {
                sequence_num: sequence,
                event,
                created_at: now,
            });
        }
        self.edit_run(run_id, |run| run.sequence = sequence);
        sequence
    }

    fn epoch_after(&self, turn: &TurnCommit) -> u32 {
        let resets = matches!(turn.next, Next::Reset { .. }) && !planted(Bug::ResetKeepsEpoch);
        self.at(turn.run_id).run().epoch + u32::from(resets)
    }

    fn set_timers(&mut self, run_id: Uuid, timers: Vec<NewTimer>, epoch: u32, now: Timestamp) {
        for timer in timers {
            self.put_timer(TimerRecord {
                run_id,
                timer_id: timer.timer_id,
                fire_at: after(now, timer.after),
                epoch,
            });
        }
    }

    /// What every turn does to the run itself.
    fn settle_run(
        &mut self,
        run_id: Uuid,
        last_turn: Option<Uuid>,
        request: Option<OwnerRequest>,
        now: Timestamp,
    ) {
        self.edit_run(run_id, |run| {
            run.last_turn = last_turn;
            run.updated_at = now;
            run.started_at.get_or_insert(now);
            if run.status == WorkflowStatus::Pending {
                run.status = WorkflowStatus::Running;
            }
            run.blocked = None;
            run.owner = request.map(|request| owner(request, now));
            run.ready_at = (run.arrivals > run.consumed).then_some(now);
        });
    }

    /// Puts the signals behind those that the turn took before its last event, as unread; the turn
    /// takes all facts thereby.
    fn keep_rest_unread(&self, turn: &mut TurnCommit) {
        let run = self.at(turn.run_id);
        let rest = run.facts.range(turn.facts_through + 1..);
        let signals = rest.filter_map(|(_, fact)| match &fact.event {
            WorkflowEvent::SignalReceived { signal, .. } => Some(WorkflowEvent::SignalReceived {
                signal: signal.clone(),
                unread: true,
            }),
            _ => None,
        });
        let last = turn.events.pop();
        if !planted(Bug::UnreadSignalsDropped) {
            turn.events.extend(signals);
        }
        turn.events.extend(last);
        turn.facts_through = run.run().arrivals;
    }

    fn end_run(&mut self, run_id: Uuid, end: End, now: Timestamp) {
        let run = self.at(run_id).run();
        let outcome = match end.status {
            WorkflowStatus::Completed => RollupOutcome::Completed,
            WorkflowStatus::Cancelled => RollupOutcome::Cancelled,
            _ => RollupOutcome::Failed,
        };
        let (name, began) = (run.workflow_type.clone(), run.created_at);
        self.rollups
            .count(RollupKind::Workflow, &name, outcome, began, [now; 2], now);
        self.edit_run(run_id, |run| {
            run.status = end.status;
            run.result = end.result;
            run.error = end.error;
            run.completed_at = Some(now);
            run.owner = None;
            run.ready_at = None;
        });
    }

    fn continue_as_new(
        &mut self,
        run_id: Uuid,
        input: Payload,
        carried: Vec<NewSignal>,
        now: Timestamp,
    ) {
        self.edit_run(run_id, |run| {
            run.input = input;
            run.iteration += 1;
            run.history_start = run.sequence;
            run.run_deadline = run.run_timeout.map(|timeout| after(now, timeout));
            run.ready_at = Some(now);
        });
        self.carry_signals(run_id, carried, now);
    }

    fn reset_run(&mut self, run_id: Uuid, epoch: u32, now: Timestamp) {
        self.edit_run(run_id, |run| {
            run.epoch = epoch;
            run.status = WorkflowStatus::Running;
            run.result = Payload::ABSENT;
            run.error = None;
            run.completed_at = None;
            run.run_deadline = run.run_timeout.map(|timeout| after(now, timeout));
            run.ready_at = Some(now);
        });
    }
}

/// Where a task stands for the turn that queued it.
fn placed(task: &TaskRecord, turn_id: Uuid) -> PlacedTask {
    let place = match (task.status, task.token, task.lease_expires_at) {
        (TaskStatus::Claimed, Some(token), Some(expires_at)) if token == turn_id => {
            TaskPlace::Leased {
                lease: TaskLease {
                    run_id: task.run_id,
                    task_id: task.id,
                    attempt: task.attempt,
                    token,
                },
                expires_at,
                started_at: task.claimed_at.unwrap_or(task.scheduled_at),
            }
        }
        (TaskStatus::Pending, ..) => TaskPlace::Claimable,
        _ => TaskPlace::Waiting,
    };
    PlacedTask {
        task_id: task.id,
        place,
    }
}
