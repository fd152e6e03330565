//! Loading: everything an intent asks for, locked and read in one flight.

use std::collections::BTreeSet;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::PgTx;
use crate::persistence::limits::UNREAD_SLICE_BYTES_MAX;
use crate::persistence::model::KeyKind;
use crate::persistence::postgres::bind::{Call, by_shard, column, limit, value};
use crate::persistence::postgres::reader::{Reader, read_all};
use crate::persistence::postgres::rows;
use crate::persistence::postgres::rows::keys::Name;
use crate::persistence::postgres::sql::{
    attributes, clock, inbox, keys, letters, outbox, runs, schedules, signals, tasks, timers,
    updates,
};
use crate::persistence::postgres::statement::Statement;
use crate::persistence::sql::rows::{Load, Loaded};
use crate::persistence::{Shards, StoreResult};

/// What a call's rows are.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Reserved,
    Keys,
    Schedules,
    Runs,
    RunsThere,
    Tombstones,
    Tasks,
    Queued,
    Standing,
    Lines,
    TasksThere,
    Timers,
    Unread,
    Attributes,
    Signals,
    Updates,
    Letters,
    Outbox,
    Clock,
}

/// The calls of one load, in the order of the locks: by kind, then by shard, then by key.
struct Plan<'a> {
    shards: Shards,
    calls: Vec<Call<'a>>,
    kinds: Vec<Kind>,
}

impl PgTx<'_> {
    pub(super) async fn load_all(&mut self, load: &Load) -> StoreResult<Loaded> {
        let (tombstones, names): (Vec<&Name>, Vec<&Name>) = load
            .keys
            .iter()
            .partition(|(kind, _)| *kind == KeyKind::Tombstone);
        self.missing_tombstones
            .extend(tombstones.iter().map(|name| (*name).clone()));
        let looked_for = self.missing_tombstones.clone();

        let mut unlocked: BTreeSet<Name> = names.iter().map(|name| (*name).clone()).collect();
        let mut plan = Plan::new(self.shards);
        plan.keys(names);
        plan.schedules(&load.schedules);
        if load.passing {
            plan.ids(Kind::Runs, &runs::LOCK_FREE_RUNS, &load.runs);
            // After the locks: what is there by now and was not locked is another transaction's.
            plan.ids(Kind::RunsThere, &runs::RUNS_THERE, &load.runs);
        } else {
            if let Some(error) = self.meets_known_locks(&load.runs) {
                return Err(error);
            }
            plan.ids(Kind::Runs, &runs::LOCK_RUNS, &load.runs);
        }
        if !(load.runs.is_empty() && tombstones.is_empty()) {
            plan.tombstones(&looked_for);
        }
        plan.belongings(load);
        if self.now.is_none() {
            plan.push(Kind::Clock, Call::new(&clock::CLOCK, Vec::new()));
        }
        if plan.calls.is_empty() {
            return Ok(Loaded::default());
        }
        let answers = match self.flight(&plan.calls).await {
            Ok(answers) => answers,
            Err(error) => {
                self.wanted.clone_from(&load.runs);
                return Err(error);
            }
        };
        let mut loaded = Loaded::default();
        for (kind, rows) in plan.kinds.into_iter().zip(answers) {
            if matches!(kind, Kind::Keys) {
                for name in read_all(&rows, rows::keys::name)? {
                    unlocked.remove(&name);
                }
            }
            self.take_in(&mut loaded, kind, &rows)?;
        }
        self.lock_again(&mut loaded, unlocked).await?;
        Ok(loaded)
    }

    /// Reserves and locks keys that were there when they were to be reserved and gone when they
    /// were to be locked: retention deleted them in between. Without this two starts with one key
    /// could both take it for absent.
    async fn lock_again(
        &mut self,
        loaded: &mut Loaded,
        mut unlocked: BTreeSet<Name>,
    ) -> StoreResult<()> {
        while !unlocked.is_empty() {
            let wanted = std::mem::take(&mut unlocked);
            let mut plan = Plan::new(self.shards);
            plan.keys(wanted.iter().collect());
            let answers = self.flight(&plan.calls).await?;
            unlocked.extend(wanted.iter().cloned());
            for (kind, rows) in plan.kinds.into_iter().zip(answers) {
                if matches!(kind, Kind::Keys) {
                    for name in read_all(&rows, rows::keys::name)? {
                        unlocked.remove(&name);
                    }
                }
                self.take_in(loaded, kind, &rows)?;
            }
        }
        Ok(())
    }

    fn take_in(&mut self, loaded: &mut Loaded, kind: Kind, rows: &[Row]) -> StoreResult<()> {
        match kind {
            Kind::Reserved => self.reserved.extend(read_all(rows, rows::keys::name)?),
            Kind::Clock => self.now = read_all(rows, Reader::at)?.pop(),
            Kind::Keys | Kind::Tombstones => {
                for key in read_all(rows, rows::keys::record)?.into_iter().flatten() {
                    self.missing_tombstones.remove(&(key.kind, key.key.clone()));
                    loaded.keys.insert((key.kind, key.key.clone()), key);
                }
            }
            _ => take_in_belongings(loaded, kind, rows)?,
        }
        Ok(())
    }
}

fn take_in_belongings(loaded: &mut Loaded, kind: Kind, found: &[Row]) -> StoreResult<()> {
    match kind {
        Kind::Schedules => {
            let all = read_all(found, rows::schedules::record)?;
            loaded
                .schedules
                .extend(all.into_iter().map(|s| (s.id.clone(), s)));
        }
        Kind::Runs => {
            let all = read_all(found, rows::runs::head)?;
            loaded.runs.extend(all.into_iter().map(|r| (r.id, r)));
        }
        Kind::RunsThere => {
            let mut there = read_all(found, Reader::next::<Uuid>)?;
            there.retain(|run_id| !loaded.runs.contains_key(run_id));
            loaded.busy.extend(there);
        }
        Kind::TasksThere => {
            let mut there = read_all(found, |row| Ok((row.next()?, row.next()?)))?;
            there.retain(|key| !loaded.tasks.contains_key(key));
            loaded.busy_tasks.extend(there);
        }
        Kind::Tasks => {
            let all = read_all(found, rows::tasks::record)?;
            loaded
                .tasks
                .extend(all.into_iter().map(|t| ((t.run_id, t.id), t)));
        }
        Kind::Queued => {
            let all = read_all(found, |row| {
                let key: (Uuid, Uuid) = (row.next()?, row.next()?);
                Ok((key, row.next::<String>()?))
            })?;
            loaded.queued.extend(all);
        }
        Kind::Standing => loaded
            .standing
            .extend(read_all(found, rows::tasks::standing)?),
        Kind::Lines => {
            let all = read_all(found, |row| Ok((row.next::<Uuid>()?, row.next::<i64>()?)))?;
            loaded.lines.extend(all);
        }
        Kind::Timers => {
            let all = read_all(found, rows::timers::record)?;
            loaded
                .timers
                .extend(all.into_iter().map(|t| ((t.run_id, t.timer_id.clone()), t)));
        }
        Kind::Unread => {
            for (run_id, slice) in read_all(found, rows::inbox::slice)? {
                loaded.unread.entry(run_id).or_default().push(slice);
            }
        }
        Kind::Attributes => {
            let all = read_all(found, |row| Ok((row.next::<Uuid>()?, row.next()?)))?;
            for (run_id, name) in all {
                loaded.attributes.entry(run_id).or_default().insert(name);
            }
        }
        Kind::Signals => {
            let all = read_all(found, rows::signals::record)?;
            loaded
                .signals
                .extend(all.into_iter().map(|s| ((s.run_id, s.signal_id), s)));
        }
        Kind::Updates => {
            let all = read_all(found, rows::updates::record)?;
            loaded.updates.extend(
                all.into_iter()
                    .map(|u| ((u.run_id, u.update_id.clone()), u)),
            );
        }
        Kind::Letters => {
            let all = read_all(found, rows::letters::record)?;
            loaded
                .letters
                .extend(all.into_iter().map(|l| ((l.run_id, l.id), l)));
        }
        Kind::Outbox => {
            let all = read_all(found, rows::outbox::record)?;
            loaded
                .outbox
                .extend(all.into_iter().map(|o| ((o.run_id, o.id), o)));
        }
        Kind::Reserved | Kind::Keys | Kind::Tombstones | Kind::Clock => {}
    }
    Ok(())
}

impl<'a> Plan<'a> {
    fn new(shards: Shards) -> Self {
        Self {
            shards,
            calls: Vec::new(),
            kinds: Vec::new(),
        }
    }

    fn push(&mut self, kind: Kind, call: Call<'a>) {
        self.kinds.push(kind);
        self.calls.push(call);
    }

    /// Reserves and locks keys, by shard, kind and key.
    fn keys(&mut self, mut names: Vec<&'a Name>) {
        names.sort_unstable_by_key(|(kind, key)| (kind.as_str(), key.as_str()));
        names.dedup();
        let shards = self.shards;
        let groups = by_shard(names, |(_, key)| shards.of_key(key));
        for (shard, names) in &groups {
            self.push(
                Kind::Reserved,
                rows::keys::named(&keys::RESERVE_KEYS, *shard, names),
            );
        }
        for (shard, names) in &groups {
            self.push(
                Kind::Keys,
                rows::keys::named(&keys::LOCK_KEYS, *shard, names),
            );
        }
    }

    fn schedules(&mut self, ids: &'a [String]) {
        let ids: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
        if !ids.is_empty() {
            let params = vec![value(ids.into_iter().collect::<Vec<_>>())];
            self.push(
                Kind::Schedules,
                Call::new(&schedules::LOCK_SCHEDULES, params),
            );
        }
    }

    fn tombstones<'n: 'a>(&mut self, names: &'n BTreeSet<Name>) {
        let shards = self.shards;
        for (shard, names) in by_shard(names, |(_, key)| shards.of_key(key)) {
            self.push(Kind::Tombstones, rows::keys::tombstones(shard, &names));
        }
    }

    /// Everything that belongs to the runs that are locked by now.
    fn belongings(&mut self, load: &'a Load) {
        let lock_tasks = if load.passing {
            &tasks::LOCK_FREE_TASKS
        } else {
            &tasks::LOCK_TASKS
        };
        self.pairs(Kind::Tasks, lock_tasks, &load.tasks, |(_, id)| *id);
        let leases = &tasks::LOCK_LEASES;
        self.pairs(Kind::Tasks, leases, &load.leases, |(_, id)| *id);
        let there = &tasks::TASKS_THERE;
        self.pairs(Kind::TasksThere, there, &load.leases, |(_, id)| *id);
        self.pairs(Kind::Tasks, &tasks::READ_TASKS, &load.leased, |(_, id)| *id);
        self.ids(Kind::Queued, &tasks::READ_QUEUED, &load.queued_of);
        self.pairs(
            Kind::Standing,
            &tasks::READ_STANDING,
            &load.activities,
            |(_, id)| id.as_str(),
        );
        self.ids(Kind::Lines, &tasks::READ_LINES, &load.lines_of);
        self.pairs(
            Kind::Timers,
            &timers::READ_TIMERS,
            &load.timers,
            |(_, id)| id.as_str(),
        );
        self.unread(&load.unread_of);
        let names = &attributes::READ_ATTRIBUTE_NAMES;
        self.ids(Kind::Attributes, names, &load.attributes_of);
        self.pairs(
            Kind::Signals,
            &signals::READ_SIGNALS,
            &load.signals,
            |(_, id)| *id,
        );
        self.pairs(
            Kind::Updates,
            &updates::READ_UPDATES,
            &load.updates,
            |(_, id)| id.as_str(),
        );
        self.pairs(
            Kind::Letters,
            &letters::READ_LETTERS,
            &load.letters,
            |(_, id)| *id,
        );
        self.pairs(
            Kind::Outbox,
            &outbox::LOCK_OUTBOX,
            &load.outbox,
            |(_, id)| *id,
        );
    }

    /// Signals that wait behind an arrival of their run.
    fn unread(&mut self, behind: &'a [(Uuid, i64)]) {
        let behind: BTreeSet<&'a (Uuid, i64)> = behind.iter().collect();
        let shards = self.shards;
        for (shard, runs) in by_shard(behind, |(run_id, _)| shards.of_run(*run_id)) {
            let params = vec![
                value(shard),
                column(&runs, |(run_id, _)| *run_id),
                column(&runs, |(_, behind)| *behind),
                value(limit(UNREAD_SLICE_BYTES_MAX)),
            ];
            self.push(Kind::Unread, Call::new(&inbox::UNREAD_SLICES, params));
        }
    }

    /// A statement that takes runs.
    fn ids(&mut self, kind: Kind, statement: &'static Statement, ids: &'a [Uuid]) {
        let ids: BTreeSet<&'a Uuid> = ids.iter().collect();
        let shards = self.shards;
        for (shard, ids) in by_shard(ids, |id| shards.of_run(*id)) {
            let params = vec![value(shard), column(&ids, |id| *id)];
            self.push(kind, Call::new(statement, params));
        }
    }

    /// A statement that takes runs and, of each, an id.
    fn pairs<I: Ord, T: ToSql + Sync + Send + 'a>(
        &mut self,
        kind: Kind,
        statement: &'static Statement,
        pairs: &'a [(Uuid, I)],
        id: impl Fn(&'a (Uuid, I)) -> T,
    ) {
        let pairs: BTreeSet<&'a (Uuid, I)> = pairs.iter().collect();
        let shards = self.shards;
        for (shard, pairs) in by_shard(pairs, |(run_id, _)| shards.of_run(*run_id)) {
            let params = vec![
                value(shard),
                column(&pairs, |(run_id, _)| *run_id),
                column(&pairs, &id),
            ];
            self.push(kind, Call::new(statement, params));
        }
    }
}
