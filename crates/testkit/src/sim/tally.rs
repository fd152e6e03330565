//! What happened how often: a fault or an action that never happened proves nothing.

use comfy_table::{Table, presets};

macro_rules! events {
    ($($variant:ident = $text:literal),+ $(,)?) => {
        /// Something that a simulation is meant to bring about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Happening { $(#[doc = $text] $variant),+ }

        impl Happening {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// What it is.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}

events! {
    StoreCall = "store calls",
    Delayed = "fault: call delayed",
    FailedBefore = "fault: call failed, not executed",
    FailedAfter = "fault: call executed, answer lost",
    Repeated = "fault: call executed twice",
    StalledBefore = "fault: call held for longer than leases, then executed",
    StalledAfter = "fault: answer held for longer than leases",
    Killed = "fault: node killed",
    Restarted = "fault: node restarted",
    KeysUnreachable = "fault: keys of the codec not reached",
    ClockJumped = "fault: clock jumped",
    RingLost = "fault: ring lost",
    RingLate = "fault: ring late",
    RingDoubled = "fault: ring doubled",
    Deafened = "fault: listener deaf for a while",
    Blind = "seed in which nobody looks without a ring",
    AlwaysReplay = "seed in which every turn replays",
    ShutDown = "node shut down politely",
    RunStarted = "run started",
    RunCompleted = "run completed",
    RunFailed = "run failed",
    RunCancelled = "run cancelled",
    RunTerminated = "run terminated",
    SignalAccepted = "signal accepted",
    SignalRefused = "signal refused by a run that was over",
    SignalUnread = "signal kept unread",
    SignalCarried = "signal carried over to the next iteration",
    ActivityCompleted = "activity completed",
    ActivityFailed = "activity failed for good",
    ActivityTimedOut = "activity timed out",
    ActivityCancelled = "activity cancelled",
    ActivityRetried = "activity tried again",
    ActivityLost = "activity dropped with its node",
    HeartbeatFound = "heartbeat found by the next attempt",
    TimerFired = "timer fired",
    TimerCancelled = "timer cancelled",
    ChildStarted = "child started",
    ChildCompleted = "child completed",
    ChildFailed = "child failed",
    ContinuedAsNew = "run continued as new",
    ChildCancelled = "child asked to stop",
    RunTimedOut = "run timed out",
    RunRetried = "run retried",
    RunReset = "run reset",
    ClientDied = "client died and asked again",
    SignalWithStart = "signal sent with the start",
    UpdateWithStart = "update sent with the start",
    UpdateAnswered = "update answered",
    UpdateFailed = "update refused or failed",
    QueryAnswered = "query answered",
    QueryUnknown = "query that nobody set up refused",
    LetterDecided = "dead letter decided",
    SignalOrTime = "signal waited for, with a timeout",
    SignalHandled = "signals handled in the background",
    UpdatesApplied = "updates applied by a run that completed",
    Gathered = "branches gathered",
    FailedFast = "branches given up with the one that failed",
    RaceDecided = "race decided",
    ScopeAbandoned = "scope abandoned",
    ChildDetached = "child left to itself",
    SagaKept = "saga kept",
    SagaUndone = "saga undone",
    DoneOnce = "deed done once",
    SideEffect = "side effect recorded",
    LocalActivity = "local activity completed",
    AttributeSet = "search attribute set",
    Patched = "patch decided",
    OldRelease = "engine started with the code before the patches",
    ScheduleToStart = "activity not picked up in time",
    ScheduleToClose = "activity out of all its time",
    HeartbeatMissed = "heartbeat missed",
    TickFired = "tick of a schedule fired",
    SchedulePaused = "schedule paused and resumed",
    ScheduleBackfilled = "schedule backfilled",
    ScheduleTriggered = "schedule triggered",
    Swept = "finished runs deleted by retention",
    BreakerOpened = "breaker opened",
    TaskParked = "task parked",
    DeadLetter = "dead letter written",
    LeaseLost = "result or renewal refused: lease lost",
    LeaseReaped = "lease taken back",
    Conflict = "turn refused: somebody else was first",
    UnseenFacts = "turn refused: a fact had arrived",
    TurnRepeated = "commit repeated and told so",
    TurnClaimed = "turn claimed from the store",
    TaskClaimed = "task claimed from the queue",
    FirstTurnTried = "turn that starts its run, tried",
    TaskHandedOver = "task handed over by its turn",
    SlotPassedOn = "the only slot passed on to the run's next activity",
    TaskReleased = "task given back",
    Heard = "event heard by a listener",
    NameTaken = "run started under a shared workflow id",
    NameRefused = "start refused for its workflow id",
    NameReplaced = "run terminated for the next with its workflow id",
    BatchDone = "run cancelled or terminated by a batch",
    BatchTriedOut = "batch tried out first",
    PayloadEncoded = "payload stored encoded",
    Replayed = "history replayed strictly",
}

/// Counts of everything.
#[derive(Debug, Clone)]
pub struct Tally {
    counts: [u64; Happening::ALL.len()],
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            counts: [0; Happening::ALL.len()],
        }
    }
}

impl Tally {
    /// It happened.
    pub fn add(&mut self, what: Happening, times: usize) {
        self.counts[what as usize] += times as u64;
    }

    /// How often it happened.
    #[must_use]
    pub const fn of(&self, what: Happening) -> u64 {
        self.counts[what as usize]
    }

    /// Adds another's counts.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
    }

    /// What never happened.
    #[must_use]
    pub fn missing(&self) -> Vec<Happening> {
        let all = Happening::ALL.iter().copied();
        all.filter(|what| self.of(*what) == 0).collect()
    }

    /// As a table.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        for what in Happening::ALL {
            table.add_row([what.text().to_owned(), self.of(*what).to_string()]);
        }
        table.to_string()
    }
}
