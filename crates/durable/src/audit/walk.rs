//! The audit of a large database: run by run, in the order of their ids, with bounded memory.
//!
//! A page of runs is read at one instant and judged by the same checks as a whole dump; then it is
//! forgotten. A run with more rows or bytes than [`RUN_ROWS_MAX`] and [`RUN_BYTES_MAX`] is not
//! loaded but counted as too large. What only the whole store can show (totals, schedules) is not
//! looked at. The database may be in use meanwhile; nothing is changed or locked.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::{AuditReport, Invariant, Reach, Scope, Violation, judge, winners};
use crate::persistence::model::{Dump, KeyKind};
use crate::persistence::{Shards, StoreError, StoreResult, StoreUrl};

/// Runs of one page at most.
pub(crate) const PAGE_RUNS_MAX: usize = 100;
/// Keys of one page at most.
pub(crate) const PAGE_KEYS_MAX: usize = 500;
/// Rows of all runs of a page, and of the one run that a page may consist of.
pub const RUN_ROWS_MAX: usize = 50_000;
/// Bytes likewise.
pub const RUN_BYTES_MAX: u64 = 32 << 20;
/// Runs that are late, of each kind, that are named.
pub(crate) const OVERDUE_MAX: usize = 1_000;
/// Rows of missing runs that a page names, of each table.
pub(crate) const ORPHANS_MAX: usize = 100;

/// Runs with rows in a table that one statement looks at, at most.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) const RUNS_WITH_ROWS_MAX: usize = 500;

/// What to look for, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkOptions {
    /// Work that is overdue by more than this is stuck. None: overdue work is not looked for, as is
    /// right for a copy of a database that nothing works on.
    pub stuck_after: Option<Duration>,
    /// Stop after this long, with what was found so far.
    pub time_max: Option<Duration>,
    /// Stop after so many violations. Overdue work does not count towards it; at most as much of it
    /// is named.
    pub violations_max: usize,
}

impl Default for WalkOptions {
    fn default() -> Self {
        Self {
            stuck_after: Some(Duration::from_secs(5 * 60)),
            time_max: None,
            violations_max: 1_000,
        }
    }
}

/// How far a walk has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walked {
    /// What was found.
    pub report: AuditReport,
    /// Keys looked at.
    pub keys: usize,
    /// Runs that were not loaded because they are too large, and the first of them.
    pub too_large: usize,
    /// The first run that is too large.
    pub first_too_large: Option<Uuid>,
    /// Whether everything was looked at.
    pub complete: bool,
}

/// A page of runs.
pub(crate) struct Page {
    /// The runs with their dead letters and idempotency keys, and rows of runs that are not there.
    pub(crate) dump: Dump,
    /// Runs that were passed over.
    pub(crate) too_large: Vec<Uuid>,
    /// The last run looked at; none: there is none left.
    pub(crate) last: Option<Uuid>,
}

/// A key, and what its run says of it.
pub(crate) struct HeldKey {
    pub(crate) kind: KeyKind,
    pub(crate) key: String,
    pub(crate) run_id: Option<Uuid>,
    /// None: there is no such run.
    pub(crate) holder: Option<Holder>,
}

/// The keys that a run says it has.
#[derive(Clone, Default)]
pub(crate) struct Holder {
    pub(crate) idempotency_key: Option<String>,
    pub(crate) business_id: Option<String>,
    /// The run is being deleted: its row is gone, its keys go last.
    pub(crate) deleted: bool,
}

/// Work that is late.
pub(crate) struct Overdue {
    pub(crate) run_id: Uuid,
    pub(crate) what: &'static str,
    pub(crate) seconds: i64,
}

/// A database, as a walk reads it.
pub(crate) trait Source {
    fn shards(&self) -> Shards;

    /// The next runs of a shard, read at one instant.
    async fn page(&mut self, shard: i32, after: Uuid) -> StoreResult<Page>;

    /// The next keys of a shard, in the order of kind and key.
    async fn keys(&mut self, shard: i32, after: (&str, &str)) -> StoreResult<Vec<HeldKey>>;

    /// What should have happened longer ago than this.
    async fn overdue(&mut self, after: Duration) -> StoreResult<Vec<Overdue>>;
}

/// Walks through the database that a URL names. `progress` is called after each page.
///
/// # Errors
/// Those of reaching and reading the database; [`StoreError::Schema`] when this build cannot read it.
pub async fn walk(
    url: &str,
    options: WalkOptions,
    progress: impl FnMut(&Walked),
) -> StoreResult<Walked> {
    match StoreUrl::parse(url)? {
        StoreUrl::Memory => Err(StoreError::open("memory: has nothing to audit")),
        #[cfg(feature = "sqlite")]
        StoreUrl::Sqlite(path) => {
            let source = crate::persistence::sqlite::Walk::open(path.as_ref())?;
            Walk::new(source, options, progress).run().await
        }
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(url) => {
            let source = crate::persistence::postgres::Walk::open(&url).await?;
            Walk::new(source, options, progress).run().await
        }
        #[cfg(not(all(feature = "sqlite", feature = "postgres")))]
        _ => Err(StoreError::open(
            "this build was made without that store; enable its feature",
        )),
    }
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
struct Walk<S, P> {
    source: S,
    options: WalkOptions,
    progress: P,
    began: Instant,
    walked: Walked,
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
impl<S: Source, P: FnMut(&Walked)> Walk<S, P> {
    fn new(source: S, options: WalkOptions, progress: P) -> Self {
        Self {
            source,
            options,
            progress,
            began: Instant::now(),
            walked: Walked::default(),
        }
    }

    async fn run(mut self) -> StoreResult<Walked> {
        self.walked.complete = self.look().await?;
        let max = self.options.violations_max;
        self.walked.report.violations.truncate(max);
        let mut late = self.overdue().await?;
        self.walked.complete &= late.len() <= max;
        late.truncate(max);
        self.walked.report.violations.append(&mut late);
        Ok(self.walked)
    }

    /// Work that is late, read last: a database on which nothing works has much of it, and it would
    /// end the walk before anything else is looked at.
    async fn overdue(&mut self) -> StoreResult<Vec<Violation>> {
        let Some(after) = self.options.stuck_after else {
            return Ok(Vec::new());
        };
        let late = self.source.overdue(after).await?.into_iter();
        Ok(late
            .map(|late| Violation {
                invariant: Invariant::I14,
                run: Some(late.run_id),
                message: format!("{} for {} s", late.what, late.seconds),
            })
            .collect())
    }

    /// Answers whether everything was looked at.
    async fn look(&mut self) -> StoreResult<bool> {
        for shard in self.source.shards().from(0) {
            if !self.runs(shard).await? || !self.keys(shard).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn runs(&mut self, shard: i32) -> StoreResult<bool> {
        let mut after = Uuid::nil();
        loop {
            if self.is_over() {
                return Ok(false);
            }
            let page = self.source.page(shard, after).await?;
            let found = judge(&page.dump, Scope::Engine, Reach::Runs);
            let walked = &mut self.walked;
            walked.report.runs += found.runs;
            walked.report.events += found.events;
            walked.report.violations.extend(found.violations);
            walked.too_large += page.too_large.len();
            let first = page.too_large.first().copied();
            walked.first_too_large = walked.first_too_large.or(first);
            (self.progress)(&self.walked);
            match page.last {
                Some(last) => after = last,
                None => return Ok(true),
            }
        }
    }

    async fn keys(&mut self, shard: i32) -> StoreResult<bool> {
        let mut after = (String::new(), String::new());
        loop {
            if self.is_over() {
                return Ok(false);
            }
            let keys = self.source.keys(shard, (&after.0, &after.1)).await?;
            self.walked.keys += keys.len();
            for key in &keys {
                let (kind, name) = (key.kind.as_str(), &key.key);
                match key.run_id {
                    None => self.walked.report.violations.push(Violation {
                        invariant: Invariant::I13,
                        run: None,
                        message: format!("the {kind} key {name:?} was reserved and has no run"),
                    }),
                    Some(run_id)
                        if winners::belongs(key.kind, name, run_id, key.holder.as_ref()) => {}
                    Some(run_id) => self.add(
                        Invariant::I9,
                        run_id,
                        format!("the {kind} key {name:?} does not belong to it"),
                    ),
                }
            }
            (self.progress)(&self.walked);
            match keys.last() {
                Some(last) if keys.len() == PAGE_KEYS_MAX => {
                    after = (last.kind.as_str().to_owned(), last.key.clone());
                }
                _ => return Ok(true),
            }
        }
    }

    fn add(&mut self, invariant: Invariant, run: Uuid, message: String) {
        self.walked.report.violations.push(Violation {
            invariant,
            run: Some(run),
            message,
        });
    }

    fn is_over(&self) -> bool {
        let time = self.options.time_max;
        time.is_some_and(|max| self.began.elapsed() >= max)
            || self.walked.report.violations.len() >= self.options.violations_max
    }
}

/// The first runs that fit into a page together, by rows and bytes; a run that does not fit into
/// one by itself is passed over. Answers those to load, those passed over, and how many were looked
/// at.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn that_fit(measured: &[(Uuid, i64, i64)]) -> (Vec<Uuid>, Vec<Uuid>, usize) {
    let (mut rows, mut bytes) = (0_u64, 0_u64);
    let (mut load, mut too_large) = (Vec::new(), Vec::new());
    for (looked, (id, own_rows, own_bytes)) in measured.iter().enumerate() {
        let own_rows = u64::try_from(*own_rows).unwrap_or(u64::MAX);
        let own_bytes = u64::try_from(*own_bytes).unwrap_or(u64::MAX);
        if own_rows > RUN_ROWS_MAX as u64 || own_bytes > RUN_BYTES_MAX {
            too_large.push(*id);
            continue;
        }
        if rows + own_rows > RUN_ROWS_MAX as u64 || bytes + own_bytes > RUN_BYTES_MAX {
            return (load, too_large, looked);
        }
        rows += own_rows;
        bytes += own_bytes;
        load.push(*id);
    }
    (load, too_large, measured.len())
}

/// Keys with what their runs say.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn held(
    keys: Vec<(KeyKind, String, Option<Uuid>)>,
    holders: &BTreeMap<Uuid, Holder>,
) -> Vec<HeldKey> {
    let keys = keys.into_iter();
    keys.map(|(kind, key, run_id)| HeldKey {
        kind,
        key,
        run_id,
        holder: run_id.and_then(|id| holders.get(&id).cloned()),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_bounded_by_bytes_and_a_run_beyond_them_is_passed_over() {
        let id = |n| Uuid::from_u128(n);
        let most = i64::try_from(RUN_BYTES_MAX).unwrap();
        let rows = i64::try_from(RUN_ROWS_MAX).unwrap();
        let measured = [
            (id(1), 1, most / 2),
            (id(2), 1, most + 1),
            (id(3), rows + 1, 1),
            (id(4), 1, most / 2),
            (id(5), 1, 1),
        ];
        let (load, too_large, looked) = that_fit(&measured);
        assert_eq!(load, [id(1), id(4)]);
        assert_eq!(too_large, [id(2), id(3)]);
        assert_eq!(looked, 4);
        assert_eq!(that_fit(&measured[4..]), (vec![id(5)], vec![], 1));
    }
}
