//! A turn is accepted or not, and what an accepted one writes.

use std::collections::BTreeSet;

use durable_core::{Timestamp, WorkflowEvent, WorkflowSignal};
use uuid::Uuid;

use super::end::Ending;
use super::start::stored_start;
use super::tasks::dead_letter;
use super::work::Work;
use crate::persistence::limits::ATTRIBUTES_MAX;
use crate::persistence::model::{
    Committed, Fact, LeaseRequest, Message, NewSignal, NewTask, Next, OutboxRecord, OutboxState,
    PlacedTask, Rejection, RollupOutcome, SignalRecord, StartOutcome, StepLogRecord, TaskEnd,
    TaskLease, TaskPlace, TaskRecord, TaskStatus, TimerRecord, TurnCommit, TurnOutcome,
    UpdateState, WorkflowStatus, after,
};
use crate::persistence::sql::rows::{RunHead, UpdateAnswerRow};
use crate::persistence::{Bug, planted};

/// Bits of a task's place in line that number the tasks of one turn.
const LINE_BITS: u32 = 20;

impl Work {
    /// Commits a turn or says why not.
    pub(crate) fn turn(&mut self, turn: &TurnCommit) -> TurnOutcome {
        if let Some(start) = &turn.start
            && let StartOutcome::Rejected(why) = self.start(start, None)
        {
            return TurnOutcome::Rejected(Rejection::NotStarted(why));
        }
        let Some(run) = self.run(turn.run_id) else {
            return TurnOutcome::Rejected(Rejection::NotFound);
        };
        if run.last_turn == Some(turn.turn_id) {
            return TurnOutcome::Committed(self.repeated(run, turn));
        }
        match self.accept(run, turn) {
            Ok(()) => TurnOutcome::Committed(self.apply(turn)),
            Err(why) => TurnOutcome::Rejected(why),
        }
    }

    /// THE predicate: whether a turn is accepted. Decided once, under the run's lock.
    fn accept(&self, run: &RunHead, turn: &TurnCommit) -> Result<(), Rejection> {
        let resets = matches!(turn.next, Next::Reset { .. });
        let resettable = resets && run.status == WorkflowStatus::Failed;
        if run.status.is_terminal() && !resettable {
            return Err(Rejection::RunFinished { status: run.status });
        }
        if run.epoch != turn.expected_epoch {
            return Err(Rejection::Epoch { found: run.epoch });
        }
        if run.sequence != turn.expected_sequence && !planted(Bug::SequenceUnchecked) {
            return Err(Rejection::Sequence {
                found: run.sequence,
            });
        }
        if !(run.consumed..=run.arrivals).contains(&turn.facts_through) {
            return Err(Rejection::Facts {
                consumed: run.consumed,
                arrivals: run.arrivals,
            });
        }
        let needs_all = turn.next.ends_run() && !turn.unread_rest;
        if needs_all && turn.facts_through != run.arrivals && !planted(Bug::EndsOverUnseenFacts) {
            return Err(Rejection::UnseenFacts {
                arrivals: run.arrivals,
            });
        }
        self.accept_leases(turn)?;
        self.accept_timers(turn)?;
        self.accept_ids(turn)?;
        accept_reset(run, turn)?;
        self.accept_attributes(turn)
    }

    fn accept_leases(&self, turn: &TurnCommit) -> Result<(), Rejection> {
        let mut seen = BTreeSet::new();
        for finished in &turn.finished_tasks {
            let task_id = finished.lease.task_id;
            let task = self.loaded.tasks.get(&(turn.run_id, task_id));
            let holds = finished.lease.run_id == turn.run_id
                && task.is_some_and(|t| {
                    t.is_leased_as(&finished.lease) || planted(Bug::UnfencedFinish)
                });
            if !holds || !seen.insert(task_id) {
                return Err(Rejection::LeaseLost { task_id });
            }
        }
        Ok(())
    }

    fn accept_timers(&self, turn: &TurnCommit) -> Result<(), Rejection> {
        let mut seen = BTreeSet::new();
        for timer_id in &turn.fired_timers {
            let timer = self.loaded.timers.get(&(turn.run_id, timer_id.clone()));
            let due = timer.is_some_and(|timer| timer.fire_at <= self.now);
            if !due || !seen.insert(timer_id) {
                return Err(Rejection::TimerNotDue {
                    timer_id: timer_id.clone(),
                });
            }
        }
        Ok(())
    }

    /// No id of the turn is in use by what it leaves in place.
    fn accept_ids(&self, turn: &TurnCommit) -> Result<(), Rejection> {
        if matches!(turn.next, Next::Reset { .. }) {
            return Ok(());
        }
        let finished: BTreeSet<Uuid> = turn
            .finished_tasks
            .iter()
            .map(|finished| finished.lease.task_id)
            .collect();
        let given_up: BTreeSet<&String> = turn.cancelled_activities.iter().collect();
        let stays = |id: Uuid, activity_id: &String| {
            !finished.contains(&id) && !given_up.contains(activity_id)
        };
        let activities: BTreeSet<&str> = if turn.tasks.is_empty() {
            BTreeSet::new()
        } else {
            let queued = self.queued_of(turn.run_id);
            let staying = queued.filter(|(id, activity_id)| stays(*id, activity_id));
            staying
                .map(|(_, activity_id)| activity_id.as_str())
                .collect()
        };
        for new in &turn.tasks {
            let queued = self.loaded.queued.get(&(turn.run_id, new.task_id));
            if queued.is_some_and(|activity_id| stays(new.task_id, activity_id)) {
                let id = new.task_id.to_string();
                return Err(Rejection::IdInUse { what: "task", id });
            }
            if activities.contains(new.activity_id.as_str()) {
                let id = new.activity_id.clone();
                return Err(Rejection::IdInUse {
                    what: "activity",
                    id,
                });
            }
        }
        let leaving = turn.fired_timers.iter().chain(&turn.cancelled_timers);
        let leaving: BTreeSet<&String> = leaving.collect();
        for new in &turn.timers {
            let gone = leaving.contains(&new.timer_id);
            if !gone
                && self
                    .loaded
                    .timers
                    .contains_key(&(turn.run_id, new.timer_id.clone()))
            {
                return Err(Rejection::IdInUse {
                    what: "timer",
                    id: new.timer_id.clone(),
                });
            }
        }
        Ok(())
    }

    /// The run's attributes are counted with what the turn makes of them. The names are loaded only
    /// for a turn that sets some: another one cannot add any.
    fn accept_attributes(&self, turn: &TurnCommit) -> Result<(), Rejection> {
        if !turn.sets_attributes() {
            return Ok(());
        }
        let stored = self.loaded.attributes.get(&turn.run_id);
        let before = stored.map_or(0, BTreeSet::len);
        let mut names: BTreeSet<&String> = stored.into_iter().flatten().collect();
        for (name, value) in &turn.attributes {
            match value {
                Some(_) => names.insert(name),
                None => names.remove(name),
            };
        }
        let found = names.len();
        if found > ATTRIBUTES_MAX && found > before {
            return Err(Rejection::Attributes { found });
        }
        Ok(())
    }

    /// The run's queued tasks and their activities, as far as they were loaded.
    fn queued_of(&self, run_id: Uuid) -> impl Iterator<Item = (Uuid, &String)> {
        let whole = (run_id, Uuid::nil())..=(run_id, Uuid::max());
        let queued = self.loaded.queued.range(whole);
        queued.map(|((_, id), activity_id)| (*id, activity_id))
    }

    /// Everything an accepted turn writes, in the contract's order.
    fn apply(&mut self, turn: &TurnCommit) -> Committed {
        let run_id = turn.run_id;
        let (epoch, iteration) = self
            .run(run_id)
            .map_or((0, 0), |run| (run.epoch, run.iteration));
        for id in &turn.requeued_letters {
            self.requeue_letter((run_id, *id));
        }
        self.leave_queue(turn);
        if !matches!(turn.next, Next::Wait) && !keeps_tasks(turn) {
            self.drop_tasks_and_timers(run_id);
        }
        // Those that the turn is about to queue are told of one by one.
        let line_moved = self.lines.contains(&run_id) && self.run_mut(run_id).line_count > 0;
        self.append_events_and_rest(turn);
        let takes_all = turn.leaves_rest_unread() || planted(Bug::FactsTakenUnseen);
        let through = if takes_all {
            self.run_mut(run_id).arrivals
        } else {
            turn.facts_through
        };
        self.consume(run_id, through);
        match turn.next {
            Next::Reset { .. } => self.begin_epoch(run_id),
            Next::ContinueAsNew { .. } => self.changes.drop_iteration_facts.push(run_id),
            _ => {}
        }
        self.set_timers(turn);
        let tasks = turn
            .tasks
            .iter()
            .enumerate()
            .map(|(i, new)| self.queue_task(turn, i, new));
        let tasks: Vec<PlacedTask> = tasks.collect();
        let messages = self.write_messages(turn, epoch, iteration);
        self.write_answers(turn);
        self.write_records(turn);
        let has_messages = self.settle(turn, messages) > 0;
        let run = self.run_mut(run_id);
        Committed {
            sequence: run.sequence,
            arrivals: run.arrivals,
            tasks,
            has_messages,
            line_moved,
            repeated: false,
        }
    }

    /// The turn's events; signals behind those that an ending turn took come before its last event.
    fn append_events_and_rest(&mut self, turn: &TurnCommit) {
        let keeps = turn.leaves_rest_unread() && !planted(Bug::UnreadSignalsDropped);
        match turn.events.split_last() {
            Some((last, others)) if keeps => {
                self.append_events(turn.run_id, others);
                self.keep_rest_unread(turn.run_id);
                self.append_events(turn.run_id, std::slice::from_ref(last));
            }
            _ => self.append_events(turn.run_id, &turn.events),
        }
    }

    fn leave_queue(&mut self, turn: &TurnCommit) {
        for finished in &turn.finished_tasks {
            let key = (turn.run_id, finished.lease.task_id);
            let Some(task) = self.loaded.tasks.remove(&key) else {
                continue;
            };
            let outcome = match &finished.end {
                TaskEnd::Completed => RollupOutcome::Completed,
                TaskEnd::Cancelled => RollupOutcome::Cancelled,
                TaskEnd::Failed(failure) => {
                    self.put_letter(dead_letter(&task, failure, false, self.now));
                    RollupOutcome::Failed
                }
            };
            self.count_activity(&task, outcome);
            self.remove_task(&task);
        }
        let asked: BTreeSet<&String> = turn.cancelled_activities.iter().collect();
        let whole = (turn.run_id, Uuid::nil())..=(turn.run_id, Uuid::max());
        let standing = self.loaded.standing.range(whole);
        let given_up: Vec<_> = standing
            .filter(|(_, task)| asked.contains(&task.activity_id))
            .map(|(key, task)| (*key, task.status, task.sequential))
            .collect();
        for (key, status, sequential) in given_up {
            self.remove_from_queue(key, status, sequential);
        }
        let gone = turn.fired_timers.iter().chain(&turn.cancelled_timers);
        self.changes
            .delete_timers
            .extend(gone.map(|id| (turn.run_id, id.clone())));
    }

    fn begin_epoch(&mut self, run_id: Uuid) {
        if !planted(Bug::ResetKeepsEpoch) {
            self.run_mut(run_id).epoch += 1;
        }
        self.changes.drop_stale_facts.push(run_id);
    }

    fn set_timers(&mut self, turn: &TurnCommit) {
        let epoch = self.run_mut(turn.run_id).epoch;
        let early = std::time::Duration::from_secs(u64::from(planted(Bug::TimerFiresEarly)));
        for new in &turn.timers {
            self.changes.insert_timers.push(TimerRecord {
                run_id: turn.run_id,
                timer_id: new.timer_id.clone(),
                fire_at: after(self.now, new.after.saturating_sub(early)),
                epoch,
            });
        }
    }

    fn queue_task(&mut self, turn: &TurnCommit, index: usize, new: &NewTask) -> PlacedTask {
        let now = self.now;
        let run = self.run_mut(turn.run_id);
        let (sequence, epoch) = (run.sequence, run.epoch);
        let behind = new.options.sequential && run.line_count > 0 && !planted(Bug::LineIgnored);
        run.task_count += 1;
        run.line_count += i32::from(new.options.sequential);
        let mut task = new_task(turn.run_id, new, now);
        task.epoch = epoch;
        task.line = (sequence << LINE_BITS) + i64::try_from(index).unwrap_or(i64::MAX);
        if behind {
            task.status = TaskStatus::InLine;
        } else if task.visible_at > now {
            task.status = TaskStatus::Delayed;
        } else if let (true, Some(request)) = (new.lease, &turn.lease) {
            hand_over(&mut task, request, turn.turn_id, now);
        }
        let place = place_of(&task, turn.turn_id);
        self.changes.insert_tasks.push(task);
        PlacedTask {
            task_id: new.task_id,
            place,
        }
    }

    fn write_messages(&mut self, turn: &TurnCommit, epoch: u32, iteration: u32) -> i32 {
        let mut idx = 0;
        for child in &turn.children {
            let message = Message::StartChild {
                start: stored_start(&child.start),
                close_policy: child.close_policy,
                child_id: child.child_id.clone(),
                epoch,
                iteration,
            };
            idx = self.send_message(turn.run_id, idx, message);
        }
        if !turn.children.is_empty() {
            self.run_mut(turn.run_id).has_children = true;
        }
        for out in &turn.signals {
            let message = Message::Signal {
                run_id: out.run_id,
                signal: out.signal.clone(),
            };
            idx = self.send_message(turn.run_id, idx, message);
        }
        idx
    }

    fn write_answers(&mut self, turn: &TurnCommit) {
        for answer in &turn.updates {
            let state = match &answer.result {
                Ok(result) => UpdateState::Completed(result.clone()),
                Err(failure) => UpdateState::Failed(failure.clone()),
            };
            self.changes.answer_updates.push(UpdateAnswerRow {
                run_id: turn.run_id,
                update_id: answer.update_id.clone(),
                state,
            });
        }
    }

    fn write_records(&mut self, turn: &TurnCommit) {
        let (run_id, now) = (turn.run_id, self.now);
        let attributes = turn.attributes.iter();
        self.changes
            .attributes
            .extend(attributes.map(|(n, v)| (run_id, n.clone(), v.clone())));
        self.changes
            .insert_outbox
            .extend(turn.outbox.iter().map(|new| OutboxRecord {
                id: new.id,
                run_id,
                event_type: new.event_type.clone(),
                payload: new.payload.clone(),
                idempotency_key: new.idempotency_key.clone(),
                state: OutboxState::Pending,
                attempts: 0,
                available_at: now,
                token: None,
                last_error: None,
                created_at: now,
                published_at: None,
            }));
        self.write_logs(run_id, &turn.step_logs);
    }

    /// Writes log lines of a run's attempts.
    pub(crate) fn write_logs(
        &mut self,
        run_id: Uuid,
        logs: &[crate::persistence::model::NewStepLog],
    ) {
        let created_at = self.now;
        self.changes
            .insert_logs
            .extend(logs.iter().map(|log| StepLogRecord {
                id: log.id,
                run_id,
                activity_id: log.activity_id.clone(),
                attempt: log.attempt,
                level: log.level,
                message: log.message.clone(),
                meta: log.meta.clone(),
                created_at,
            }));
    }

    /// The run's own row, last of all; answers how many messages the turn has written.
    fn settle(&mut self, turn: &TurnCommit, messages: i32) -> i32 {
        let (run_id, now) = (turn.run_id, self.now);
        let owner = turn.owner.as_ref().map(|request| request.from(now));
        let run = self.run_mut(run_id);
        run.last_turn = Some(turn.turn_id);
        run.updated_at = now;
        run.started_at.get_or_insert(now);
        run.status = WorkflowStatus::Running;
        run.blocked = None;
        run.owner = owner;
        run.ready_at = (run.arrivals > run.consumed).then_some(now);
        let restarted = run.run_timeout_ms.and_then(|ms| u64::try_from(ms).ok());
        let run_deadline = restarted.map(|ms| after(now, std::time::Duration::from_millis(ms)));
        let ending = match &turn.next {
            Next::Wait => return messages,
            Next::ContinueAsNew { input, carried } => {
                run.iteration += 1;
                run.history_start = run.sequence;
                run.run_deadline = run_deadline;
                run.ready_at = Some(now);
                self.set_input(run_id, input.clone());
                self.carry_over(run_id, carried);
                return messages;
            }
            Next::Reset { .. } => {
                run.run_deadline = run_deadline;
                run.ready_at = Some(now);
                run.completed_at = None;
                self.set_outcome(run_id, durable_core::Payload::ABSENT, None);
                return messages;
            }
            Next::Complete { result } => Ending {
                status: WorkflowStatus::Completed,
                result: result.clone(),
                error: None,
            },
            Next::Fail { error } => Ending::failed(error.clone()),
            Next::Cancel { .. } => Ending {
                status: WorkflowStatus::Cancelled,
                result: durable_core::Payload::ABSENT,
                error: None,
            },
        };
        self.close(run_id, ending, messages)
    }

    /// Signals that the old iteration took and did not use are the new one's first facts. They get
    /// the last of the numbers that were taken, in their order: each of them had such a number of
    /// its own, so that these are free, and what waits comes behind them.
    fn carry_over(&mut self, run_id: Uuid, carried: &[NewSignal]) {
        let run = self.run_mut(run_id);
        run.consumed -= i64::try_from(carried.len()).unwrap_or(i64::MAX);
        let first = run.consumed + 1;
        for (arrival, signal) in (first..).zip(carried) {
            let known = self.loaded.signals.get(&(run_id, signal.signal_id));
            let sent_at = known.map_or(self.now, |known| known.sent_at);
            let event = WorkflowEvent::SignalReceived {
                signal: WorkflowSignal {
                    signal_id: Some(signal.signal_id),
                    signal_type: signal.signal_type.clone(),
                    payload: signal.payload.clone(),
                    sent_at,
                },
                unread: false,
            };
            let fact = Fact {
                arrival,
                event,
                attempts: Vec::new(),
                last_attempt: None,
                arrived_at: self.now,
            };
            self.insert_fact(run_id, fact);
            self.put_signal(SignalRecord {
                run_id,
                signal_id: signal.signal_id,
                signal_type: signal.signal_type.clone(),
                payload: signal.payload.clone(),
                arrival,
                sent_at,
                processed_at: None,
            });
        }
    }

    /// The answer to a turn that was committed before.
    fn repeated(&self, run: &RunHead, turn: &TurnCommit) -> Committed {
        let placed = turn.tasks.iter().filter_map(|new| {
            let task = self.loaded.tasks.get(&(turn.run_id, new.task_id))?;
            Some(PlacedTask {
                task_id: new.task_id,
                place: place_of(task, turn.turn_id),
            })
        });
        Committed {
            sequence: run.sequence,
            arrivals: run.arrivals,
            tasks: placed.collect(),
            has_messages: false,
            line_moved: false,
            repeated: true,
        }
    }
}

/// Planted: a reset that leaves the old tasks in the queue.
fn keeps_tasks(turn: &TurnCommit) -> bool {
    matches!(turn.next, Next::Reset { .. }) && planted(Bug::ResetKeepsEpoch)
}

fn accept_reset(run: &RunHead, turn: &TurnCommit) -> Result<(), Rejection> {
    let Next::Reset { to_sequence } = turn.next else {
        return Ok(());
    };
    if run.history_start < to_sequence && to_sequence <= run.sequence {
        return Ok(());
    }
    Err(Rejection::ResetOutside {
        to_sequence,
        first: run.history_start + 1,
        last: run.sequence,
    })
}

fn new_task(run_id: Uuid, new: &NewTask, now: Timestamp) -> TaskRecord {
    TaskRecord {
        id: new.task_id,
        run_id,
        activity_id: new.activity_id.clone(),
        activity_type: new.activity_type.clone(),
        input: new.input.clone(),
        options: new.options.clone(),
        status: TaskStatus::Pending,
        line: 0,
        epoch: 0,
        scheduled_at: now,
        visible_at: new.delay.map_or(now, |delay| after(now, delay)),
        attempt: 0,
        deliveries: 0,
        claimed_by: None,
        claimed_at: None,
        token: None,
        lease_expires_at: None,
        heartbeat_at: None,
        heartbeat_details: durable_core::Payload::ABSENT,
        close_deadline: new.options.schedule_to_close_timeout.map(|t| after(now, t)),
        attempts: Vec::new(),
        requeue_count: 0,
        trace: new.trace.clone(),
    }
}

fn hand_over(task: &mut TaskRecord, request: &LeaseRequest, token: Uuid, now: Timestamp) {
    task.status = TaskStatus::Claimed;
    task.attempt = 1;
    task.deliveries = 1;
    task.claimed_by = Some(request.worker_id.clone());
    task.claimed_at = Some(now);
    task.token = Some(token);
    task.lease_expires_at = Some(after(now, request.lease));
}

fn place_of(task: &TaskRecord, turn_id: Uuid) -> TaskPlace {
    match task.status {
        TaskStatus::Claimed if task.token == Some(turn_id) => TaskPlace::Leased {
            lease: TaskLease {
                run_id: task.run_id,
                task_id: task.id,
                attempt: task.attempt,
                token: turn_id,
            },
            expires_at: task.lease_expires_at.unwrap_or(task.scheduled_at),
            started_at: task.claimed_at.unwrap_or(task.scheduled_at),
        },
        TaskStatus::Pending => TaskPlace::Claimable,
        _ => TaskPlace::Waiting,
    }
}
