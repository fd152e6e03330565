//! How a PostgreSQL store is opened: options, and our own parameters of the URL.

use std::time::Duration;

use tokio_postgres::config::Host;

use super::tls::{Connector, Given, Settings};
use crate::persistence::{Shards, StoreError};

/// Silence after which the server is asked whether it is there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
/// Time between two such questions.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Questions without an answer before the connection is given up.
const KEEPALIVE_RETRIES: u32 = 3;
/// Longest that bytes we sent may stay unacknowledged.
const UNANSWERED_MAX: Duration = Duration::from_secs(30);

/// Most connections for operators' reads.
const OPERATOR_POOL_MAX: u32 = 1000;
/// Longest time limit of an operator's read, in milliseconds: ten minutes.
const OPERATOR_TIMEOUT_MS_MAX: u32 = 600_000;

/// Sizes of the connection pools, one per concern; connections are made when they are needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolConfig {
    /// Pool for task claiming (high contention).
    pub task_pool_size: u32,
    /// Pool for event operations: turns, starts, signals.
    pub event_pool_size: u32,
    /// Pool for leases and results of tasks: a reserve of our own beside the three others, so that a flood of starts does not
    /// cost workers the leases of what they are doing.
    pub result_pool_size: u32,
    /// Pool for the worker registry, schedules, breakers and what waits at a glance.
    pub registry_pool_size: u32,
    /// Pool for operators' reads: lists, counts, a run's attributes, events and log lines. Nothing
    /// of the engine's own waits for it. Also `operator_pool_size=` in the URL.
    pub operator_pool_size: u32,
    /// Longest that one operator's read may take, and wait for a connection of its pool. Also
    /// `operator_timeout_ms=` in the URL.
    pub operator_timeout: Duration,
    /// Pool for transactions of activities: each holds its connection for as long as it runs, so they have their own.
    pub activity_pool_size: u32,
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
            result_pool_size: 5,
            registry_pool_size: 10,
            operator_pool_size: 4,
            operator_timeout: Duration::from_secs(5),
            activity_pool_size: 20,
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
    /// URL past the pooler, for migrations and the bell; through a pooler alone there is no bell.
    pub direct_url: Option<String>,
    /// After how much silence the bell's listener makes sure that it can hear.
    pub bell_probe: Duration,
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
            bell_probe: Duration::from_secs(30),
            migrate: true,
        }
    }
}

/// Where connections lead, and how they are made.
#[derive(Debug, Clone)]
pub(super) struct Route {
    /// The driver's configuration.
    pub(super) config: tokio_postgres::Config,
    /// TLS, where the configuration asks for it.
    pub(super) tls: Connector,
}

/// A URL taken apart: the driver's part, and ours, which wins over the options.
#[derive(Debug)]
pub(super) struct Target {
    /// The driver's part.
    pub(super) route: Route,
    /// Options with the URL's parameters in them.
    pub(super) options: PostgresOptions,
}

impl Target {
    /// Reads a URL. Its text, which may hold a password, is never part of an error.
    pub(super) fn parse(url: &str, mut options: PostgresOptions) -> Result<Self, StoreError> {
        let mut given = Given::default();
        let driver_url = take_own_parameters(url, &mut options, &mut given)?;
        let mut config: tokio_postgres::Config = driver_url.parse().map_err(|error| {
            let why = std::error::Error::source(&error).map(|s| format!(": {s}")).unwrap_or_default();
            StoreError::open(format!(
                "the PostgreSQL URL cannot be read{why}; it looks like postgres://user:password@host:5432/database"
            ))
        })?;
        if config.get_hosts().is_empty() {
            return Err(StoreError::open("the PostgreSQL URL names no host"));
        }
        // PostgreSQL has no TLS over Unix sockets, whatever is asked for.
        let settings = if config.get_hosts().iter().all(is_a_socket) {
            Settings::NONE
        } else {
            given.resolve(|name| std::env::var(name).ok())?
        };
        config.ssl_mode(settings.driver_mode());
        let tls = Connector::new(&settings)?;
        config.connect_timeout(options.pools.connect_timeout);
        if config.get_application_name().is_none() {
            config.application_name("durable");
        }
        bound_silence(&mut config);
        Ok(Self {
            route: Route { config, tls },
            options,
        })
    }
}

#[cfg(unix)]
const fn is_a_socket(host: &Host) -> bool {
    matches!(host, Host::Unix(_))
}

#[cfg(not(unix))]
const fn is_a_socket(_: &Host) -> bool {
    false
}

/// Makes a server that has vanished without a word be noticed, where the URL does not say how: a caller must not wait for it for
/// as long as the operating system would, which is hours.
fn bound_silence(config: &mut tokio_postgres::Config) {
    let driver = tokio_postgres::Config::new();
    if config.get_keepalives_idle() == driver.get_keepalives_idle() {
        config.keepalives_idle(KEEPALIVE_IDLE);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(KEEPALIVE_INTERVAL);
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(KEEPALIVE_RETRIES);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(UNANSWERED_MAX);
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
fn take_own_parameters(
    url: &str,
    options: &mut PostgresOptions,
    tls: &mut Given,
) -> Result<String, StoreError> {
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
            "operator_pool_size" => {
                options.pools.operator_pool_size = number(name, value, OPERATOR_POOL_MAX)?;
            }
            "operator_timeout_ms" => {
                let ms = number(name, value, OPERATOR_TIMEOUT_MS_MAX)?;
                options.pools.operator_timeout = Duration::from_millis(u64::from(ms));
            }
            ssl if tls.take(ssl, decode(value)?) => {}
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

/// A whole number from 1 to `max`.
fn number(name: &str, value: &str, max: u32) -> Result<u32, StoreError> {
    let parsed = value.parse().ok();
    parsed
        .filter(|number| (1..=max).contains(number))
        .ok_or_else(|| {
            StoreError::open(format!(
                "the URL's parameter {name} is a whole number from 1 to {max}"
            ))
        })
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
        assert_eq!(target.route.config.get_dbname(), Some("d"));
    }

    #[test]
    fn the_url_sets_the_pool_and_the_time_limit_of_operators_reads() {
        let pools = parse("postgres://h/d?operator_pool_size=9&operator_timeout_ms=250");
        let pools = pools.unwrap().options.pools;
        assert_eq!(pools.operator_pool_size, 9);
        assert_eq!(pools.operator_timeout, Duration::from_millis(250));
    }

    #[test]
    fn a_silent_server_is_noticed_in_time_unless_the_url_says_otherwise() {
        let ours = parse("postgres://h/d").unwrap().route.config;
        assert_eq!(ours.get_keepalives_idle(), KEEPALIVE_IDLE);
        assert_eq!(ours.get_keepalives_interval(), Some(KEEPALIVE_INTERVAL));
        assert_eq!(ours.get_keepalives_retries(), Some(KEEPALIVE_RETRIES));
        assert_eq!(ours.get_tcp_user_timeout(), Some(&UNANSWERED_MAX));
        let url = "postgres://h/d?keepalives_idle=60&keepalives_interval=7&keepalives_retries=9&tcp_user_timeout=90";
        let theirs = parse(url).unwrap().route.config;
        assert_eq!(theirs.get_keepalives_idle(), Duration::from_secs(60));
        assert_eq!(
            theirs.get_keepalives_interval(),
            Some(Duration::from_secs(7))
        );
        assert_eq!(theirs.get_keepalives_retries(), Some(9));
        assert_eq!(
            theirs.get_tcp_user_timeout(),
            Some(&Duration::from_secs(90))
        );
    }

    #[test]
    fn no_error_and_no_place_holds_the_password() {
        for url in [
            "postgres://me:hush@h:bad/d",
            "postgres://me:hush@h/d?sslmode=maybe",
            "postgres://me:hush@h/d?sslmode=verify-full&sslrootcert=/no/such/file",
            "postgres://me:hush@h/d?pooled=maybe",
            "postgres://me:hush@h/d?schema=%zz",
            "postgres://me:hush@h/d?nonsense=1",
            "postgres://me:hush@h/d?operator_pool_size=0",
            "postgres://me:hush@h/d?operator_timeout_ms=5s",
        ] {
            let error = parse(url).unwrap_err();
            assert!(matches!(error, StoreError::Open { .. }), "{error}");
            assert!(!format!("{error} {error:?}").contains("hush"), "{error}");
        }
        let target = parse("postgres://me:hush@h:1/d").unwrap();
        assert_eq!(
            place(&target.route.config),
            "PostgreSQL at h:1 (database d, user me)"
        );
    }

    #[test]
    fn the_defaults_are_the_seeds_and_a_reserve_of_our_own() {
        let pools = PoolConfig::default();
        assert_eq!(
            (
                pools.task_pool_size,
                pools.event_pool_size,
                pools.registry_pool_size
            ),
            (50, 20, 10)
        );
        assert_eq!(pools.result_pool_size, 5);
    }
}
