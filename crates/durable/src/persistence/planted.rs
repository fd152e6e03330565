//! Known mistakes, planted on purpose, to show that the suites catch them.
//!
//! Off in every build but the proof (`cargo xtask prove`, feature `planted-bugs`); there the
//! environment variable `DURABLE_PLANTED_BUG` chooses one by name at run time.

macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal),+ $(,)?) => {
        /// A mistake that somebody made once.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Bug { $($(#[doc = $doc])+ $variant),+ }

        impl Bug {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name by which it is chosen.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }
    };
}

bugs! {
    /// A result is stored without checking the lease's token and attempt.
    UnfencedFinish = "unfenced-finish",
    /// A claim counts neither attempt nor delivery.
    UncountedClaim = "uncounted-claim",
    /// The reaper takes back what was due when it looked, without looking again.
    ReaperWithoutRecheck = "reaper-without-recheck",
    /// Facts are taken by "everything up to now" instead of by arrival number.
    FactsTakenUnseen = "facts-taken-unseen",
    /// A turn may end the run although a fact has arrived that it has not seen.
    EndsOverUnseenFacts = "ends-over-unseen-facts",
    /// The final failure is stored and its dead letter is not.
    DeadLetterForgotten = "dead-letter-forgotten",
    /// A repeated message starts a child again.
    ChildStartNotIdempotent = "child-start-not-idempotent",
    /// The expected sequence is not checked.
    SequenceUnchecked = "sequence-unchecked",
    /// The next task in the run's line is leased while the one before it is not finished.
    LineIgnored = "line-ignored",
    /// A signal sent twice under one id is two signals.
    SignalNotDeduplicated = "signal-not-deduplicated",
    /// The same idempotency key starts two runs.
    KeyIgnored = "key-ignored",
    /// A reset does not raise the epoch and leaves the old tasks in the queue.
    ResetKeepsEpoch = "reset-keeps-epoch",
    /// A timer fires a second before its time.
    TimerFiresEarly = "timer-fires-early",
    /// A release burns the attempt.
    ReleaseBurnsAttempt = "release-burns-attempt",
    /// The tick of a schedule can be taken twice.
    ScheduleFiresTwice = "schedule-fires-twice",
    /// A timer that has fired stays set, and fires again.
    TimerFiresTwice = "timer-fires-twice",
    /// The failure of a task beside the run's line lets the next in line go while its head is not finished.
    LineReleasedByFailure = "line-released-by-failure",
    /// Engine: a slot is free as soon as the activity has ended, before its result is stored.
    SlotFreedEarly = "slot-freed-early",
    /// Engine: a program is used again although its turn was not accepted.
    CachedProgramAfterConflict = "cached-program-after-conflict",
    /// Engine: a result is given up when the store cannot be reached.
    ResultDroppedOnError = "result-dropped-on-error",
    /// Engine: a set whose commit had an unknown outcome is taken as committed.
    UnknownCommitTakenAsDone = "unknown-commit-taken-as-done",
    /// Engine: a commit of unknown outcome is made again under a new turn id.
    UnknownCommitMadeAnew = "unknown-commit-made-anew",
    /// Engine: the late result of a cancelled activity is handed to the workflow.
    LateResultAccepted = "late-result-accepted",
    /// Engine: facts that wait are taken once and the rest of the inbox is forgotten.
    ArrivalsForgotten = "arrivals-forgotten",
    /// Engine: leases of running activities are not renewed.
    LeasesNotRenewed = "leases-not-renewed",
    /// Engine: an activity whose lease is lost goes on as if nothing had happened, and is not told.
    LostLeaseIgnored = "lost-lease-ignored",
    /// Engine: a heartbeat that comes while a batch is under way is forgotten.
    HeartbeatLost = "heartbeat-lost",
    /// Engine: signals that come behind the end of a run are dropped instead of kept.
    UnreadSignalsDropped = "unread-signals-dropped",
    /// Engine: messages between runs are written and never delivered.
    MessagesNotRelayed = "messages-not-relayed",
    /// Engine: other processes are not told of runs that want a turn.
    RingForgotten = "ring-forgotten",
    /// Engine: turns that nobody rang for are never looked for.
    LostRingNotNoticed = "lost-ring-not-noticed",
    /// Engine: an update whose answer was lost is sent again as another one.
    UpdateSentAnew = "update-sent-anew",
    /// Engine: updates are taken without being checked.
    UpdateNotValidated = "update-not-validated",
    /// Engine: what a side effect comes to is not recorded.
    SideEffectComputedAnew = "side-effect-computed-anew",
    /// Engine: a saga undoes its steps in the order in which they were made.
    SagaUndoneForwards = "saga-undone-forwards",
    /// Engine: signals that were not read are not carried over to the next iteration.
    CarriedSignalsDropped = "carried-signals-dropped",
    /// Engine: the tick after the one that fires is passed over.
    TickPassedOver = "tick-passed-over",
    /// Engine: a codec passes over what side effects came to.
    SideEffectInTheClear = "side-effect-in-the-clear",
    /// Engine: listeners are told of a turn before it is committed.
    ListenerToldEarly = "listener-told-early",
    /// Engine: the reuse policy of a start is not sent.
    ReusePolicyForgotten = "reuse-policy-forgotten",
    /// Engine: a batch does not look at the attributes that select its runs.
    BatchUnselective = "batch-unselective",
    /// Engine: a trigger is acknowledged without a run.
    TriggerNotStored = "trigger-not-stored",
}

impl Bug {
    /// Whether it is a mistake of the engine, to be caught by the simulator and the engine's suites, not by the store's.
    #[must_use]
    pub fn is_of_the_engine(self) -> bool {
        self as usize >= Self::SlotFreedEarly as usize
    }
}

/// Whether this mistake is planted in this process.
#[cfg(feature = "planted-bugs")]
#[must_use]
pub fn planted(bug: Bug) -> bool {
    use std::sync::OnceLock;
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    CHOSEN
        .get_or_init(|| std::env::var("DURABLE_PLANTED_BUG").ok())
        .as_deref()
        == Some(bug.name())
}

/// Whether this mistake is planted in this process: never, in this build.
#[cfg(not(feature = "planted-bugs"))]
#[must_use]
pub const fn planted(_bug: Bug) -> bool {
    false
}
