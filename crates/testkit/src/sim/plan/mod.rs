//! Random workflows as `async fn`: a plan is data, [`planned`] carries it out.

mod deeds;
mod generate;
mod generate_activities;
mod perform;
mod races;

use durable_core::{ActivityOptions, AttributeValue};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(super) use deeds::forget_side_effects;
pub(super) use generate::Generator;
pub(super) use perform::{PlannedBefore, planned};

/// What a run does, deed after deed; it completes with what each came to.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Plan {
    /// Unique within a seed: by it the oracle knows a child.
    pub(super) number: u32,
    pub(super) deeds: Vec<Deed>,
    /// After a request to stop, before the run ends cancelled.
    pub(super) cleanup: Vec<Deed>,
}

/// One deed.
#[allow(
    clippy::large_enum_variant,
    reason = "a few dozen a seed: boxes would only make them harder to write"
)]
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Deed {
    /// Runs an activity.
    Activity {
        name: String,
        input: Value,
        options: ActivityOptions,
        /// A failure is written down instead of failing the run.
        tolerates: bool,
    },
    /// Runs a local activity, which fails this often first.
    Local { fails: u64 },
    /// Sleeps; half of the time as ISO-8601 text.
    Sleep { millis: u64 },
    /// Waits for a signal.
    Signal { name: String },
    /// Waits for a signal for a while, and then for as long as it takes.
    SignalTwice { name: String, millis: u64 },
    /// Handles signals in the background until so many have come.
    Handle { name: String, count: usize },
    /// Waits until so many updates of the name were applied.
    Updates { name: String, count: usize },
    /// Reads the clock, throws dice, has a side effect: and finds them unchanged after an activity.
    Fixed,
    /// Branches beside each other.
    Gather { branches: Vec<Vec<Self>> },
    /// Branches beside each other, of which one fails: the others are given up.
    FailFast,
    /// Several wait, the first one wins, the others are given up.
    Race(Race),
    /// A part that a signal's handler abandons.
    Scope { signal: String },
    /// Another run, waited for.
    Child { plan: Plan },
    /// Another run, left to itself.
    Detached { plan: Plan },
    /// A change to deployed code.
    Patched { change: String },
    /// Sets a search attribute.
    Attribute { name: String, value: AttributeValue },
    /// Steps with undo steps, of which the last one fails, or none.
    Saga { steps: u64, fails: bool },
    /// Fails the run.
    Fail { message: String },
    /// Goes on as a new iteration.
    ContinueAsNew { plan: Box<Plan> },
}

/// Who races whom.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Race {
    /// A signal that comes against an activity that waits.
    SignalFirst { name: String },
    /// A timer against an activity that hangs.
    TimerFirst { millis: u64 },
    /// A signal against a timer: whoever wins stays the winner, and the signal is read in any case.
    SignalOrTimer { name: String, millis: u64 },
    /// An activity against a timer: whoever wins stays the winner.
    ActivityOrTimer { slow: u64, millis: u64 },
    /// A child that waits against a signal: the child is asked to stop.
    SignalOrChild { name: String, plan: Plan },
}
