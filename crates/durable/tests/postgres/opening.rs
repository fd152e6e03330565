//! Opening: every way it can go wrong says what is wrong and keeps the password to itself.

use std::time::Duration;

use everruns_durable::persistence::StoreError;
use everruns_durable::persistence::postgres::{PoolConfig, Postgres, PostgresOptions};

use crate::server::{admin_url, fresh_database, with_database};

async fn refusal(url: &str) -> String {
    let options = PostgresOptions {
        pools: PoolConfig {
            connect_timeout: Duration::from_secs(2),
            ..PoolConfig::default()
        },
        ..PostgresOptions::default()
    };
    let error = Postgres::open(url, options).await.unwrap_err();
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    let whole = format!("{error} {error:?}");
    assert!(!whole.contains("hush"), "the password shows: {whole}");
    error.to_string()
}

#[tokio::test]
async fn a_url_that_is_none_is_refused() {
    for url in [
        "",
        "postgres://",
        "nonsense",
        "postgres://me:hush@h:port/d",
        "postgres://me:hush@h/d?x=1",
    ] {
        refusal(url).await;
    }
    assert!(
        refusal("postgres://me:hush@h/d?sslmode=verify-full&sslrootcert=/no/such/file")
            .await
            .contains("/no/such/file")
    );
    assert!(
        refusal("postgres://me:hush@h/d?schema=a%20b")
            .await
            .contains("schema name")
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    // Port 1 of the loopback refuses at once.
    let message = refusal("postgres://me:hush@127.0.0.1:1/shop").await;
    assert!(
        message.contains("127.0.0.1:1") && message.contains("shop"),
        "{message}"
    );
    assert!(message.contains("cannot be reached"), "{message}");
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up_after_the_connect_timeout() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let message = refusal(&format!("postgres://me:hush@127.0.0.1:{port}/shop")).await;
    assert!(message.contains("no answer"), "{message}");
}

#[tokio::test]
async fn a_missing_database_and_an_unknown_user_are_named() {
    let missing = with_database(&admin_url(), "durable_no_such_database");
    let message = refusal(&missing).await;
    assert!(message.contains("durable_no_such_database"), "{message}");
    assert!(message.contains("does not exist"), "{message}");
    let config: tokio_postgres::Config = admin_url().parse().unwrap();
    let tokio_postgres::config::Host::Tcp(host) = &config.get_hosts()[0] else {
        panic!("the test server listens on TCP");
    };
    let port = config.get_ports()[0];
    let message = refusal(&format!(
        "postgres://durable_nobody:hush@{host}:{port}/postgres"
    ))
    .await;
    assert!(message.contains("durable_nobody"), "{message}");
}

#[tokio::test]
async fn a_direct_url_is_used_for_migrations() {
    let url = fresh_database().await;
    let broken = PostgresOptions {
        direct_url: Some("postgres://me:hush@127.0.0.1:1/x".into()),
        ..PostgresOptions::default()
    };
    let error = Postgres::open(&url, broken).await.unwrap_err();
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
}
