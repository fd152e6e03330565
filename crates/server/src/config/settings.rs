//! The settings: what there is to configure, declared once.

use std::net::SocketAddr;
use std::path::PathBuf;

use durable_program::HostAllowList;

use super::kinds::Kind;
use super::resolve::Found;
use super::{
    ConfigError, DatabaseUrl, Deployment, LogFormat, Mode, Period, Row, Secret, Setting, Tokens,
    Value,
};

/// Declares the settings: the struct that holds them and the list that describes them.
macro_rules! settings {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident: $kind:ty { env: $env:literal $(, default: $default:literal)? $(, dev: $dev:literal)? }
    )+) => {
        /// Everything that can be configured, with where each value came from.
        #[derive(Debug, Clone)]
        pub struct Config {
            /// Which command this is for.
            pub mode: Mode,
            $( $(#[doc = $doc])+ pub $name: Value<$kind>, )+
        }

        /// The settings there are.
        pub const SETTINGS: &[Setting] = &[ $( Setting {
            key: stringify!($name),
            env: $env,
            help: concat!($($doc),+),
            default: settings!(@option $($default)?),
            dev: settings!(@option $($dev)?),
            placeholder: <$kind as Kind>::PLACEHOLDER,
            switch: <$kind as Kind>::SWITCH,
            by_file: <$kind as Kind>::BY_FILE,
        } ),+ ];

        impl Config {
            pub(super) fn from_found(mode: Mode, found: &Found) -> Result<Self, ConfigError> {
                Ok(Self { mode, $( $name: found.read(stringify!($name))?, )+ })
            }

            /// Every setting with its value, as it may be shown, and where it came from.
            #[must_use]
            pub fn rows(&self) -> Vec<Row> {
                vec![ $( Row {
                    key: stringify!($name),
                    value: self.$name.get().show(),
                    origin: self.$name.origin.to_string(),
                } ),+ ]
            }
        }
    };
    (@option) => { None };
    (@option $text:literal) => { Some($text) };
}

settings! {
    /// The store: `sqlite:PATH`, `postgres://USER@HOST/DATABASE` (with `?sslmode=verify-full&sslrootcert=FILE` for TLS) or `memory:`. `durable dev` never takes it from the environment or a file,
    /// so that trying something out cannot touch a real database.
    db: DatabaseUrl { env: "DATABASE_URL", default: "sqlite:durable.db" }
    /// Run migrations that are pending before anything else. Without it a schema that is behind is an error; see `durable migrate`.
    migrate: bool { env: "DURABLE_MIGRATE", default: "false", dev: "true" }
    /// Number of shards of a database that is created now; one that exists keeps its own.
    shards: u32 { env: "DURABLE_SHARDS", default: "1" }
    /// Where HTTP listens. Port 0 takes a free port.
    http: SocketAddr { env: "DURABLE_HTTP", default: "127.0.0.1:7400" }
    /// Where gRPC listens. Port 0 takes a free port.
    grpc: SocketAddr { env: "DURABLE_GRPC", default: "127.0.0.1:7401" }
    /// Written once both listen: `{"http":"http://…","grpc":"http://…","pid":…}`. Appears whole or not at all, and is removed at the end.
    ready_file: Option<PathBuf> { env: "DURABLE_READY_FILE" }
    /// `production` opens no door without tokens, not even on the loopback interface.
    env: Deployment { env: "DURABLE_ENV", default: "development" }
    /// The file of tokens that `durable token` keeps. Read again when it changes.
    token_file: Option<PathBuf> { env: "DURABLE_TOKENS_FILE" }
    /// Tokens beside those of the file, each with a name and a role (worker, reader, operator, admin); TOKEN may also be its hash.
    tokens: Option<Tokens> { env: "DURABLE_TOKENS" }
    /// A token with the role worker, beside those of the file. Workers read the same variable; where a shell exports it for them and there
    /// is no other token, `durable dev` on the loopback interface stays open.
    worker_token: Option<Secret> { env: "WORKER_GRPC_AUTH_TOKEN" }
    /// gRPC: the server's certificate chain, PEM. Together with `grpc_tls_key` it turns TLS on.
    grpc_tls_cert: Option<PathBuf> { env: "WORKER_GRPC_TLS_CERT" }
    /// gRPC: the key of the certificate, PEM.
    grpc_tls_key: Option<PathBuf> { env: "WORKER_GRPC_TLS_KEY" }
    /// gRPC: the authority whose certificates clients must have (mTLS), PEM.
    grpc_tls_ca: Option<PathBuf> { env: "WORKER_GRPC_TLS_CA_CERT" }
    /// HTTP: the server's certificate chain, PEM. Together with `http_tls_key` it turns TLS on.
    http_tls_cert: Option<PathBuf> { env: "DURABLE_HTTP_TLS_CERT" }
    /// HTTP: the key of the certificate, PEM.
    http_tls_key: Option<PathBuf> { env: "DURABLE_HTTP_TLS_KEY" }
    /// HTTP: the authority whose certificates clients must have (mTLS), PEM.
    http_tls_ca: Option<PathBuf> { env: "DURABLE_HTTP_TLS_CA_CERT" }
    /// Run `durable.program` and the built-in activities in this process too.
    embedded_worker: bool { env: "DURABLE_EMBEDDED_WORKER", default: "false", dev: "true" }
    /// Hosts that the activity `http` may call: names, addresses, `*.example.com`, `loopback`, each with a port if only that is meant.
    http_activity_hosts: HostAllowList { env: "DURABLE_HTTP_ACTIVITY_HOSTS", dev: "loopback" }
    /// How long a stop may take: running activities get most of it to finish, the rest is for giving leases back.
    grace: Period { env: "DURABLE_GRACE", default: "30s" }
    /// How long finished runs are kept; `none` keeps them for ever.
    retention: Option<Period> { env: "DURABLE_RETENTION", default: "30d" }
    /// How long events of earlier iterations (continue-as-new) of a run are kept; `none` keeps them as long as the run.
    history_retention: Option<Period> { env: "DURABLE_HISTORY_RETENTION", default: "30d" }
    /// How long signals that a run has taken and updates that it has answered are kept. One that is sent again with the same id counts as
    /// repeated for so long; `none` keeps them as long as the run.
    signal_retention: Option<Period> { env: "DURABLE_SIGNAL_RETENTION", default: "30d" }
    /// How long log lines of activities are kept; `none` keeps them as long as the run.
    log_retention: Option<Period> { env: "DURABLE_LOG_RETENTION", default: "30d" }
    /// How long outbox events that were published or given up are kept; `none` keeps them as long as the run.
    outbox_retention: Option<Period> { env: "DURABLE_OUTBOX_RETENTION", default: "30d" }
    /// How long dead letters about which a decision was made are kept; `none` keeps them as long as the run.
    dead_letter_retention: Option<Period> { env: "DURABLE_DEAD_LETTER_RETENTION", default: "90d" }
    /// How long results of `run_once` are kept, which belong to no run: a key that is older is executed again; `none` keeps them for ever.
    once_retention: Option<Period> { env: "DURABLE_ONCE_RETENTION", default: "365d" }
    /// How long workers that have stopped are listed; `none` keeps them for ever.
    worker_retention: Option<Period> { env: "DURABLE_WORKER_RETENTION", default: "7d" }
    /// How long totals are kept by the hour; older ones are kept by the day, and their sums stay the same.
    totals_retention: Option<Period> { env: "DURABLE_TOTALS_RETENTION", default: "60d" }
    /// Refuse new runs while more tasks wait than so many times the slots of all live workers (HTTP 503 with `Retry-After`, gRPC
    /// `RESOURCE_EXHAUSTED` with `grpc-retry-pushback-ms`); `none` never refuses. Runs that exist go on.
    max_queue_ratio: Option<u32> { env: "DURABLE_MAX_QUEUE_RATIO", default: "10" }
    /// Slots that count for `max_queue_ratio` while no worker is alive.
    assumed_capacity: u32 { env: "DURABLE_ASSUMED_CAPACITY", default: "1000" }
    /// When those who were refused should come back.
    overload_retry_after: Period { env: "DURABLE_OVERLOAD_RETRY_AFTER", default: "5s" }
    /// Connections at once, for each of the two doors; more wait to be accepted.
    max_connections: u32 { env: "DURABLE_MAX_CONNECTIONS", default: "10000" }
    /// How long a connection may take for its TLS handshake, and again for its request's headers.
    header_timeout: Period { env: "DURABLE_HEADER_TIMEOUT", default: "15s" }
    /// What is logged to standard error, in the language of `RUST_LOG`: `info`, `debug`, `warn,durable_server=debug`.
    log: String { env: "RUST_LOG", default: "info", dev: "warn" }
    /// How log lines look.
    log_format: LogFormat { env: "DURABLE_LOG_FORMAT", default: "text" }
}
