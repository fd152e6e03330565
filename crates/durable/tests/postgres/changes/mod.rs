//! What is put is what is loaded: every field of every change.

mod arrivals;
mod records;
mod runs;
mod tasks;

use everruns_durable::persistence::Shards;
use everruns_durable::persistence::postgres::Postgres;
use everruns_durable::persistence::sql::rows::Changes;
use uuid::Uuid;

use crate::intents::write;
use crate::samples::{bare_run, full_run, id, t};
use crate::server::open;

/// No changes yet, at an instant.
fn at(seconds: i64) -> Changes {
    Changes {
        now: t(seconds),
        ..Changes::default()
    }
}

/// A store with `shards` shards and two runs in it, which are in different shards where there are several.
async fn two_runs(shards: u16) -> (Postgres, Uuid, Uuid) {
    let (store, _) = open(shards).await;
    let first = id(1);
    let place = |run_id| Shards::new(shards).of_run(run_id);
    let second = (2..)
        .map(id)
        .find(|id| shards == 1 || place(*id) != place(first))
        .unwrap();
    let changes = Changes {
        insert_runs: vec![full_run(first).into(), bare_run(second).into()],
        ..at(0)
    };
    write(&store, changes).await;
    (store, first, second)
}
