//! A database of a test's own, on the throw-away server that `cargo xtask test` starts.

use std::sync::atomic::{AtomicU32, Ordering};

use everruns_durable::persistence::Shards;
use everruns_durable::persistence::postgres::{Postgres, PostgresOptions};
use tokio_postgres::{Client, NoTls};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// The admin URL of the throw-away server.
pub(crate) fn admin_url() -> String {
    std::env::var("DURABLE_TEST_POSTGRES_URL")
        .expect("DURABLE_TEST_POSTGRES_URL is not set: run by cargo xtask test")
}

/// A fresh, empty database; answers its URL.
pub(crate) async fn fresh_database() -> String {
    let admin = connect(&admin_url()).await;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("durable_pg_{}_{number}", std::process::id());
    admin
        .batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
        .await
        .unwrap();
    admin
        .batch_execute(&format!("CREATE DATABASE {name}"))
        .await
        .unwrap();
    with_database(&admin_url(), &name)
}

/// A plain connection, for what a test looks at by itself.
pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A migrated store with its URL.
pub(crate) async fn open(shards: u16) -> (Postgres, String) {
    let url = fresh_database().await;
    let options = PostgresOptions {
        shards: Shards::new(shards),
        ..PostgresOptions::default()
    };
    let store = Postgres::open(&url, options).await.unwrap();
    (store, url)
}

/// The same server and user, another database.
pub(crate) fn with_database(url: &str, name: &str) -> String {
    let (base, query) = url
        .split_once('?')
        .map_or((url, String::new()), |(b, q)| (b, format!("?{q}")));
    let (server, _) = base
        .rsplit_once('/')
        .expect("an admin URL names a database");
    format!("{server}/{name}{query}")
}
