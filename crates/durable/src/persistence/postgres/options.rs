//! How a PostgreSQL store is opened: options, and our own parameters of the URL.

use std::time::Duration;

use tokio_postgres::config::{Host, SslMode};

use crate::persistence::{Shards, StoreError};

/// Sizes of the connection pools, one per concern; connections are made when they are needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolConfig {
    /// Pool for task claiming (high contention).
    pub task_pool_size: u32,
    /// Pool for event operations: turns, results, starts, signals.
    pub event_pool_size: u32,
    /// Pool for the worker registry, schedules and operators' reads.
    pub registry_pool_size: u32,
    /// Longest wait for a new connection.
    pub connect_timeout: Duration,
    /// A connection that nobody used for this long is closed.
    pub idle_timeout: Duration,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            task_pool_size: 50,
            event_pool_size: 20,
            registry_pool_size: 10,
            connect_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(300),
        }
    }
}

/// How to open a PostgreSQL store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresOptions {
    /// Where the tables are; created if it is missing.
    pub schema: String,
    /// Shards of a database that is created now; one that exists keeps its own.
    pub shards: Shards,
    /// Connection pools.
    pub pools: PoolConfig,
    /// Whether a transaction pooler (pgbouncer) stands in between: statements are sent unnamed, and no session state is used.
    pub pooled: bool,
    /// URL past the pooler, for migrations and later for notifications.
    pub direct_url: Option<String>,
    /// Whether to run migrations that are missing; otherwise their absence is an error.
    pub migrate: bool,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            schema: "durable".to_owned(),
            shards: Shards::default(),
            pools: PoolConfig::default(),
            pooled: false,
            direct_url: None,
            migrate: true,
        }
    }
}

/// A URL taken apart: the driver's part, and ours, which wins over the options.
#[derive(Debug)]
pub(super) struct Target {
    /// The driver's configuration.
    pub(super) config: tokio_postgres::Config,
    /// Options with the URL's parameters in them.
    pub(super) options: PostgresOptions,
}

impl Target {
    /// Reads a URL. Its text, which may hold a password, is never part of an error.
    pub(super) fn parse(url: &str, mut options: PostgresOptions) -> Result<Self, StoreError> {
        let driver_url = take_own_parameters(url, &mut options)?;
        let mut config: tokio_postgres::Config = driver_url.parse().map_err(|error| {
            let why = std::error::Error::source(&error).map(|s| format!(": {s}")).unwrap_or_default();
            StoreError::open(format!(
                "the PostgreSQL URL cannot be read{why}; it looks like postgres://user:password@host:5432/database"
            ))
        })?;
        if config.get_hosts().is_empty() {
            return Err(StoreError::open("the PostgreSQL URL names no host"));
        }
        if config.get_ssl_mode() == SslMode::Require {
            return Err(StoreError::open(
                "sslmode=require: TLS comes with the server issue; use sslmode=disable on a trusted network until then",
            ));
        }
        config.ssl_mode(SslMode::Disable);
        config.connect_timeout(options.pools.connect_timeout);
        if config.get_application_name().is_none() {
            config.application_name("durable");
        }
        Ok(Self { config, options })
    }
}

/// Where a configuration leads, for people: user, host, port and database, no password.
pub(super) fn place(config: &tokio_postgres::Config) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    });
    let ports = config.get_ports();
    let places = hosts.enumerate().map(|(i, host)| {
        let port = ports.get(i).or(ports.first()).copied().unwrap_or(5432);
        format!("{host}:{port}")
    });
    let user = config.get_user().unwrap_or("(no user)");
    let database = config.get_dbname().unwrap_or(user);
    format!(
        "PostgreSQL at {} (database {database}, user {user})",
        places.collect::<Vec<_>>().join(",")
    )
}

/// Splits our parameters off: the driver refuses what it does not know.
fn take_own_parameters(url: &str, options: &mut PostgresOptions) -> Result<String, StoreError> {
    let Some((base, query)) = url.split_once('?') else {
        return Ok(url.to_owned());
    };
    let mut rest = Vec::new();
    for parameter in query.split('&').filter(|p| !p.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match name {
            "pooled" => options.pooled = flag(value)?,
            "schema" => options.schema = decode(value)?,
            "direct_url" => options.direct_url = Some(decode(value)?),
            _ => rest.push(parameter),
        }
    }
    if rest.is_empty() {
        return Ok(base.to_owned());
    }
    Ok(format!("{base}?{}", rest.join("&")))
}

fn flag(value: &str) -> Result<bool, StoreError> {
    match value {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(StoreError::open(
            "the URL's parameter pooled is true or false",
        )),
    }
}

/// Percent-decoding, as the rest of a URL has it.
fn decode(value: &str) -> Result<String, StoreError> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = rest
            .get(..2)
            .and_then(|pair| std::str::from_utf8(pair).ok());
        let decoded = digits.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        bytes.push(decoded.ok_or_else(bad_escape)?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| bad_escape())
}

fn bad_escape() -> StoreError {
    StoreError::open("the PostgreSQL URL holds a percent sign that escapes nothing")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Target, StoreError> {
        Target::parse(url, PostgresOptions::default())
    }

    #[test]
    fn our_parameters_are_taken_out_before_the_driver_reads_the_url() {
        let target = parse(
            "postgres://u:p@h:6432/d?pooled=true&connect_timeout=3&schema=app&direct_url=postgres%3A%2F%2Fh%2Fd",
        )
        .unwrap();
        assert!(target.options.pooled);
        assert_eq!(target.options.schema, "app");
        assert_eq!(target.options.direct_url.as_deref(), Some("postgres://h/d"));
        assert_eq!(target.config.get_dbname(), Some("d"));
    }

    #[test]
    fn no_error_and_no_place_holds_the_password() {
        for url in [
            "postgres://me:hush@h:bad/d",
            "postgres://me:hush@h/d?sslmode=require",
            "postgres://me:hush@h/d?pooled=maybe",
            "postgres://me:hush@h/d?schema=%zz",
            "postgres://me:hush@h/d?nonsense=1",
        ] {
            let error = parse(url).unwrap_err();
            assert!(matches!(error, StoreError::Open { .. }), "{error}");
            assert!(!format!("{error} {error:?}").contains("hush"), "{error}");
        }
        let target = parse("postgres://me:hush@h:1/d").unwrap();
        assert_eq!(
            place(&target.config),
            "PostgreSQL at h:1 (database d, user me)"
        );
    }

    #[test]
    fn the_defaults_are_the_seeds() {
        let pools = PoolConfig::default();
        assert_eq!(
            (
                pools.task_pool_size,
                pools.event_pool_size,
                pools.registry_pool_size
            ),
            (50, 20, 10)
        );
    }
}
