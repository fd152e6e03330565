//! Everything the store holds, and the one place where its indexes are kept.

use std::collections::{BTreeMap, BTreeSet};

use durable_core::Timestamp;
use uuid::Uuid;

use super::index::{Note, ShardIndex};
use super::rollup::Rollups;
use crate::persistence::Shards;
use crate::persistence::model::{
    Attributes, AuditRecord, BreakerRecord, DeadLetter, DedupRecord, Fact, HistoryEvent, KeyKind,
    KeyRecord, MessageRecord, OutboxRecord, OutboxState, RunRecord, ScheduleRecord, SignalRecord,
    StepLogRecord, TaskRecord, TimerRecord, UpdateRecord, WorkerInfo,
};

/// Everything the store holds.
#[derive(Debug)]
pub(super) struct State {
    pub(super) shards: Shards,
    runs: BTreeMap<Uuid, RunState>,
    index: Vec<ShardIndex>,
    children: BTreeSet<(Uuid, Uuid)>,
    pub(super) keys: BTreeMap<(KeyKind, String), KeyRecord>,
    /// By run and task.
    pub(super) dead_letters: BTreeMap<(Uuid, Uuid), DeadLetter>,
    pub(super) schedules: BTreeMap<String, ScheduleRecord>,
    pub(super) workers: BTreeMap<String, WorkerInfo>,
    pub(super) breakers: BTreeMap<String, BreakerRecord>,
    pub(super) dedup: BTreeMap<String, DedupRecord>,
    pub(super) rollups: Rollups,
    pub(super) audit: BTreeMap<Uuid, AuditRecord>,
    /// Facts that were ever delivered, to whichever run.
    pub(super) delivered: u64,
    /// The run that the last start ended to take its place.
    pub(super) replaced: Option<Uuid>,
}

/// A run with all that belongs to it. What an index is made of is private and changed by [`State`].
#[derive(Debug)]
pub(super) struct RunState {
    run: RunRecord,
    tasks: BTreeMap<Uuid, TaskRecord>,
    /// Sequential tasks in the queue, by line.
    line: BTreeSet<(i64, Uuid)>,
    /// Tasks in the queue, by activity.
    activities: BTreeMap<String, Uuid>,
    timers: BTreeMap<String, TimerRecord>,
    messages: BTreeMap<(i64, i32), MessageRecord>,
    outbox: BTreeMap<Uuid, OutboxRecord>,
    signals: BTreeMap<Uuid, SignalRecord>,
    /// Signals that no turn has taken, by arrival.
    untaken: BTreeMap<i64, Uuid>,
    pub(super) events: Vec<HistoryEvent>,
    pub(super) facts: BTreeMap<i64, Fact>,
    pub(super) updates: BTreeMap<String, UpdateRecord>,
    pub(super) attributes: Attributes,
    pub(super) step_logs: BTreeMap<Uuid, StepLogRecord>,
}

impl RunState {
    fn new(run: RunRecord) -> Self {
        Self {
            run,
            tasks: BTreeMap::new(),
            line: BTreeSet::new(),
            activities: BTreeMap::new(),
            timers: BTreeMap::new(),
            messages: BTreeMap::new(),
            outbox: BTreeMap::new(),
            signals: BTreeMap::new(),
            untaken: BTreeMap::new(),
            events: Vec::new(),
            facts: BTreeMap::new(),
            updates: BTreeMap::new(),
            attributes: Attributes::new(),
            step_logs: BTreeMap::new(),
        }
    }

    pub(super) fn run(&self) -> &RunRecord {
        &self.run
    }

    pub(super) fn has_ended(&self) -> bool {
        self.run.status.is_terminal()
    }

    pub(super) fn tasks(&self) -> &BTreeMap<Uuid, TaskRecord> {
        &self.tasks
    }

    /// The task that an activity has in the queue.
    pub(super) fn task_of(&self, activity_id: &str) -> Option<Uuid> {
        self.activities.get(activity_id).copied()
    }

    /// The first of the sequential tasks.
    pub(super) fn line_head(&self) -> Option<&TaskRecord> {
        self.line.first().map(|(_, id)| &self.tasks[id])
    }

    pub(super) fn timers(&self) -> &BTreeMap<String, TimerRecord> {
        &self.timers
    }

    pub(super) fn messages(&self) -> &BTreeMap<(i64, i32), MessageRecord> {
        &self.messages
    }

    pub(super) fn outbox(&self) -> &BTreeMap<Uuid, OutboxRecord> {
        &self.outbox
    }

    pub(super) fn signals(&self) -> &BTreeMap<Uuid, SignalRecord> {
        &self.signals
    }

    /// Writes a row of the signals' ledger: nobody has taken the signal (again).
    pub(super) fn put_signal(&mut self, signal: SignalRecord) {
        if let Some(known) = self.signals.get(&signal.signal_id)
            && self.untaken.get(&known.arrival) == Some(&signal.signal_id)
        {
            self.untaken.remove(&known.arrival);
        }
        self.untaken.insert(signal.arrival, signal.signal_id);
        self.signals.insert(signal.signal_id, signal);
    }

    /// Deletes signals that a turn took before, at most so many.
    pub(super) fn forget_signals(&mut self, before: Timestamp, max: usize) -> u64 {
        let taken = |signal: &SignalRecord| signal.processed_at.is_some_and(|at| at < before);
        let old = self.signals.values().filter(|signal| taken(signal));
        let old: Vec<Uuid> = old.map(|signal| signal.signal_id).take(max).collect();
        for id in &old {
            self.signals.remove(id);
        }
        old.len() as u64
    }

    /// Deletes outbox events that were published or given up, and last claimed until before. No
    /// index holds them.
    pub(super) fn forget_outbox(&mut self, before: Timestamp, max: usize) -> u64 {
        let over = |event: &OutboxRecord| {
            matches!(event.state, OutboxState::Published | OutboxState::Failed)
                && event.available_at < before
        };
        let old = self.outbox.values().filter(|event| over(event));
        let old: Vec<Uuid> = old.map(|event| event.id).take(max).collect();
        for id in &old {
            self.outbox.remove(id);
        }
        old.len() as u64
    }

    /// Deletes the first events of earlier iterations, up to the first that was not appended
    /// before.
    pub(super) fn forget_events(
        &mut self,
        history_start: i64,
        before: Timestamp,
        max: usize,
    ) -> u64 {
        let old = |event: &&HistoryEvent| {
            event.sequence_num <= history_start && event.created_at < before
        };
        let count = self.events.iter().take_while(old).count().min(max);
        self.events.drain(..count);
        count as u64
    }

    /// Marks the signals that arrived up to a number as taken.
    pub(super) fn mark_signals(&mut self, through: i64, now: Timestamp) {
        let later = self.untaken.split_off(&(through + 1));
        for id in std::mem::replace(&mut self.untaken, later).into_values() {
            if let Some(signal) = self.signals.get_mut(&id) {
                signal.processed_at = Some(now);
            }
        }
    }
}

impl State {
    pub(super) fn new(shards: Shards) -> Self {
        Self {
            shards,
            runs: BTreeMap::new(),
            index: (0..shards.count()).map(|_| ShardIndex::default()).collect(),
            children: BTreeSet::new(),
            keys: BTreeMap::new(),
            dead_letters: BTreeMap::new(),
            schedules: BTreeMap::new(),
            workers: BTreeMap::new(),
            breakers: BTreeMap::new(),
            dedup: BTreeMap::new(),
            rollups: Rollups::default(),
            audit: BTreeMap::new(),
            delivered: 0,
            replaced: None,
        }
    }

    // ---- reading ------------------------------------------------------------------------------

    pub(super) fn runs(&self) -> &BTreeMap<Uuid, RunState> {
        &self.runs
    }

    pub(super) fn find(&self, run_id: Uuid) -> Option<&RunState> {
        self.runs.get(&run_id)
    }

    /// A run that the caller has found under the same lock.
    pub(super) fn at(&self, run_id: Uuid) -> &RunState {
        self.runs.get(&run_id).expect(FOUND)
    }

    /// The same, to change what no index is made of.
    pub(super) fn at_mut(&mut self, run_id: Uuid) -> &mut RunState {
        self.runs.get_mut(&run_id).expect(FOUND)
    }

    pub(super) fn task(&self, run_id: Uuid, task_id: Uuid) -> Option<&TaskRecord> {
        self.runs.get(&run_id)?.tasks.get(&task_id)
    }

    /// Runs that have this one as parent, by id.
    pub(super) fn children_of(&self, parent: Uuid) -> Vec<Uuid> {
        self.children
            .range((parent, Uuid::nil())..=(parent, Uuid::max()))
            .map(|(_, child)| *child)
            .collect()
    }

    pub(super) fn shard(&self, shard: i32) -> &ShardIndex {
        &self.index[place(shard)]
    }

    pub(super) fn shard_indexes(&self) -> impl Iterator<Item = &ShardIndex> {
        self.index.iter()
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.index.iter().filter_map(ShardIndex::next_due).min()
    }

    // ---- changing what indexes are made of ----------------------------------------------------

    fn shard_of(&mut self, run_id: Uuid) -> &mut ShardIndex {
        &mut self.index[place(self.shards.of_run(run_id))]
    }

    pub(super) fn put_run(&mut self, run: RunRecord) {
        if let Some(parent) = &run.parent {
            self.children.insert((parent.run_id, run.id));
        }
        self.shard_of(run.id).note_run(Note::Enter, &run);
        let former = self.runs.insert(run.id, RunState::new(run));
        debug_assert!(former.is_none(), "a run id is used once");
    }

    pub(super) fn edit_run(&mut self, run_id: Uuid, edit: impl FnOnce(&mut RunRecord)) {
        let index = &mut self.index[place(self.shards.of_run(run_id))];
        let run = &mut self.runs.get_mut(&run_id).expect(FOUND).run;
        index.note_run(Note::Remove, run);
        edit(run);
        index.note_run(Note::Enter, run);
    }

    /// Forgets a run with all that is kept in it.
    pub(super) fn remove_run(&mut self, run_id: Uuid) {
        let Some(gone) = self.runs.remove(&run_id) else {
            return;
        };
        if let Some(parent) = &gone.run.parent {
            self.children.remove(&(parent.run_id, run_id));
        }
        let index = self.shard_of(run_id);
        index.note_run(Note::Remove, &gone.run);
        for task in gone.tasks.values() {
            index.note_task(Note::Remove, task);
        }
        for timer in gone.timers.values() {
            index.note_timer(Note::Remove, timer);
        }
        for message in gone.messages.values() {
            index.note_message(Note::Remove, message);
        }
        for event in gone.outbox.values() {
            index.note_outbox(Note::Remove, event);
        }
    }

    /// Adds a task, or replaces the one with its id.
    pub(super) fn put_task(&mut self, task: TaskRecord) {
        self.take_task(task.run_id, task.id);
        self.shard_of(task.run_id).note_task(Note::Enter, &task);
        let run = self.at_mut(task.run_id);
        if task.options.sequential {
            run.line.insert((task.line, task.id));
        }
        run.activities.insert(task.activity_id.clone(), task.id);
        run.tasks.insert(task.id, task);
    }

    pub(super) fn take_task(&mut self, run_id: Uuid, task_id: Uuid) -> Option<TaskRecord> {
        let run = self.runs.get_mut(&run_id)?;
        let task = run.tasks.remove(&task_id)?;
        run.line.remove(&(task.line, task.id));
        run.activities.remove(&task.activity_id);
        self.shard_of(run_id).note_task(Note::Remove, &task);
        Some(task)
    }

    /// Changes where a task stands; not its type, line, activity or priority.
    pub(super) fn edit_task(
        &mut self,
        run_id: Uuid,
        task_id: Uuid,
        edit: impl FnOnce(&mut TaskRecord),
    ) -> &TaskRecord {
        let index = &mut self.index[place(self.shards.of_run(run_id))];
        let run = self.runs.get_mut(&run_id).expect(FOUND);
        let task = run.tasks.get_mut(&task_id).expect(FOUND);
        index.note_task(Note::Remove, task);
        edit(task);
        index.note_task(Note::Enter, task);
        task
    }

    pub(super) fn put_timer(&mut self, timer: TimerRecord) {
        self.take_timer(timer.run_id, &timer.timer_id);
        self.shard_of(timer.run_id).note_timer(Note::Enter, &timer);
        let timers = &mut self.at_mut(timer.run_id).timers;
        timers.insert(timer.timer_id.clone(), timer);
    }

    pub(super) fn take_timer(&mut self, run_id: Uuid, timer_id: &str) -> Option<TimerRecord> {
        let timer = self.runs.get_mut(&run_id)?.timers.remove(timer_id)?;
        self.shard_of(run_id).note_timer(Note::Remove, &timer);
        Some(timer)
    }

    pub(super) fn put_message(&mut self, message: MessageRecord) {
        self.shard_of(message.sender)
            .note_message(Note::Enter, &message);
        let key = (message.sequence_num, message.idx);
        self.at_mut(message.sender).messages.insert(key, message);
    }

    pub(super) fn take_message(&mut self, sender: Uuid, key: (i64, i32)) -> Option<MessageRecord> {
        let message = self.runs.get_mut(&sender)?.messages.remove(&key)?;
        self.shard_of(sender).note_message(Note::Remove, &message);
        Some(message)
    }

    pub(super) fn put_outbox(&mut self, event: OutboxRecord) {
        self.shard_of(event.run_id).note_outbox(Note::Enter, &event);
        self.at_mut(event.run_id).outbox.insert(event.id, event);
    }

    pub(super) fn edit_outbox(
        &mut self,
        run_id: Uuid,
        id: Uuid,
        edit: impl FnOnce(&mut OutboxRecord),
    ) -> &OutboxRecord {
        let index = &mut self.index[place(self.shards.of_run(run_id))];
        let run = self.runs.get_mut(&run_id).expect(FOUND);
        let event = run.outbox.get_mut(&id).expect(FOUND);
        index.note_outbox(Note::Remove, event);
        edit(event);
        index.note_outbox(Note::Enter, event);
        event
    }
}

const FOUND: &str = "the caller has found it under the same lock";

fn place(shard: i32) -> usize {
    usize::try_from(shard).expect("shards are numbered from 0")
}
