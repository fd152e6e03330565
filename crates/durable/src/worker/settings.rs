//! How a process runs activities.

use std::time::Duration;

use super::BackpressureConfig;

/// How a process runs activities.
///
/// An engine's builder begins with [`WorkerSettings::from_env`]: what the program sets itself wins over the environment.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerSettings {
    /// Activities running at once; `MAX_CONCURRENT_TASKS`.
    pub max_concurrent_tasks: usize,
    /// Bytes of inputs and results that running activities may hold together; `MAX_BYTES_IN_FLIGHT`.
    /// A worker that holds as much takes no further task until one of them has ended, so that
    /// large payloads are run fewer at once. One claim (32 MiB) may exceed it.
    pub max_bytes_in_flight: usize,
    /// Tasks claimed at once; `CLAIM_BATCH_SIZE`.
    pub claim_batch_size: usize,
    /// How often is asked for tasks while other processes cannot be heard, or known work could not be claimed; `POLL_INTERVAL_MS`.
    pub poll_interval: Duration,
    /// For how long a task is leased.
    pub lease: Duration,
    /// How often leases are renewed.
    pub lease_renewal: Duration,
    /// How often the worker gives a sign of life.
    pub heartbeat_interval: Duration,
    /// Without a sign for this long, a worker counts as stopped; `WORKER_HEARTBEAT_TIMEOUT_SECS`.
    pub stale_after: Duration,
    /// When it stops claiming.
    pub backpressure: BackpressureConfig,
    /// Claims less while one task in a hundred takes longer than this.
    pub latency_threshold: Duration,
    /// The worker's group: for people, who find it in lists and filter by it. It routes nothing: a worker takes tasks of every activity type it
    /// has, whatever its group.
    pub group: String,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            max_concurrent_tasks: 1_000,
            max_bytes_in_flight: 128 * 1024 * 1024,
            claim_batch_size: 50,
            poll_interval: Duration::from_millis(100),
            lease: Duration::from_secs(15),
            lease_renewal: Duration::from_secs(5),
            heartbeat_interval: Duration::from_secs(5),
            stale_after: Duration::from_secs(60),
            backpressure: BackpressureConfig::default(),
            latency_threshold: Duration::from_secs(30),
            group: "default".to_owned(),
        }
    }
}

impl WorkerSettings {
    /// The defaults, changed by the environment: `MAX_CONCURRENT_TASKS`, `MAX_BYTES_IN_FLIGHT`,
    /// `CLAIM_BATCH_SIZE`, `POLL_INTERVAL_MS`, `WORKER_HEARTBEAT_TIMEOUT_SECS`.
    ///
    /// # Errors
    /// [`crate::Error`] that names the variable whose value is not a number above 0.
    pub fn from_env() -> crate::Result<Self> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    pub(crate) fn from_variables(read: impl Fn(&str) -> Option<String>) -> crate::Result<Self> {
        let number = |name: &str| -> crate::Result<Option<u64>> {
            let Some(text) = read(name) else {
                return Ok(None);
            };
            match text.trim().parse() {
                Ok(number) if number > 0 => Ok(Some(number)),
                _ => Err(crate::Error::configuration(format!(
                    "{name} is {text:?}; it must be a whole number above 0"
                ))),
            }
        };
        let count = |name: &str, default: usize| -> crate::Result<usize> {
            let given = number(name)?;
            Ok(given.map_or(default, |n| usize::try_from(n).unwrap_or(usize::MAX)))
        };
        let default = Self::default();
        Ok(Self {
            max_concurrent_tasks: count("MAX_CONCURRENT_TASKS", default.max_concurrent_tasks)?,
            max_bytes_in_flight: count("MAX_BYTES_IN_FLIGHT", default.max_bytes_in_flight)?,
            claim_batch_size: count("CLAIM_BATCH_SIZE", default.claim_batch_size)?,
            poll_interval: number("POLL_INTERVAL_MS")?
                .map_or(default.poll_interval, Duration::from_millis),
            stale_after: number("WORKER_HEARTBEAT_TIMEOUT_SECS")?
                .map_or(default.stale_after, Duration::from_secs),
            ..default
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_changes_the_defaults() {
        let settings = WorkerSettings::from_variables(|name| match name {
            "MAX_CONCURRENT_TASKS" => Some("7".to_owned()),
            "POLL_INTERVAL_MS" => Some(" 250 ".to_owned()),
            _ => None,
        })
        .expect("numbers");
        assert_eq!(settings.max_concurrent_tasks, 7);
        assert_eq!(settings.claim_batch_size, 50);
        assert_eq!(settings.poll_interval, Duration::from_millis(250));
    }

    #[test]
    fn value_that_is_no_number_is_named() {
        let error = WorkerSettings::from_variables(|name| {
            (name == "CLAIM_BATCH_SIZE").then(|| "many".to_owned())
        })
        .expect_err("not a number");
        assert!(error.to_string().contains("CLAIM_BATCH_SIZE"), "{error}");
        assert!(error.is_invalid());
    }
}
