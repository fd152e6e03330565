//! A look at a database: is it set up so that nothing is lost, and does it keep up? Changes nothing.

use std::time::Duration;

use serde::Serialize;
use uuid::Uuid;

use super::StoreResult;
use super::open::StoreUrl;

/// What a look found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at, such as `fsync` or `clock`.
    pub check: String,
    /// How it stands.
    pub verdict: Verdict,
    /// What was found, and what to do where that is not as it should be.
    pub text: String,
}

/// How something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// Works, and wants attention.
    Warn,
    /// Data or service is at risk.
    Bad,
}

impl Finding {
    /// What a look found.
    pub fn new(check: impl Into<String>, verdict: Verdict, text: impl Into<String>) -> Self {
        Self {
            check: check.into(),
            verdict,
            text: text.into(),
        }
    }
}

/// Work is overdue after this long: what is due is otherwise done within seconds.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) const OVERDUE_AFTER: Duration = Duration::from_secs(5 * 60);

/// What can be overdue.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Runs whose turn nobody takes.
    Turns,
    /// Tasks whose lease or timeout has run out.
    Tasks,
    /// Tasks that nobody claims.
    Unclaimed,
    /// Timers that have not fired.
    Timers,
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
impl Work {
    pub(super) const ALL: [Self; 4] = [Self::Turns, Self::Tasks, Self::Unclaimed, Self::Timers];

    /// What is said of a run whose work is overdue.
    pub(super) const fn is_late(self) -> &'static str {
        match self {
            Self::Turns => "its turn is overdue",
            Self::Tasks => "the lease or timeout of a task has run out",
            Self::Unclaimed => "a task waits to be claimed",
            Self::Timers => "a timer is overdue",
        }
    }

    /// What was found: the runs whose work is overdue and since how many seconds, the longest first, at most `limit` of them.
    pub(super) fn finding(self, late: &[(Uuid, i64)], limit: usize) -> Finding {
        let (check, verdict, why) = match self {
            Self::Turns => (
                "overdue turns",
                Verdict::Bad,
                "runs are ready and nobody takes their turns: is a worker up that hosts their type and version?",
            ),
            Self::Tasks => (
                "overdue tasks",
                Verdict::Bad,
                "leases or timeouts of tasks have run out and nobody has noticed: is a server or an engine up?",
            ),
            Self::Unclaimed => (
                "waiting tasks",
                Verdict::Warn,
                "tasks wait to be claimed: is a worker up that hosts their type, and are there enough?",
            ),
            Self::Timers => (
                "overdue timers",
                Verdict::Bad,
                "timers have not fired: is a server or an engine up?",
            ),
        };
        let Some((run_id, seconds)) = late.first() else {
            return Finding::new(check, Verdict::Ok, "none");
        };
        let more = if late.len() < limit { "" } else { " or more" };
        let text = format!(
            "{}{more}, the longest for {seconds} s, of run {run_id}; {why}",
            late.len()
        );
        Finding::new(check, verdict, text)
    }
}

/// Looks at the database that a URL names: its version, the settings that durability rests on, its clock against this machine's,
/// dead rows and free pages, transactions that hold the clean-up back, and work that is overdue by minutes.
///
/// # Errors
/// Those of reaching it. A SQLite file may be in use meanwhile.
pub async fn checkup(url: &str) -> StoreResult<Vec<Finding>> {
    match StoreUrl::parse(url)? {
        StoreUrl::Memory => Ok(vec![Finding::new(
            "store",
            Verdict::Warn,
            "memory: keeps nothing when its process ends",
        )]),
        #[cfg(feature = "sqlite")]
        StoreUrl::Sqlite(path) => super::sqlite::checkup(path.as_ref()),
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(url) => super::postgres::checkup(&url).await,
        #[cfg(not(all(feature = "sqlite", feature = "postgres")))]
        _ => Err(super::StoreError::open(
            "this build was made without that store; enable its feature",
        )),
    }
}
