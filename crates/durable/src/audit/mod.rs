//! The audit: invariants that can be read from a database, checked over a dump of it, or over a
//! large database run by run ([`walk`]).
//!
//! Each invariant of the failure list has its own file and id. A violation is data; a store that was used as the
//! contract says has none, whatever crashed or was repeated on the way.

mod activities;
mod dead_letters;
mod derived;
mod ends;
mod finality;
mod history;
mod order;
mod outbox;
mod projections;
mod queue;
mod remains;
mod replay;
mod schedules;
mod signals;
mod stuck;
mod timers;
pub mod walk;
mod winners;

use std::fmt;

use crate::persistence::model::Dump;
use crate::persistence::{StoreResult, WorkflowEventStore};
use durable_core::Timestamp;
use uuid::Uuid;

macro_rules! invariants {
    ($($variant:ident = $text:literal),+ $(,)?) => {
        /// What must hold, by its number in the list of failures.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Invariant { $(#[doc = $text] $variant),+ }

        impl Invariant {
            /// All that are checked.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its number, such as `I3`.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant)),+ }
            }

            /// What it says.
            #[must_use]
            pub const fn says(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}

invariants! {
    I1 = "A run that has ended has one end, and nothing of it is left to do.",
    I2 = "Every signal and update waits, or was taken once.",
    I3 = "An activity ends once.",
    I4 = "Events and arrivals are numbered without gaps.",
    I5 = "A timer fires once and never early.",
    I6 = "A tick of a schedule is taken once.",
    I7 = "An end is final within an epoch.",
    I8 = "A dead task has one dead letter.",
    I9 = "A race has one winner, for ever.",
    I10 = "Every history can be replayed.",
    I11 = "An outbox event belongs to a committed turn.",
    I12 = "What is stored beside the events agrees with them.",
    I13 = "Nothing is left of a run that is gone.",
    I14 = "Nothing is stuck.",
}

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub invariant: Invariant,
    /// The run it was seen at, if it concerns one.
    pub run: Option<Uuid>,
    /// What was found.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.run {
            Some(run) => write!(f, "{} run {run}: {}", self.invariant.id(), self.message),
            None => write!(f, "{} {}", self.invariant.id(), self.message),
        }
    }
}

/// What an audit found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Runs looked at.
    pub runs: usize,
    /// Events looked at.
    pub events: usize,
    /// What is wrong.
    pub violations: Vec<Violation>,
}

impl AuditReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }
}

impl fmt::Display for AuditReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for invariant in Invariant::ALL {
            let broken = self
                .violations
                .iter()
                .filter(|violation| violation.invariant == *invariant)
                .count();
            let verdict = match broken {
                0 => "holds".to_owned(),
                count => format!("BROKEN {count} times"),
            };
            writeln!(
                f,
                "{:<4} {:<72} {verdict}",
                invariant.id(),
                invariant.says()
            )?;
        }
        for violation in &self.violations {
            writeln!(f, "  {violation}")?;
        }
        write!(
            f,
            "{} runs, {} events, {} violations",
            self.runs,
            self.events,
            self.violations.len()
        )
    }
}

/// What an audit may take for granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Histories were written by an engine: everything is checked.
    Engine,
    /// Histories are made up (the differential test's): only what every accepted call keeps is checked.
    Rows,
}

/// Collects violations of the check that is running.
pub(crate) struct Findings {
    invariant: Invariant,
    violations: Vec<Violation>,
}

impl Findings {
    fn add(&mut self, run: impl Into<Option<Uuid>>, message: impl Into<String>) {
        self.violations.push(Violation {
            invariant: self.invariant,
            run: run.into(),
            message: message.into(),
        });
    }

    /// Adds a violation unless this holds.
    fn expect(&mut self, holds: bool, run: impl Into<Option<Uuid>>, message: impl Into<String>) {
        if !holds {
            self.add(run, message);
        }
    }
}

type Check = fn(&Dump, &mut Findings);

/// How much of a store a check has to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Runs with all that belongs to them, any number of them.
    Runs,
    /// All of the store.
    Store,
}

/// Every check: what it is about, what it may take for granted, what it has to see, and how it is
/// done.
const CHECKS: &[(Invariant, Scope, Reach, Check)] = &[
    (Invariant::I1, Scope::Rows, Reach::Runs, ends::check),
    (Invariant::I2, Scope::Rows, Reach::Runs, signals::check),
    (
        Invariant::I2,
        Scope::Rows,
        Reach::Store,
        signals::check_sent,
    ),
    (Invariant::I3, Scope::Engine, Reach::Runs, activities::check),
    (Invariant::I4, Scope::Rows, Reach::Runs, order::check),
    (Invariant::I5, Scope::Rows, Reach::Runs, timers::check_rows),
    (
        Invariant::I5,
        Scope::Engine,
        Reach::Runs,
        timers::check_history,
    ),
    (
        Invariant::I6,
        Scope::Rows,
        Reach::Store,
        schedules::check_rows,
    ),
    (
        Invariant::I6,
        Scope::Engine,
        Reach::Store,
        schedules::check_next,
    ),
    (Invariant::I7, Scope::Rows, Reach::Runs, finality::check),
    (
        Invariant::I8,
        Scope::Rows,
        Reach::Runs,
        dead_letters::check_rows,
    ),
    (
        Invariant::I8,
        Scope::Engine,
        Reach::Runs,
        dead_letters::check_facts,
    ),
    (Invariant::I9, Scope::Rows, Reach::Runs, winners::check_keys),
    (
        Invariant::I9,
        Scope::Engine,
        Reach::Runs,
        winners::check_children,
    ),
    (Invariant::I10, Scope::Rows, Reach::Runs, replay::decodable),
    (
        Invariant::I10,
        Scope::Engine,
        Reach::Runs,
        replay::replayable,
    ),
    (Invariant::I11, Scope::Rows, Reach::Runs, outbox::check),
    (Invariant::I12, Scope::Rows, Reach::Runs, queue::check),
    (Invariant::I12, Scope::Rows, Reach::Runs, derived::check),
    (
        Invariant::I12,
        Scope::Rows,
        Reach::Runs,
        projections::check_rows,
    ),
    (
        Invariant::I12,
        Scope::Engine,
        Reach::Store,
        projections::check_totals,
    ),
    (
        Invariant::I12,
        Scope::Rows,
        Reach::Store,
        projections::check_counts,
    ),
    (Invariant::I13, Scope::Rows, Reach::Runs, remains::check),
    (Invariant::I14, Scope::Rows, Reach::Runs, stuck::check),
];

/// Audits all that a store holds. With `now`, nothing may have been written later than that.
///
/// # Errors
/// When the store cannot be read.
pub async fn audit(
    store: &dyn WorkflowEventStore,
    now: Option<Timestamp>,
) -> StoreResult<AuditReport> {
    let dump = store.dump().await?;
    let mut report = audit_dump(&dump);
    if let Some(now) = now {
        report.violations.extend(order::from_the_future(&dump, now));
    }
    Ok(report)
}

/// Audits a dump whose histories were written by an engine.
#[must_use]
pub fn audit_dump(dump: &Dump) -> AuditReport {
    audit_within(dump, Scope::Engine)
}

/// Audits a dump as far as the scope allows.
#[must_use]
pub fn audit_within(dump: &Dump, scope: Scope) -> AuditReport {
    judge(dump, scope, Reach::Store)
}

/// Runs the checks that the scope allows and that need to see no more than this dump has.
fn judge(dump: &Dump, scope: Scope, reach: Reach) -> AuditReport {
    let mut report = AuditReport {
        runs: dump.runs.len(),
        events: dump.runs.iter().map(|run| run.events.len()).sum(),
        violations: Vec::new(),
    };
    let checks = CHECKS.iter().filter(|(_, grants, sees, _)| {
        (scope == Scope::Engine || *grants == Scope::Rows)
            && (reach == Reach::Store || *sees == Reach::Runs)
    });
    for (invariant, _, _, check) in checks {
        let mut findings = Findings {
            invariant: *invariant,
            violations: Vec::new(),
        };
        check(dump, &mut findings);
        report.violations.append(&mut findings.violations);
    }
    report
}
