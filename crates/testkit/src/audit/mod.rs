//! The audit: invariants that can be read from a database, checked over a dump of it.
//!
//! Each invariant of the failure list has its own file and id. A violation is data; a store that was used as the
//! contract says has none, whatever crashed or was repeated on the way.

mod activities;
mod dead_letters;
mod ends;
mod finality;
mod history;
mod order;
mod projections;
mod queue;
mod replay;
mod schedules;
mod signals;
mod timers;
mod winners;

use std::fmt;

use durable_core::Timestamp;
use everruns_durable::persistence::model::Dump;
use everruns_durable::persistence::{StoreResult, WorkflowEventStore};
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
    I12 = "What is stored beside the events agrees with them.",
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

/// Every check: what it is about, what it may take for granted, and how it is done.
const CHECKS: &[(Invariant, Scope, Check)] = &[
    (Invariant::I1, Scope::Rows, ends::check),
    (Invariant::I2, Scope::Rows, signals::check),
    (Invariant::I3, Scope::Engine, activities::check),
    (Invariant::I4, Scope::Rows, order::check),
    (Invariant::I5, Scope::Rows, timers::check_rows),
    (Invariant::I5, Scope::Engine, timers::check_history),
    (Invariant::I6, Scope::Rows, schedules::check_rows),
    (Invariant::I6, Scope::Engine, schedules::check_next),
    (Invariant::I7, Scope::Rows, finality::check),
    (Invariant::I8, Scope::Rows, dead_letters::check_rows),
    (Invariant::I8, Scope::Engine, dead_letters::check_facts),
    (Invariant::I9, Scope::Rows, winners::check_keys),
    (Invariant::I9, Scope::Engine, winners::check_children),
    (Invariant::I10, Scope::Rows, replay::decodable),
    (Invariant::I10, Scope::Engine, replay::replayable),
    (Invariant::I12, Scope::Rows, queue::check),
    (Invariant::I12, Scope::Rows, projections::check_rows),
    (Invariant::I12, Scope::Engine, projections::check_totals),
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
    let mut report = AuditReport {
        runs: dump.runs.len(),
        events: dump.runs.iter().map(|run| run.events.len()).sum(),
        violations: Vec::new(),
    };
    let checks = CHECKS
        .iter()
        .filter(|(_, needs, _)| scope == Scope::Engine || *needs == Scope::Rows);
    for (invariant, _, check) in checks {
        let mut findings = Findings {
            invariant: *invariant,
            violations: Vec::new(),
        };
        check(dump, &mut findings);
        report.violations.append(&mut findings.violations);
    }
    report
}
