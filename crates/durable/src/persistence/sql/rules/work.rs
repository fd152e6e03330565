//! The unit of work: the locked rows of one call, as they change.

use std::collections::{BTreeMap, BTreeSet};

use durable_core::{Failure, Payload, Timestamp};
use uuid::Uuid;

use super::frame::Frame;
use crate::persistence::model::{
    Fact, KeyKind, KeyRecord, RunRecord, SignalRecord, TaskRecord, UpdateRecord,
};
use crate::persistence::sql::rows::{Changes, Loaded, RunHead, RunInsert, RunUpdate, TaskUpdate};

/// The locked rows of one call, as the rules change them, and what is to be written.
///
/// Rules see the effects of those before them in the same call through this, not through the database.
#[derive(Debug)]
pub(crate) struct Work {
    /// The instant of the call.
    pub(crate) now: Timestamp,
    /// Everything that was loaded, changed as the rules go.
    pub(crate) loaded: Loaded,
    /// What is to be written, apart from what is kept by key below until the end.
    pub(crate) changes: Changes,
    runs: BTreeMap<Uuid, Changed>,
    /// Changed tasks that stay in the queue.
    pub(super) tasks: BTreeMap<(Uuid, Uuid), TaskUpdate>,
    /// Facts that arrived in this call.
    pub(super) facts: BTreeMap<(Uuid, i64), Fact>,
    /// Signals for the ledger.
    pub(super) signals: BTreeMap<(Uuid, Uuid), SignalRecord>,
    /// Keys written or moved.
    keys: BTreeMap<(KeyKind, String), KeyRecord>,
    /// Runs whose line moves up.
    pub(super) lines: BTreeSet<Uuid>,
}

/// How a run differs from what is stored.
#[derive(Debug, Default)]
struct Changed {
    /// The record, if this call starts it.
    new: Option<Box<RunRecord>>,
    /// As it was found, if its head was changed first.
    former: Option<Frame>,
    input: Option<Payload>,
    outcome: Option<(Payload, Option<Failure>)>,
}

impl Changed {
    /// Whether nothing but counters moved.
    fn goes_on(&self, run: &RunHead) -> bool {
        let payloads_stay = self.input.is_none() && self.outcome.is_none();
        payloads_stay && self.former.as_ref() == Some(&Frame::of(run))
    }
}

impl Work {
    pub(crate) fn new(now: Timestamp, loaded: Loaded) -> Self {
        let changes = Changes {
            now,
            ..Changes::default()
        };
        Self {
            now,
            loaded,
            changes,
            runs: BTreeMap::new(),
            tasks: BTreeMap::new(),
            facts: BTreeMap::new(),
            signals: BTreeMap::new(),
            keys: BTreeMap::new(),
            lines: BTreeSet::new(),
        }
    }

    /// Adds what was loaded later.
    pub(crate) fn add(&mut self, mut more: Loaded) {
        self.loaded.keys.append(&mut more.keys);
        self.loaded.schedules.append(&mut more.schedules);
        self.loaded.runs.append(&mut more.runs);
        self.loaded.tasks.append(&mut more.tasks);
        self.loaded.queued.append(&mut more.queued);
        self.loaded.standing.append(&mut more.standing);
        self.loaded.lines.append(&mut more.lines);
        self.loaded.timers.append(&mut more.timers);
        self.loaded.unread.append(&mut more.unread);
        self.loaded.attributes.append(&mut more.attributes);
        self.loaded.signals.append(&mut more.signals);
        self.loaded.updates.append(&mut more.updates);
        self.loaded.letters.append(&mut more.letters);
        self.loaded.outbox.append(&mut more.outbox);
        self.loaded.busy.append(&mut more.busy);
        self.loaded.busy_tasks.append(&mut more.busy_tasks);
    }

    /// The run as it is now.
    pub(crate) fn run(&self, run_id: Uuid) -> Option<&RunHead> {
        self.loaded.runs.get(&run_id)
    }

    /// The run, to be changed. It must have been loaded or started in this call.
    pub(crate) fn run_mut(&mut self, run_id: Uuid) -> &mut RunHead {
        let run = self.loaded.runs.get_mut(&run_id);
        let run = run.expect("a rule changes only runs it has looked at");
        self.runs.entry(run_id).or_insert_with(|| Changed {
            former: Some(Frame::of(run)),
            ..Changed::default()
        });
        run
    }

    /// A run that this call starts.
    pub(crate) fn insert_run(&mut self, record: RunRecord) {
        self.loaded.runs.insert(record.id, head_of(&record));
        self.runs.insert(
            record.id,
            Changed {
                new: Some(Box::new(record)),
                ..Changed::default()
            },
        );
    }

    /// Gives the run a new input.
    pub(crate) fn set_input(&mut self, run_id: Uuid, input: Payload) {
        self.runs.entry(run_id).or_default().input = Some(input);
    }

    /// Gives the run a result and an error, or takes them away.
    pub(crate) fn set_outcome(&mut self, run_id: Uuid, result: Payload, error: Option<Failure>) {
        self.runs.entry(run_id).or_default().outcome = Some((result, error));
    }

    /// The run that has a key, if it still exists.
    pub(crate) fn run_of_key(&self, kind: KeyKind, key: &str) -> Option<Uuid> {
        let record = self.loaded.keys.get(&(kind, key.to_owned()))?;
        self.loaded
            .runs
            .contains_key(&record.run_id)
            .then_some(record.run_id)
    }

    /// Writes a key, or moves it to another run.
    pub(crate) fn put_key(&mut self, kind: KeyKind, key: &str, run_id: Uuid) {
        let record = KeyRecord {
            kind,
            key: key.to_owned(),
            run_id,
            created_at: self.now,
        };
        self.keys.insert((kind, record.key.clone()), record.clone());
        self.loaded.keys.insert((kind, record.key.clone()), record);
    }

    /// Puts a fact into the inbox.
    pub(crate) fn insert_fact(&mut self, run_id: Uuid, fact: Fact) {
        self.facts.insert((run_id, fact.arrival), fact);
    }

    /// Writes a signal into the ledger.
    pub(crate) fn put_signal(&mut self, signal: SignalRecord) {
        let key = (signal.run_id, signal.signal_id);
        self.signals.insert(key, signal.clone());
        self.loaded.signals.insert(key, signal);
    }

    /// Writes an update.
    pub(crate) fn insert_update(&mut self, update: UpdateRecord) {
        self.changes.insert_updates.push(update.clone());
        self.loaded
            .updates
            .insert((update.run_id, update.update_id.clone()), update);
    }

    /// Changes a queued task. Its failed attempts are written where they are other than before.
    pub(crate) fn update_task(&mut self, task: TaskRecord) {
        self.write_task(task, false);
    }

    /// Changes a queued task and the details of its last heartbeat.
    pub(crate) fn update_task_with_heartbeat(&mut self, task: TaskRecord) {
        self.write_task(task, true);
    }

    fn write_task(&mut self, task: TaskRecord, heartbeat: bool) {
        let key = (task.run_id, task.id);
        let former = self.loaded.tasks.insert(key, task.clone());
        let attempts = former.is_none_or(|former| former.attempts != task.attempts);
        let earlier = self.tasks.get(&key);
        let update = TaskUpdate {
            heartbeat: heartbeat || earlier.is_some_and(|earlier| earlier.heartbeat),
            attempts: attempts || earlier.is_some_and(|earlier| earlier.attempts),
            task,
        };
        self.tasks.insert(key, update);
    }

    /// Everything to write.
    pub(crate) fn finish(mut self) -> Changes {
        self.changes.update_tasks = self.tasks.into_values().collect();
        let facts = self.facts.into_iter();
        self.changes.insert_facts = facts.map(|((run_id, _), fact)| (run_id, fact)).collect();
        self.changes.put_signals = self.signals.into_values().collect();
        self.changes.put_keys = self.keys.into_values().collect();
        self.changes.release_lines = self.lines.into_iter().collect();
        for (run_id, changed) in std::mem::take(&mut self.runs) {
            let head = self
                .loaded
                .runs
                .remove(&run_id)
                .expect("a changed run is loaded");
            match changed.new {
                Some(record) => {
                    let mut record = *record;
                    let (task_count, line_count) = (head.task_count, head.line_count);
                    merge(&mut record, head);
                    if let Some(input) = changed.input {
                        record.input = input;
                    }
                    if let Some((result, error)) = changed.outcome {
                        record.result = result;
                        record.error = error;
                    }
                    self.changes.insert_runs.push(RunInsert {
                        record,
                        task_count,
                        line_count,
                    });
                }
                None if changed.goes_on(&head) => self.changes.advance_runs.push(head),
                None => self.changes.update_runs.push(RunUpdate {
                    head,
                    input: changed.input,
                    outcome: changed.outcome,
                }),
            }
        }
        self.changes
    }
}

fn head_of(run: &RunRecord) -> RunHead {
    RunHead {
        id: run.id,
        workflow_type: run.workflow_type.clone(),
        business_id: run.business_id.clone(),
        idempotency_key: run.idempotency_key.clone(),
        fingerprint: run.fingerprint,
        status: run.status,
        parent: run.parent.clone(),
        has_children: run.has_children,
        sequence: run.sequence,
        history_start: run.history_start,
        iteration: run.iteration,
        epoch: run.epoch,
        arrivals: run.arrivals,
        consumed: run.consumed,
        last_turn: run.last_turn,
        ready_at: run.ready_at,
        owner: run.owner.clone(),
        blocked: run.blocked.clone(),
        execution_deadline: run.execution_deadline,
        run_deadline: run.run_deadline,
        run_timeout_ms: run
            .run_timeout
            .map(|d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX)),
        created_at: run.created_at,
        updated_at: run.updated_at,
        started_at: run.started_at,
        completed_at: run.completed_at,
        task_count: 0,
        line_count: 0,
    }
}

/// Brings a new run's record up to what later rules of the same call made of it.
fn merge(record: &mut RunRecord, head: RunHead) {
    record.status = head.status;
    record.has_children = head.has_children;
    record.sequence = head.sequence;
    record.history_start = head.history_start;
    record.iteration = head.iteration;
    record.epoch = head.epoch;
    record.arrivals = head.arrivals;
    record.consumed = head.consumed;
    record.last_turn = head.last_turn;
    record.ready_at = head.ready_at;
    record.owner = head.owner;
    record.blocked = head.blocked;
    record.run_deadline = head.run_deadline;
    record.updated_at = head.updated_at;
    record.started_at = head.started_at;
    record.completed_at = head.completed_at;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persistence::model::{Blocked, Owner, StartRun, WorkflowStatus};

    const RUN: Uuid = Uuid::from_u128(1);
    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    /// How many runs are advanced and how many updated after a change of a run that was found new.
    fn written(change: impl FnOnce(&mut Work)) -> (usize, usize) {
        let start = StartRun::new(RUN, "w", Payload::ABSENT);
        let mut loaded = Loaded::default();
        let found = head_of(&RunRecord::new(&start, None, NOW));
        loaded.runs.insert(RUN, found);
        let mut work = Work::new(NOW, loaded);
        change(&mut work);
        let changes = work.finish();
        (changes.advance_runs.len(), changes.update_runs.len())
    }

    #[test]
    fn a_run_is_advanced_while_nothing_but_its_counters_moves() {
        let counters = written(|work| {
            let run = work.run_mut(RUN);
            run.sequence += 3;
            run.arrivals += 1;
            run.last_turn = Some(RUN);
            run.task_count += 1;
        });
        assert_eq!(counters, (1, 0));
        let more: [fn(&mut Work); 8] = [
            |work| work.run_mut(RUN).status = WorkflowStatus::Running,
            |work| work.run_mut(RUN).ready_at = None,
            |work| work.run_mut(RUN).run_deadline = Some(NOW),
            |work| work.run_mut(RUN).completed_at = Some(NOW),
            |work| work.run_mut(RUN).epoch += 1,
            |work| {
                work.run_mut(RUN).owner = Some(Owner {
                    worker_id: "w".to_owned(),
                    expires_at: NOW,
                });
            },
            |work| {
                work.run_mut(RUN).blocked = Some(Blocked {
                    build: "b".to_owned(),
                    reason: String::new(),
                });
            },
            |work| {
                work.run_mut(RUN).sequence += 1;
                work.set_outcome(RUN, Payload::null(), None);
            },
        ];
        for (place, change) in more.into_iter().enumerate() {
            assert_eq!(written(change), (0, 1), "{place}");
        }
    }
}
