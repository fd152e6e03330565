//! The jobs: one file each, one shape: `run` measures its cases one after the other and reports each.

mod backlog;
pub(crate) mod claims;
mod fan_out;
mod history;
mod idle;
pub(crate) mod latency;
mod mix;
pub(crate) mod recovery;
mod signals;
mod store;
mod throughput;
mod timers;

use clap::ValueEnum;

use crate::bench::Bench;
use crate::options::Mode;
use crate::work::STEPS;

/// Commits of a run of J1: one to start, one for each activity's end.
pub(crate) const TURNS: usize = STEPS + 1;

/// A job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Job {
    /// Throughput (R): workflows of five sequential no-op activities, all started up front.
    #[value(name = "J1")]
    J1,
    /// Fan-out: one workflow with many parallel activities.
    #[value(name = "J2")]
    J2,
    /// Latency (R): one workflow with one activity on an idle system, again and again.
    #[value(name = "J3")]
    J3,
    /// History: one workflow of many steps, time per step.
    #[value(name = "J4")]
    J4,
    /// Claims: many claimers at one queue.
    #[value(name = "J5")]
    J5,
    /// Timers: due over a time, due at one instant, parked.
    #[value(name = "J6")]
    J6,
    /// Signals: many to one run, one to each of many.
    #[value(name = "J7")]
    J7,
    /// Recovery: runs in flight, kill -9, restart.
    #[value(name = "J8")]
    J8,
    /// Backlog: J1 beside many finished runs, and beside a long snapshot.
    #[value(name = "J9")]
    J9,
    /// Idle: what an engine and a server with many sessions cost while nothing happens.
    #[value(name = "J10")]
    J10,
    /// Mixes: many activity types, priorities, most runs asleep, large payloads.
    #[value(name = "mix")]
    Mix,
    /// Turns per second through the store contract.
    #[value(name = "store")]
    Store,
    /// All of them.
    #[value(name = "all")]
    All,
}

impl Job {
    /// The jobs asked for, each once.
    pub(crate) fn chosen(asked: &[Self]) -> Vec<Self> {
        let all = asked.contains(&Self::All);
        let each = Self::value_variants().iter().copied();
        if all {
            return each.filter(|job| *job != Self::All).collect();
        }
        let mut chosen = Vec::new();
        for job in asked {
            if !chosen.contains(job) {
                chosen.push(*job);
            }
        }
        chosen
    }

    /// Whether it also runs through a server.
    const fn has_remote(self) -> bool {
        matches!(self, Self::J1 | Self::J3 | Self::J10)
    }

    /// Its name in figures.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::J1 => "J1",
            Self::J2 => "J2",
            Self::J3 => "J3",
            Self::J4 => "J4",
            Self::J5 => "J5",
            Self::J6 => "J6",
            Self::J7 => "J7",
            Self::J8 => "J8",
            Self::J9 => "J9",
            Self::J10 => "J10",
            Self::Mix => "mix",
            Self::Store => "store",
            Self::All => "all",
        }
    }
}

/// Runs a job.
pub(crate) async fn run(job: Job, bench: &Bench) -> anyhow::Result<()> {
    if !job.has_remote() && !bench.options.wants(Mode::Embedded) {
        return bench.skipped(job, "it runs embedded only");
    }
    match job {
        Job::J1 => throughput::run(bench).await,
        Job::J2 => fan_out::run(bench).await,
        Job::J3 => latency::run(bench).await,
        Job::J4 => history::run(bench).await,
        Job::J5 => claims::run(bench).await,
        Job::J6 => timers::run(bench).await,
        Job::J7 => signals::run(bench).await,
        Job::J8 => recovery::run(bench).await,
        Job::J9 => backlog::run(bench).await,
        Job::J10 => idle::run(bench).await,
        Job::Mix => mix::run(bench).await,
        Job::Store => store::run(bench).await,
        // `chosen` has replaced it by its parts.
        Job::All => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_every_job_once() {
        let all = Job::chosen(&[Job::J1, Job::All]);
        assert_eq!(all.len(), 12);
        assert!(!all.contains(&Job::All));
        assert_eq!(
            Job::chosen(&[Job::J3, Job::J1, Job::J3]),
            [Job::J3, Job::J1]
        );
    }
}
