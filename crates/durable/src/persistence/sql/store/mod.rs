//! The contract over any SQL database: checks at the edge, then the intents.

mod chores;
mod port;
mod rest;
mod retention;

use std::sync::Arc;

use super::intents::noted::{Noted, Noticeable};
use super::tx::{Concern, Database};
use crate::persistence::audit::Noting;
use crate::persistence::{Asides, StoreResult};

/// A store over a SQL database.
#[derive(Debug)]
pub struct SqlStore<D> {
    database: Arc<D>,
    /// What this process has set aside.
    asides: Arc<Asides>,
    /// Whose changes leave audit rows.
    noting: Option<Arc<Noting>>,
    /// Where bounded searches of retention go on.
    places: Arc<retention::Places>,
}

impl<D: Database> SqlStore<D> {
    /// A store over this database.
    pub fn new(database: D) -> Self {
        Self {
            database: Arc::new(database),
            asides: Arc::default(),
            noting: None,
            places: Arc::default(),
        }
    }

    /// The same store for somebody whose changes leave rows.
    fn view(&self, noting: Noting) -> Self {
        Self {
            database: Arc::clone(&self.database),
            asides: Arc::clone(&self.asides),
            noting: Some(Arc::new(noting)),
            places: Arc::clone(&self.places),
        }
    }

    /// A write that leaves audit rows if somebody is noted.
    async fn write_noted<I: Noticeable>(
        &self,
        concern: Concern,
        intent: I,
    ) -> StoreResult<I::Answer> {
        match &self.noting {
            Some(noting) => {
                let noted = Noted::new(intent, Arc::clone(noting));
                self.database.write(concern, noted).await
            }
            None => self.database.write(concern, intent).await,
        }
    }

    /// [`Self::write_noted`] for a part of a call, in which its items have these places; `first` is what [`Self::reserve`] answered.
    async fn write_part<I: Noticeable>(
        &self,
        concern: Concern,
        intent: I,
        first: u32,
        places: &[usize],
    ) -> StoreResult<I::Answer> {
        match &self.noting {
            Some(noting) => {
                let noted = Noted::part(intent, Arc::clone(noting), first, places.to_vec());
                self.database.write(concern, noted).await
            }
            None => self.database.write(concern, intent).await,
        }
    }

    /// Numbers for the audit rows of a call that is carried out in parts.
    fn reserve(&self, items: usize) -> u32 {
        let noting = self.noting.as_ref();
        noting.map_or(0, |noting| noting.reserve(items))
    }

    /// The database itself.
    pub fn database(&self) -> &D {
        &self.database
    }
}

/// Adds what one shard gave. An error after other shards have given something does not take that back: it would be leased to nobody
/// until its time is up. False: stop here, the next call will meet the error again.
fn keep<T>(so_far: &mut Vec<T>, of_shard: StoreResult<Vec<T>>) -> StoreResult<bool> {
    match of_shard {
        Ok(more) => {
            so_far.extend(more);
            Ok(true)
        }
        Err(_) if !so_far.is_empty() => Ok(false),
        Err(error) => Err(error),
    }
}
