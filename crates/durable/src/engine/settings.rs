//! How an engine is set up.

use std::time::Duration;

use crate::reliability::AdmissionSettings;
use crate::worker::WorkerSettings;

/// How an engine is set up. The defaults are meant to be right.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How this process runs activities.
    pub worker: WorkerSettings,
    /// How this process takes turns.
    pub turns: TurnSettings,
    /// What this process does in the background.
    pub chores: ChoreSettings,
    /// When starts are refused because too much waits; none: never.
    pub admission: Option<AdmissionSettings>,
    /// Name of this build of the workflow code. A run that it cannot turn is blocked for this build only.
    pub build: String,
    /// How long a shutdown waits for running activities before it gives them back.
    pub shutdown_grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            worker: WorkerSettings::default(),
            turns: TurnSettings::default(),
            chores: ChoreSettings::default(),
            admission: None,
            build: default_build(),
            shutdown_grace: Duration::from_secs(30),
        }
    }
}

/// How turns are taken.
#[derive(Debug, Clone)]
pub struct TurnSettings {
    /// Most runs in one commit.
    pub set_max: usize,
    /// Sets under way at once.
    pub committers: usize,
    /// Programs kept in memory after their turn; 0 keeps none.
    pub cached_programs_max: usize,
    /// Events that the histories of those programs may have together: what a program holds grows with its history.
    pub cached_events_max: u64,
    /// Drops the program after every turn, so that each turn replays: slow, for tests.
    pub always_replay: bool,
    /// For how long other processes leave a run alone after its turn here.
    pub owner_lease: Duration,
    /// Runs claimed at once.
    pub claim_max: usize,
}

impl Default for TurnSettings {
    fn default() -> Self {
        Self {
            set_max: 200,
            committers: 2,
            cached_programs_max: 100_000,
            cached_events_max: 2_000_000,
            always_replay: false,
            owner_lease: Duration::from_secs(15),
            claim_max: 500,
        }
    }
}

/// What is done in the background.
#[derive(Debug, Clone)]
pub struct ChoreSettings {
    /// Whether this process does the store's chores: fires timers and schedules, takes back leases, relays messages, deletes old runs. None: yes,
    /// unless it is connected to a server, which does them. Where nobody does, nothing that waits for a clock goes on.
    pub housekeeping: Option<bool>,
    /// How often is looked for work that nobody rang for.
    pub fallback_poll: Duration,
    /// How often leases that ran out are looked for.
    pub reap_interval: Duration,
    /// Items of each kind handled at once.
    pub batch: usize,
    /// How long finished runs are kept; none: for ever.
    pub retention: Option<Duration>,
    /// How long details of runs that go on are kept, and of what belongs to no run.
    pub details: DetailRetention,
    /// How often old runs are looked for.
    pub retention_interval: Duration,
    /// How often counts are sampled for dashboards; none: never.
    pub sample_interval: Option<Duration>,
}

impl Default for ChoreSettings {
    fn default() -> Self {
        Self {
            housekeeping: None,
            fallback_poll: Duration::from_secs(10),
            reap_interval: Duration::from_secs(5),
            batch: 500,
            retention: Some(DAY * 30),
            details: DetailRetention::default(),
            retention_interval: Duration::from_secs(60 * 60),
            sample_interval: None,
        }
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long details are kept although their run may go on; none: for ever.
///
/// A run that has ended is deleted as a whole, see [`ChoreSettings::retention`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetailRetention {
    /// Events of earlier iterations (continue-as-new).
    pub history: Option<Duration>,
    /// Signals that a turn took and updates that were answered. A signal or update that is sent
    /// again with the same id counts as repeated for so long.
    pub signals: Option<Duration>,
    /// Log lines of activities.
    pub step_logs: Option<Duration>,
    /// Outbox events that were published or given up.
    pub outbox: Option<Duration>,
    /// Dead letters about which a decision was made.
    pub dead_letters: Option<Duration>,
    /// Results of `run_once`, which belong to no run: for so long a key is not executed again.
    pub once_results: Option<Duration>,
    /// Workers that have stopped.
    pub workers: Option<Duration>,
    /// Totals by the hour; older ones are kept by the day.
    pub totals: Option<Duration>,
}

impl DetailRetention {
    /// Everything is kept.
    pub const KEEP: Self = Self {
        history: None,
        signals: None,
        step_logs: None,
        outbox: None,
        dead_letters: None,
        once_results: None,
        workers: None,
        totals: None,
    };
}

impl Default for DetailRetention {
    fn default() -> Self {
        Self {
            history: Some(DAY * 30),
            signals: Some(DAY * 30),
            step_logs: Some(DAY * 30),
            outbox: Some(DAY * 30),
            dead_letters: Some(DAY * 90),
            once_results: Some(DAY * 365),
            workers: Some(DAY * 7),
            totals: Some(DAY * 60),
        }
    }
}

/// Names this build after its executable, so that a fixed one is another: `DURABLE_BUILD_ID`, or its size and date.
fn default_build() -> String {
    if let Some(build) = std::env::var("DURABLE_BUILD_ID")
        .ok()
        .filter(|build| !build.is_empty())
    {
        return build;
    }
    let executable = std::env::current_exe().and_then(std::fs::metadata);
    let Ok(metadata) = executable else {
        return "unknown".to_owned();
    };
    let modified = metadata
        .modified()
        .ok()
        .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok())
        .map_or(0, |age| age.as_millis());
    format!("{:x}-{modified:x}", metadata.len())
}
