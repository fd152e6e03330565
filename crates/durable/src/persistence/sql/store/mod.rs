//! The contract over any SQL database: checks at the edge, then the intents.

mod port;
mod rest;

use super::tx::Database;
use crate::persistence::StoreResult;

/// A store over a SQL database.
#[derive(Debug)]
pub struct SqlStore<D> {
    database: D,
}

impl<D: Database> SqlStore<D> {
    /// A store over this database.
    pub fn new(database: D) -> Self {
        Self { database }
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
