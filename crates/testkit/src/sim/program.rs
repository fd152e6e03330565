//! A random program, what it must come to, and what its client does for it.

use std::collections::BTreeMap;
use std::time::Duration;

use durable_core::AttributeValue;
use serde_json::Value;

use super::oracle::Expected;
use super::plan::Plan;
use crate::engine_suite::Script;

/// A run's code, what it must come to, and what it needs from outside for that.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) code: Code,
    pub(super) expected: Expected,
    pub(super) signals: Vec<SignalPlan>,
    pub(super) updates: Vec<UpdatePlan>,
    pub(super) letters: Vec<LetterPlan>,
    /// The runs that it starts.
    pub(super) children: Vec<Foretold>,
    /// Its search attributes when it has completed.
    pub(super) attributes: BTreeMap<String, AttributeValue>,
    pub(super) limit: Option<Limit>,
    /// Fails until this is mended and the run retried.
    pub(super) mends: Option<String>,
    /// Is taken back to some event while it runs.
    pub(super) resets: bool,
}

/// By which front door.
#[derive(Debug, Clone)]
pub(super) enum Code {
    /// The trait.
    Script(Script),
    /// An `async fn`.
    Plan(Plan),
}

/// A signal that a run waits for.
#[derive(Debug, Clone)]
pub(super) struct SignalPlan {
    pub(super) name: String,
    pub(super) payload: Value,
    /// Not to be sent before the run is in this iteration: the one before would take it.
    pub(super) iteration: u32,
}

/// An update that a run answers with twice its input, or refuses if that is negative.
#[derive(Debug, Clone)]
pub(super) struct UpdatePlan {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) input: i64,
    /// Not to be sent before the run is in this iteration: the one before does not know it.
    pub(super) iteration: u32,
}

/// A dead letter that a run waits for.
#[derive(Debug, Clone)]
pub(super) struct LetterPlan {
    /// The activity's input.
    pub(super) marker: String,
    pub(super) decision: Decision,
}

/// What is decided about a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Requeue,
    Complete,
    Discard,
}

/// A run that another one starts.
#[derive(Debug, Clone)]
pub(super) struct Foretold {
    pub(super) number: u32,
    pub(super) expected: Expected,
    pub(super) tie: Tie,
}

/// What ties a child to its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tie {
    Awaited,
    /// Given up before it has ended, or not.
    Dropped,
    /// On its own.
    Abandoned,
}

/// The time that a run has.
#[derive(Debug, Clone, Copy)]
pub(super) enum Limit {
    Execution(Duration),
    Run(Duration),
}

impl Program {
    /// A program that needs nothing from outside.
    pub(super) const fn of(code: Code, expected: Expected) -> Self {
        Self {
            code,
            expected,
            signals: Vec::new(),
            updates: Vec::new(),
            letters: Vec::new(),
            children: Vec::new(),
            attributes: BTreeMap::new(),
            limit: None,
            mends: None,
            resets: false,
        }
    }

    /// Whether a request to stop that it takes note of ends it.
    pub(super) const fn heeds_cancel(&self) -> bool {
        match &self.code {
            Code::Script(script) => script.heeds_cancel,
            Code::Plan(_) => true,
        }
    }
}
