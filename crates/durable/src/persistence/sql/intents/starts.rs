//! Starts.

use durable_core::Timestamp;

use crate::persistence::StoreResult;
use crate::persistence::model::{StartOutcome, StartRun};
use crate::persistence::sql::rows::{Changes, Load};
use crate::persistence::sql::rules::start::{keys_of, runs_of};
use crate::persistence::sql::rules::work::Work;
use crate::persistence::sql::tx::{Intent, Patience, Tx};

/// Starts runs.
#[derive(Debug)]
pub(crate) struct StartRuns {
    pub(crate) starts: Vec<StartRun>,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for StartRuns {
    type Answer = Vec<StartOutcome>;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    fn patience(&self) -> Patience {
        Patience::None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let mut work = load_for(self.starts.iter(), Load::default(), Load::default(), tx).await?;
        let outcomes = self
            .starts
            .iter()
            .map(|start| work.start(start, None))
            .collect();
        Ok((outcomes, work.finish()))
    }
}

/// Everything that starts need, and more: keys first, then all runs at once, so that they are locked in key order.
pub(crate) async fn load_for<'a, T: Tx>(
    starts: impl Iterator<Item = &'a StartRun> + Clone + Send,
    first: Load,
    mut runs: Load,
    tx: &mut T,
) -> StoreResult<Work> {
    let mut keys = first;
    starts.clone().for_each(|start| keys_of(start, &mut keys));
    let loaded = tx.load(keys).await?;
    let mut work = Work::new(tx.now().await?, loaded);
    starts.for_each(|start| runs_of(start, &work, &mut runs));
    let more = tx.load(runs).await?;
    work.add(more);
    Ok(work)
}
