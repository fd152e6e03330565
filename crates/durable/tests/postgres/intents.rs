//! Intents without rules: load this, write that.

use std::collections::BTreeMap;

use durable_core::{Payload, Timestamp};
use everruns_durable::persistence::StoreResult;
use everruns_durable::persistence::model::{
    ClaimOutbox, ClaimTasks, ClaimTurns, ClaimedTurn, OutboxRecord, TaskRecord,
};
use everruns_durable::persistence::postgres::Postgres;
use everruns_durable::persistence::sql::rows::{Changes, Load, Loaded, RegistryWrite};
use everruns_durable::persistence::sql::tx::{Concern, Database, Intent, Tx};
use uuid::Uuid;

/// Loads, then writes; answers what was loaded.
#[derive(Clone, Default)]
pub(crate) struct Write {
    pub(crate) load: Load,
    pub(crate) changes: Changes,
}

impl Intent for Write {
    type Answer = Loaded;

    fn at(&self) -> Option<Timestamp> {
        Some(self.changes.now)
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Loaded, Changes)> {
        let loaded = tx.load(self.load.clone()).await?;
        Ok((loaded, self.changes.clone()))
    }
}

/// Writes changes.
pub(crate) async fn write(store: &Postgres, changes: Changes) {
    let intent = Write {
        changes,
        ..Write::default()
    };
    store.write(Concern::Events, intent).await.unwrap();
}

/// Loads, and writes nothing.
pub(crate) async fn load(store: &Postgres, load: Load) -> Loaded {
    let intent = Write {
        load,
        ..Write::default()
    };
    store.write(Concern::Events, intent).await.unwrap()
}

/// All queued tasks, whole, by run and id.
pub(crate) async fn whole_tasks(store: &Postgres) -> BTreeMap<(Uuid, Uuid), TaskRecord> {
    let runs = store.dump().await.unwrap().runs.into_iter();
    let tasks = runs.flat_map(|run| run.tasks);
    tasks.map(|task| ((task.run_id, task.id), task)).collect()
}

/// A task as the rules see it: its input and the details of its heartbeat stay in the database.
pub(crate) fn ruled(task: &TaskRecord) -> TaskRecord {
    TaskRecord {
        input: Payload::ABSENT,
        heartbeat_details: Payload::ABSENT,
        ..task.clone()
    }
}

/// A write on a small table; answers how many rows it touched.
struct Registry(RegistryWrite);

impl Intent for Registry {
    type Answer = u64;

    fn at(&self) -> Option<Timestamp> {
        None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(u64, Changes)> {
        let touched = tx.write_registry(&self.0).await?;
        Ok((touched.rows, Changes::default()))
    }
}

/// Writes a small table.
pub(crate) async fn write_registry(store: &Postgres, write: RegistryWrite) -> u64 {
    let written = store.write(Concern::Registry, Registry(write)).await;
    written.unwrap()
}

macro_rules! claim_intent {
    ($name:ident, $claim:ty, $method:ident, $answer:ty) => {
        /// A claim of one shard.
        pub(crate) struct $name(pub(crate) i32, pub(crate) $claim);

        impl Intent for $name {
            type Answer = (Timestamp, Vec<$answer>);

            fn at(&self) -> Option<Timestamp> {
                self.1.now
            }

            async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
                let claimed = tx.$method(self.0, &self.1, self.1.max).await?;
                Ok(((tx.now().await?, claimed), Changes::default()))
            }
        }
    };
}

claim_intent!(TasksClaim, ClaimTasks, claim_tasks, TaskRecord);
claim_intent!(TurnsClaim, ClaimTurns, claim_turns, ClaimedTurn);
claim_intent!(OutboxClaim, ClaimOutbox, claim_outbox, OutboxRecord);
