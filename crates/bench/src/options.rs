//! What can be asked for: jobs, where, how large, and in which form the figures are wanted.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::jobs::Job;

/// What to measure.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Jobs, or `all`.
    #[arg(required = true, value_name = "JOB", ignore_case = true)]
    pub(crate) jobs: Vec<Job>,
    /// Which store: `memory:`, `sqlite:PATH`, `postgres://…`. Each measurement has a database of its own beside it, which is removed
    /// afterwards.
    #[arg(long, env = "DATABASE_URL", value_name = "URL")]
    pub(crate) db: String,
    /// Only this mode. Without it jobs marked R run in both.
    #[arg(long)]
    pub(crate) mode: Option<Mode>,
    /// Uses the named database itself, as it is, and leaves in it what the jobs wrote: to look at it afterwards.
    #[arg(long)]
    pub(crate) in_place: bool,
    /// A hundredth of every size that is not given: shows that everything works; the figures mean little.
    #[arg(long)]
    pub(crate) quick: bool,
    /// How often each case is measured; the median counts.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    /// A job that takes longer is given up and the next one begins.
    #[arg(long, default_value_t = 3600, value_name = "SECONDS")]
    pub(crate) job_timeout: u64,
    /// One JSON object a line instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Keeps the figures under this name, to compare later runs with.
    #[arg(long, value_name = "NAME", value_parser = checkpoint_name)]
    pub(crate) save: Option<String>,
    /// Where checkpoints are kept.
    #[arg(long, value_name = "FOLDER", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/checkpoints"))]
    pub(crate) checkpoints: PathBuf,
    /// Writes a self-contained page with charts.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Sizes.
    #[command(flatten)]
    pub(crate) sizes: Sizes,
}

/// How large the jobs are.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sizes")]
pub(crate) struct Sizes {
    /// J1: runs, one case each; remote, and where another job needs a J1 to compare with, the first. `store` too [default: 20000,200000].
    #[arg(long, value_delimiter = ',', value_name = "N")]
    runs: Option<Vec<usize>>,
    /// J2: parallel activities, one case each [default: 1000,10000].
    #[arg(long, value_delimiter = ',', value_name = "N")]
    width: Option<Vec<usize>>,
    /// J3: how often [default: 500].
    #[arg(long, value_name = "N")]
    times: Option<usize>,
    /// J4: steps of the one run [default: 10000].
    #[arg(long, value_name = "N")]
    steps: Option<usize>,
    /// J4: ends with an error where a step of the last tenth costs more than this many of the first tenth's.
    #[arg(long, value_name = "RATIO")]
    pub(crate) max_ratio: Option<f64>,
    /// J5: claimers at once, one case each [default: 1,10,100,1000].
    #[arg(long, value_delimiter = ',', value_name = "N", default_values_t = [1, 10, 100, 1000])]
    pub(crate) claimers: Vec<usize>,
    /// J5: tasks in the queue [default: 100000].
    #[arg(long, value_name = "N")]
    queue: Option<usize>,
    /// J5: tasks asked for in one claim; the engine's own default.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) claim_max: usize,
    /// J6: sleeping runs [default: 100000].
    #[arg(long, value_name = "N")]
    timers: Option<usize>,
    /// J6: over how many milliseconds they are due in the spread case.
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    pub(crate) spread_ms: u64,
    /// J6: parked runs [default: 1000000].
    #[arg(long, value_name = "N")]
    parked: Option<usize>,
    /// J7: signals [default: 10000].
    #[arg(long, value_name = "N")]
    signals: Option<usize>,
    /// J8: runs in flight when the process is killed [default: 10000].
    #[arg(long, value_name = "N")]
    in_flight: Option<usize>,
    /// J9: finished runs in the database [default: 1000000].
    #[arg(long, value_name = "N")]
    backlog: Option<usize>,
    /// J9: for how long the snapshot is open at least [default: 60].
    #[arg(long, value_name = "SECONDS")]
    snapshot_secs: Option<u64>,
    /// J10: how long is looked [default: 30].
    #[arg(long, value_name = "SECONDS")]
    idle_secs: Option<u64>,
    /// J10: worker sessions of the idle server [default: 1000].
    #[arg(long, value_name = "N")]
    sessions: Option<usize>,
    /// store: sizes of the sets.
    #[arg(long, value_delimiter = ',', value_name = "N", default_values_t = [1, 50, 200, 1000])]
    pub(crate) batches: Vec<usize>,
}

/// Where workflows and activities run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// In this process.
    Embedded,
    /// In two worker processes of a server process.
    Remote,
}

impl Mode {
    /// Its name in figures.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Remote => "remote",
        }
    }
}

impl Options {
    /// Whether a mode was asked for.
    pub(crate) fn wants(&self, mode: Mode) -> bool {
        self.mode.is_none_or(|only| only == mode)
    }

    /// The given size, else the full one or a hundredth of it.
    fn size(&self, given: Option<usize>, full: usize) -> usize {
        given.unwrap_or(if self.quick { full.div_ceil(100) } else { full })
    }

    fn sizes_of(&self, given: Option<&Vec<usize>>, full: &[usize]) -> Vec<usize> {
        match given {
            Some(given) => given.clone(),
            None => full.iter().map(|full| self.size(None, *full)).collect(),
        }
    }

    fn span(&self, given: Option<u64>, full: u64, quick: u64) -> Duration {
        Duration::from_secs(given.unwrap_or(if self.quick { quick } else { full }))
    }

    /// Runs of J1.
    pub(crate) fn runs(&self) -> Vec<usize> {
        self.sizes_of(self.sizes.runs.as_ref(), &[20_000, 200_000])
    }

    /// Runs of a J1 that another job compares with.
    pub(crate) fn comparison_runs(&self) -> usize {
        self.runs().first().copied().unwrap_or(1)
    }

    /// Widths of J2.
    pub(crate) fn widths(&self) -> Vec<usize> {
        self.sizes_of(self.sizes.width.as_ref(), &[1_000, 10_000])
    }

    /// How often J3 runs its workflow.
    pub(crate) fn times(&self) -> usize {
        self.size(self.sizes.times, 500)
    }

    /// Steps of J4.
    pub(crate) fn steps(&self) -> usize {
        self.size(self.sizes.steps, 10_000)
    }

    /// Tasks of J5.
    pub(crate) fn queue(&self) -> usize {
        self.size(self.sizes.queue, 100_000)
    }

    /// Sleeping runs of J6.
    pub(crate) fn timers(&self) -> usize {
        self.size(self.sizes.timers, 100_000)
    }

    /// Parked runs of J6.
    pub(crate) fn parked(&self) -> usize {
        self.size(self.sizes.parked, 1_000_000)
    }

    /// Signals of J7.
    pub(crate) fn signals(&self) -> usize {
        self.size(self.sizes.signals, 10_000)
    }

    /// Runs of J8.
    pub(crate) fn in_flight(&self) -> usize {
        self.size(self.sizes.in_flight, 10_000)
    }

    /// Finished runs of J9.
    pub(crate) fn backlog(&self) -> usize {
        self.size(self.sizes.backlog, 1_000_000)
    }

    /// How long J9's snapshot is open.
    pub(crate) fn snapshot(&self) -> Duration {
        self.span(self.sizes.snapshot_secs, 60, 1)
    }

    /// How long J10 looks.
    pub(crate) fn idle(&self) -> Duration {
        self.span(self.sizes.idle_secs, 30, 2)
    }

    /// Worker sessions of J10.
    pub(crate) fn sessions(&self) -> usize {
        self.size(self.sizes.sessions, 1_000)
    }
}

/// A checkpoint is a file of this name.
fn checkpoint_name(name: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        return Err(
            "a name has letters, digits, '-', '_' and '.', and does not begin with '.'".to_owned(),
        );
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn read(line: &[&str]) -> Options {
        let line = ["bench", "--db", "memory:"].iter().chain(line);
        Line::parse_from(line).options
    }

    #[test]
    fn the_defaults_are_the_sizes_of_the_jobs() {
        let options = read(&["all"]);
        assert_eq!(options.runs(), [20_000, 200_000]);
        assert_eq!(options.widths(), [1_000, 10_000]);
        assert_eq!((options.times(), options.steps()), (500, 10_000));
        assert_eq!((options.queue(), options.timers()), (100_000, 100_000));
        assert_eq!(
            (options.parked(), options.backlog()),
            (1_000_000, 1_000_000)
        );
    }

    #[test]
    fn quick_leaves_given_sizes_alone() {
        let options = read(&["J1", "--quick", "--runs", "7"]);
        assert_eq!(options.runs(), [7]);
        assert_eq!(options.times(), 5);
    }

    #[test]
    fn jobs_are_a_list_in_any_case() {
        assert_eq!(read(&["j1", "J3"]).jobs, [Job::J1, Job::J3]);
    }

    #[test]
    fn a_checkpoint_cannot_leave_its_folder() {
        assert!(checkpoint_name("../x").is_err());
        assert!(checkpoint_name(".hidden").is_err());
        assert!(checkpoint_name("v0.1-quiet_box").is_ok());
    }
}
