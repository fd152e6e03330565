//! Signals and updates.

use durable_core::Timestamp;

use crate::persistence::StoreResult;
use crate::persistence::model::{SendOutcome, SendSignal, SendUpdate};
use crate::persistence::sql::rows::{Changes, Load};
use crate::persistence::sql::rules::work::Work;
use crate::persistence::sql::tx::{Intent, Patience, Tx};

/// Sends signals.
#[derive(Debug)]
pub(crate) struct SendSignals {
    pub(crate) signals: Vec<SendSignal>,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for SendSignals {
    type Answer = Vec<SendOutcome>;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    fn patience(&self) -> Patience {
        Patience::None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let load = Load {
            runs: self.signals.iter().map(|s| s.run_id).collect(),
            signals: self
                .signals
                .iter()
                .map(|s| (s.run_id, s.signal.signal_id))
                .collect(),
            ..Load::default()
        };
        let loaded = tx.load(load).await?;
        let mut work = Work::new(tx.now().await?, loaded);
        let sent = self
            .signals
            .iter()
            .map(|s| work.send_signal(s.run_id, &s.signal))
            .collect();
        Ok((sent, work.finish()))
    }
}

/// Sends updates.
#[derive(Debug)]
pub(crate) struct SendUpdates {
    pub(crate) updates: Vec<SendUpdate>,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for SendUpdates {
    type Answer = Vec<SendOutcome>;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    fn patience(&self) -> Patience {
        Patience::None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let ids = self
            .updates
            .iter()
            .map(|u| (u.run_id, u.update.update_id.clone()));
        let load = Load {
            runs: self.updates.iter().map(|u| u.run_id).collect(),
            updates: ids.collect(),
            ..Load::default()
        };
        let loaded = tx.load(load).await?;
        let mut work = Work::new(tx.now().await?, loaded);
        let sent = self
            .updates
            .iter()
            .map(|u| work.send_update(u.run_id, &u.update))
            .collect();
        Ok((sent, work.finish()))
    }
}
