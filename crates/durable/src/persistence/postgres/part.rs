//! Writes inside a transaction that somebody else began and ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use tokio_postgres::{Client, Transaction};
use uuid::Uuid;

use super::bell::notification;
use super::bind::{Call, value};
use super::schema::Schema;
use super::sql::bell::RING;
use super::sqlstate::Verdict;
use super::statement::Catalog;
use super::transactions::ActivityTransaction;
use super::tx::{PgTx, Words};
use super::wire::{Line, Shared, Wire};
use super::{TAKEN_RETRIES_MAX, slots};
use crate::persistence::model::{ReusePolicy, SendOutcome, SendSignal, StartOutcome, StartRun};
use crate::persistence::sql::intents::sends::SendSignals;
use crate::persistence::sql::intents::starts::StartRuns;
use crate::persistence::sql::tx::Intent;
use crate::persistence::{Ring, Shards, StoreError, StoreResult, check};

/// Where the tables are unless told otherwise.
pub(crate) const DEFAULT_SCHEMA: &str = "durable";

/// A transaction to write in: your own, or that of a transactional activity.
#[derive(Clone, Copy)]
pub struct Within<'t>(Lender<'t>);

#[derive(Clone, Copy)]
enum Lender<'t> {
    Transaction(&'t Transaction<'t>),
    Activity(&'t Client),
}

impl<'t> From<&'t Transaction<'_>> for Within<'t> {
    fn from(transaction: &'t Transaction<'_>) -> Self {
        Self(Lender::Transaction(transaction))
    }
}

impl<'t> From<&'t ActivityTransaction> for Within<'t> {
    fn from(transaction: &'t ActivityTransaction) -> Self {
        Self(Lender::Activity(transaction))
    }
}

impl<'t> From<&'t Arc<ActivityTransaction>> for Within<'t> {
    fn from(transaction: &'t Arc<ActivityTransaction>) -> Self {
        Self(Lender::Activity(transaction))
    }
}

/// Statements for schemas on which no store need be open in this process. One is made once: their texts are many.
static SCHEMAS: LazyLock<Mutex<BTreeMap<String, Arc<Shared>>>> = LazyLock::new(Mutex::default);

/// Starts a run, if the transaction commits.
pub(crate) async fn start_run(
    within: Within<'_>,
    schema: &str,
    start: StartRun,
) -> StoreResult<StartOutcome> {
    let starts = vec![start];
    check::starts(&starts)?;
    let intent = StartRuns { starts, now: None };
    let outcomes = carry_out(within, schema, &intent, |outcomes| match outcomes.first() {
        // It may have ended another one, and whoever waits for that, its parent and its children look too.
        Some(StartOutcome::Started { .. })
            if intent.starts[0].reuse_policy == ReusePolicy::TerminateIfRunning =>
        {
            Ring::everything()
        }
        Some(StartOutcome::Started { run_id } | StartOutcome::Existing { run_id }) => {
            ready(*run_id)
        }
        _ => Ring::default(),
    })
    .await?;
    Ok(outcomes.into_iter().next().expect("one start, one outcome"))
}

/// Sends a signal, if the transaction commits.
pub(crate) async fn send_signal(
    within: Within<'_>,
    schema: &str,
    signal: SendSignal,
) -> StoreResult<SendOutcome> {
    let signals = vec![signal];
    check::signals(&signals)?;
    let intent = SendSignals { signals, now: None };
    let outcomes = carry_out(within, schema, &intent, |outcomes| match outcomes.first() {
        Some(SendOutcome::Accepted { .. }) => ready(intent.signals[0].run_id),
        _ => Ring::default(),
    })
    .await?;
    Ok(outcomes
        .into_iter()
        .next()
        .expect("one signal, one outcome"))
}

fn ready(run_id: Uuid) -> Ring {
    Ring {
        ready_runs: BTreeSet::from([run_id]),
        ..Ring::default()
    }
}

/// Carries an intent out as a part of the transaction, all or nothing: an error leaves the rest of it as it was. The ring is heard when it
/// commits. Planned again only where somebody else was first with a key; other conflicts are for the caller, whose locks may be in the way.
async fn carry_out<I: Intent>(
    within: Within<'_>,
    schema: &str,
    intent: &I,
    ring: impl Fn(&I::Answer) -> Ring,
) -> StoreResult<I::Answer> {
    let shared = shared(schema)?;
    let mut taken = 0;
    loop {
        match attempt(within, &shared, intent, &ring).await {
            Err((_, Some(Verdict::Taken))) if taken < TAKEN_RETRIES_MAX => taken += 1,
            answer => return answer.map_err(|(error, _)| error),
        }
    }
}

async fn attempt<I: Intent>(
    within: Within<'_>,
    shared: &Arc<Shared>,
    intent: &I,
    ring: impl Fn(&I::Answer) -> Ring,
) -> Result<I::Answer, (StoreError, Option<Verdict>)> {
    let line = match within.0 {
        Lender::Transaction(transaction) => Line::Theirs(transaction),
        Lender::Activity(client) => Line::Lent(client),
    };
    let wire = Wire::new(line, Arc::clone(shared));
    let mut tx = PgTx::saying(Words::part(), wire, Shards::default(), intent.at());
    let written: StoreResult<I::Answer> = async {
        tx.read_shards().await?;
        let (answer, changes) = intent.plan(&mut tx).await?;
        let ring = ring(&answer);
        let last = (!ring.is_empty()).then(|| {
            let (channel, payload) = notification(shared.catalog.schema(), ring);
            Call::new(&RING, vec![value(channel), value(payload)])
        });
        tx.commit_with(&changes, slots::apart(), last).await?;
        Ok(answer)
    }
    .await;
    written.map_err(|error| (error, tx.failed()))
}

fn shared(schema: &str) -> StoreResult<Arc<Shared>> {
    if let Some(shared) = SCHEMAS.lock().get(schema) {
        return Ok(Arc::clone(shared));
    }
    // Unnamed statements: the connection is the caller's, and so is what is prepared on it.
    let shared = Arc::new(Shared::new(Catalog::new(Schema::new(schema)?), true));
    let mut schemas = SCHEMAS.lock();
    Ok(Arc::clone(
        schemas.entry(schema.to_owned()).or_insert(shared),
    ))
}
