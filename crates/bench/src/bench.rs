//! One call of the program: its jobs one after the other, whatever becomes of each.

use std::cell::RefCell;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;

use crate::database::{Database, Kind, Place};
use crate::figures::Figures;
use crate::jobs::{self, Job};
use crate::options::Options;
use crate::output::Output;

/// Everything that jobs share.
pub(crate) struct Bench {
    /// What was asked for.
    pub(crate) options: Options,
    place: Place,
    output: RefCell<Output>,
    /// Databases that are still to be removed.
    open: RefCell<Vec<Database>>,
}

impl Bench {
    /// Reads what was asked for, before anything is measured.
    pub(crate) fn new(options: Options) -> anyhow::Result<Self> {
        let place = Place::new(&options.db, options.in_place)?;
        Ok(Self {
            output: RefCell::new(Output::new(&options, place.kind())?),
            open: RefCell::default(),
            place,
            options,
        })
    }

    /// Runs the jobs. One that fails or takes too long is reported as such, and the next one begins; the exit code is 1 then.
    pub(crate) async fn run_all(self) -> anyhow::Result<ExitCode> {
        let limit = Duration::from_secs(self.options.job_timeout);
        let mut code = ExitCode::SUCCESS;
        for job in Job::chosen(&self.options.jobs) {
            let outcome = tokio::select! {
                outcome = tokio::time::timeout(limit, jobs::run(job, &self)) => outcome,
                interrupted = tokio::signal::ctrl_c() => {
                    interrupted?;
                    self.sweep().await?;
                    eprintln!("interrupted in {}", job.name());
                    return Ok(ExitCode::from(130));
                }
            };
            let swept = self.sweep().await;
            let outcome = match outcome {
                Ok(done) => done.and(swept),
                Err(_) => Err(anyhow::anyhow!(
                    "not done after {} s; --job-timeout gives it more",
                    limit.as_secs()
                )),
            };
            if let Err(error) = outcome {
                code = ExitCode::FAILURE;
                self.output.borrow_mut().failed(job.name(), &error)?;
            }
        }
        self.output.into_inner().finish(&self.options)?;
        Ok(code)
    }

    /// Which kind of store is measured.
    pub(crate) const fn kind(&self) -> Kind {
        self.place.kind()
    }

    /// A case that this store cannot have.
    pub(crate) fn skipped(&self, job: Job, why: &str) -> anyhow::Result<()> {
        self.output.borrow_mut().skipped(job.name(), why)
    }

    /// Measures one case, as often as was asked for and each time in a database of its own, and reports the median.
    pub(crate) async fn case(
        &self,
        measure: impl AsyncFn(&Database) -> anyhow::Result<Figures>,
    ) -> anyhow::Result<Figures> {
        let mut measured = Vec::new();
        for _ in 0..self.options.repeat {
            let database = self.database().await?;
            measured.push(measure(&database).await?);
            self.sweep().await?;
        }
        let figures = median(measured).context("a case is measured at least once")?;
        self.output.borrow_mut().measured(&figures)?;
        Ok(figures)
    }

    /// A database of one's own until the case is over.
    pub(crate) async fn database(&self) -> anyhow::Result<Database> {
        let database = self.place.make().await?;
        self.open.borrow_mut().push(database.clone());
        Ok(database)
    }

    /// Removes the databases of what is over, or was given up.
    async fn sweep(&self) -> anyhow::Result<()> {
        let open = self.open.take();
        for database in open {
            database.remove().await?;
        }
        Ok(())
    }
}

/// The one in the middle by its headline.
fn median(mut measured: Vec<Figures>) -> Option<Figures> {
    measured.sort_by(|a, b| a.headline.value.total_cmp(&b.headline.value));
    let middle = measured.len() / 2;
    (!measured.is_empty()).then(|| measured.swap_remove(middle))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Mode;

    #[test]
    fn the_median_is_the_middle_one() {
        let of = |value| Figures::rate("J1", Mode::Embedded, "activities_per_s", value);
        let middle = median([3.0, 1.0, 2.0].map(of).to_vec()).expect("three");
        assert!((middle.headline.value - 2.0).abs() < f64::EPSILON);
        assert!(median(Vec::new()).is_none());
    }
}
