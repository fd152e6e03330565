//! Applying: changes as statements, in the order of the fields of [`Changes`], each kind and shard one statement.

use std::collections::BTreeSet;

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::persistence::Shards;
use crate::persistence::limits::UNREAD_SLICE_BYTES_MAX;
use crate::persistence::model::{KeyKind, RollupRecord};
use crate::persistence::postgres::bind::{Call, at, by_shard, column, last_by_key, limit, value};
use crate::persistence::postgres::rows;
use crate::persistence::postgres::rows::keys::Name;
use crate::persistence::postgres::sql::{
    inbox, keys, purge, registry, schedules, signals, tasks, timers,
};
use crate::persistence::postgres::statement::Statement;
use crate::persistence::sql::rows::Changes;

/// All that is to be sent. What is empty is not sent.
pub(super) fn calls<'a>(
    shards: Shards,
    changes: &'a Changes,
    totals: &'a [RollupRecord],
    slot: i32,
    reserved: &'a BTreeSet<Name>,
) -> Vec<Call<'a>> {
    let mut apply = Apply {
        shards,
        changes,
        calls: Vec::new(),
    };
    apply.burials();
    apply.removals();
    apply.runs();
    apply.tasks();
    apply.arrivals();
    apply.departures();
    apply.keys(reserved);
    apply.records();
    apply.totals(totals, slot);
    apply.audit();
    apply.purges();
    apply.calls
}

struct Apply<'a> {
    shards: Shards,
    changes: &'a Changes,
    calls: Vec<Call<'a>>,
}

impl<'a> Apply<'a> {
    /// Letters of dead tasks, while the tasks are still in the queue.
    fn burials(&mut self) {
        let shards = self.shards;
        let letters = last_by_key(&self.changes.bury_tasks, |l| (l.run_id, l.id));
        self.sets(letters, |l| shards.of_run(l.run_id), rows::letters::bury);
    }

    fn removals(&mut self) {
        let changes = self.changes;
        self.pairs(&tasks::DELETE_TASKS, &changes.delete_tasks, |(_, id)| *id);
        self.ids(&tasks::DELETE_TASKS_OF, &changes.delete_tasks_of);
        self.pairs(&timers::DELETE_TIMERS, &changes.delete_timers, |(_, id)| {
            id.as_str()
        });
        self.ids(&timers::DELETE_TIMERS_OF, &changes.delete_timers_of);
        self.unread();
        self.marks();
        self.pairs(
            &inbox::CONSUME_FACTS,
            &changes.consume_facts,
            |(_, through)| *through,
        );
        self.ids(&inbox::DROP_STALE_FACTS, &changes.drop_stale_facts);
        self.ids(&inbox::DROP_ITERATION_FACTS, &changes.drop_iteration_facts);
    }

    /// Waiting signals of runs that end, before the facts leave: as many statements as their bytes
    /// ask for, one in most cases.
    fn unread(&mut self) {
        let (shards, now) = (self.shards, self.changes.now);
        for (shard, rows) in by_shard(&self.changes.keep_unread, |r| shards.of_run(r.run_id)) {
            let (mut from, mut bytes) = (0, 0);
            for (place, row) in rows.iter().enumerate() {
                if bytes > 0 && bytes + row.slice.bytes > limit(UNREAD_SLICE_BYTES_MAX) {
                    let call = rows::events::keep_unread(shard, now, &rows[from..place]);
                    self.calls.push(call);
                    (from, bytes) = (place, 0);
                }
                bytes += row.slice.bytes;
            }
            let call = rows::events::keep_unread(shard, now, &rows[from..]);
            self.calls.push(call);
        }
    }

    /// Signals among the facts that are taken.
    fn marks(&mut self) {
        let (shards, now) = (self.shards, self.changes.now);
        for (shard, rows) in by_shard(&self.changes.consume_facts, |(id, _)| shards.of_run(*id)) {
            let params = vec![
                value(shard),
                value(at(now)),
                column(&rows, |(run_id, _)| *run_id),
                column(&rows, |(_, through)| *through),
            ];
            self.calls.push(Call::new(&signals::MARK_SIGNALS, params));
        }
    }

    fn runs(&mut self) {
        let (shards, changes) = (self.shards, self.changes);
        self.sets(
            &changes.insert_runs,
            |r| shards.of_run(r.record.id),
            rows::runs::insert,
        );
        self.sets(
            &changes.update_runs,
            |r| shards.of_run(r.head.id),
            rows::runs::update,
        );
        self.sets(
            &changes.advance_runs,
            |r| shards.of_run(r.id),
            rows::runs::advance,
        );
        let now = changes.now;
        self.sets(
            &changes.insert_events,
            |r| shards.of_run(r.run_id),
            |shard, events| rows::events::insert(shard, now, events),
        );
    }

    fn tasks(&mut self) {
        let (shards, changes) = (self.shards, self.changes);
        self.sets(
            &changes.insert_timers,
            |r| shards.of_run(r.run_id),
            rows::timers::insert,
        );
        self.sets(
            &changes.insert_tasks,
            |r| shards.of_run(r.run_id),
            rows::tasks::insert,
        );
        let changed = last_by_key(&changes.update_tasks, |t| (t.task.run_id, t.task.id));
        self.sets(
            changed,
            |r| shards.of_run(r.task.run_id),
            rows::tasks::update,
        );
        for (shard, runs) in by_shard(&changes.release_lines, |id| shards.of_run(*id)) {
            let params = vec![
                value(shard),
                column(&runs, |id| *id),
                value(at(changes.now)),
            ];
            self.calls.push(Call::new(&tasks::RELEASE_LINES, params));
        }
    }

    /// What reaches runs.
    fn arrivals(&mut self) {
        let (shards, changes, now) = (self.shards, self.changes, self.changes.now);
        self.sets(
            &changes.insert_facts,
            |(id, _)| shards.of_run(*id),
            rows::inbox::insert,
        );
        let signals = last_by_key(&changes.put_signals, |s| (s.run_id, s.signal_id));
        self.sets(signals, |r| shards.of_run(r.run_id), rows::signals::put);
        self.sets(
            &changes.insert_updates,
            |r| shards.of_run(r.run_id),
            rows::updates::insert,
        );
        self.sets(
            &changes.answer_updates,
            |r| shards.of_run(r.run_id),
            |shard, answers| rows::updates::answer(shard, now, answers),
        );
        self.sets(
            &changes.fail_open_updates,
            |(id, _)| shards.of_run(*id),
            |shard, ended| rows::updates::fail_open(shard, now, ended),
        );
    }

    /// What runs say about themselves and to others.
    fn departures(&mut self) {
        let (shards, changes) = (self.shards, self.changes);
        let (set, removed): (Vec<_>, Vec<_>) =
            last_by_key(&changes.attributes, |(run_id, name, _)| (*run_id, name))
                .partition(|(_, _, value)| value.is_some());
        self.sets(set, |(id, _, _)| shards.of_run(*id), rows::attributes::put);
        self.sets(
            removed,
            |(id, _, _)| shards.of_run(*id),
            rows::attributes::delete,
        );
        self.sets(
            &changes.insert_messages,
            |m| shards.of_run(m.sender),
            rows::messages::insert,
        );
        self.sets(
            &changes.delete_messages,
            |(sender, _, _)| shards.of_run(*sender),
            rows::messages::delete,
        );
    }

    /// Keys, in their order; those reserved for nothing go again.
    fn keys(&mut self, reserved: &'a BTreeSet<Name>) {
        let (shards, changes) = (self.shards, self.changes);
        let put = last_by_key(&changes.put_keys, |k| (k.kind.as_str(), k.key.as_str()));
        self.sets(put, |k| shards.of_key(&k.key), rows::keys::put);
        let used: BTreeSet<(KeyKind, &str)> = changes
            .put_keys
            .iter()
            .map(|k| (k.kind, k.key.as_str()))
            .collect();
        let unused = reserved
            .iter()
            .filter(|(kind, key)| !used.contains(&(*kind, key.as_str())));
        self.sets(
            unused,
            |(_, key)| shards.of_key(key),
            |shard, names| rows::keys::named(&keys::UNRESERVE_KEYS, shard, names),
        );
    }

    fn records(&mut self) {
        let (shards, changes) = (self.shards, self.changes);
        let letters = last_by_key(&changes.put_letters, |l| (l.run_id, l.id));
        self.sets(letters, |l| shards.of_run(l.run_id), rows::letters::put);
        self.sets(
            &changes.insert_outbox,
            |o| shards.of_run(o.run_id),
            rows::outbox::insert,
        );
        self.sets(
            &changes.update_outbox,
            |o| shards.of_run(o.run_id),
            rows::outbox::update,
        );
        self.sets(
            &changes.insert_logs,
            |l| shards.of_run(l.run_id),
            rows::logs::insert,
        );
        let schedules = last_by_key(&changes.put_schedules, |s| &s.id);
        self.sets(
            schedules,
            |_| 0,
            |_, rows| rows::schedules::put(&schedules::PUT_SCHEDULES, rows),
        );
    }

    /// Totals, in the shard of a run of this commit: no other shard has to take part.
    fn totals(&mut self, totals: &'a [RollupRecord], slot: i32) {
        let changes = self.changes;
        let run_id = changes.update_runs.first().map(|r| r.head.id);
        let run_id = run_id.or(changes.advance_runs.first().map(|r| r.id));
        let run_id = run_id.or(changes.insert_runs.first().map(|r| r.record.id));
        let home = run_id.map_or(0, |id| self.shards.of_run(id));
        self.sets(
            totals,
            |_| home,
            |shard, rows| rows::rollups::add(shard, slot, rows),
        );
    }

    /// Rows of the whole database, in no shard.
    fn audit(&mut self) {
        let changes = self.changes;
        self.sets(
            &changes.insert_audit,
            |_| 0,
            |_, rows| rows::audit::insert(rows),
        );
    }

    fn purges(&mut self) {
        let (shards, changes) = (self.shards, self.changes);
        self.ids(&purge::PURGE_RUNS, &changes.delete_runs);
        let now = changes.now;
        self.sets(
            &changes.insert_purges,
            |purge| shards.of_run(purge.run_id),
            |shard, purges| rows::purges::insert(shard, now, purges),
        );
        self.sets(
            &changes.postpone_purges,
            |purge| shards.of_run(purge.run_id),
            rows::purges::postpone,
        );
        self.pairs(
            &purge::ADVANCE_PURGES,
            &changes.advance_purges,
            |(_, through)| *through,
        );
        self.ids(&purge::DELETE_PURGES, &changes.delete_purges);
        self.sets(
            &changes.delete_keys,
            |(_, key, _)| shards.of_key(key),
            rows::keys::delete,
        );
        if let Some(before) = changes.forget_limiters {
            let params = vec![value(at(before))];
            self.calls
                .push(Call::new(&registry::FORGET_LIMITERS, params));
        }
    }

    /// One call a shard.
    fn sets<T: 'a>(
        &mut self,
        rows: impl IntoIterator<Item = &'a T>,
        shard: impl Fn(&T) -> i32,
        call: impl Fn(i32, &[&'a T]) -> Call<'a>,
    ) {
        for (shard, rows) in by_shard(rows, shard) {
            self.calls.push(call(shard, &rows));
        }
    }

    /// A statement that takes runs.
    fn ids(&mut self, statement: &'static Statement, ids: &'a [Uuid]) {
        let shards = self.shards;
        self.sets(
            ids,
            |id| shards.of_run(*id),
            |shard, ids| Call::new(statement, vec![value(shard), column(ids, |id| *id)]),
        );
    }

    /// A statement that takes runs and, of each, one thing.
    fn pairs<I, T: ToSql + Sync + Send + 'a>(
        &mut self,
        statement: &'static Statement,
        pairs: &'a [(Uuid, I)],
        other: impl Fn(&'a (Uuid, I)) -> T,
    ) {
        let shards = self.shards;
        self.sets(
            pairs,
            |(run_id, _)| shards.of_run(*run_id),
            |shard, pairs| {
                let params = vec![
                    value(shard),
                    column(pairs, |(run_id, _)| *run_id),
                    column(pairs, &other),
                ];
                Call::new(statement, params)
            },
        );
    }
}
