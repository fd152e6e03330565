//! Connections: one pool per concern, so that claims cannot starve turns, and neither of them leases and results.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::options::{PoolConfig, Route};
use super::sqlstate::{operators_pool_error, pool_error};
use super::tls::Connector;
use crate::persistence::sql::tx::Concern;
use crate::persistence::{StoreError, StoreResult};

/// Why a claim was not sent.
const NO_TURN: &str = "the claims before this one take too long";

/// Longest wait for a connection that others are using.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Claims of this process that are at the database at once. Claimers who come together pass over each other's rows: beyond a few, each
/// more makes all of them slower. The others wait here, in order.
const CLAIMS_AT_ONCE: usize = 8;

/// Longest that one statement of a write may take, waits for locks included. It is far above what any of them needs: whoever
/// reaches it waits for somebody who hangs, and the caller hears that instead of hanging too. `COMMIT` is not cut off by it: the
/// server stops this clock before it commits, so that a statement that was cut off has left nothing behind.
pub(super) const STATEMENT_TIMEOUT: &str = "30s";

/// Plans of the hot statements must not depend on statistics: a queue that was empty when it was last looked at may hold a
/// million rows now. Every hot statement finds its rows by an index, so what remains is taken away: scans of whole tables (and of
/// whole indexes in their stead), joins that start with one, and the compiler for queries that the planner deems dear. One plan is
/// as good as another then, so each is made once: left to itself, the server would make a new one for every small set.
pub const PLAN_SETTINGS: [&str; 6] = [
    "enable_seqscan=off",
    "enable_indexonlyscan=off",
    "enable_hashjoin=off",
    "enable_mergejoin=off",
    "jit=off",
    "plan_cache_mode=force_generic_plan",
];

/// The pools.
pub(super) struct Pools {
    tasks: Pool,
    events: Pool,
    results: Pool,
    registry: Pool,
    operators: Pool,
    activities: Pool,
    operator_timeout: Duration,
    tls: Connector,
    claims: Semaphore,
    reaper: JoinHandle<()>,
}

impl Pools {
    /// Makes the pools; no connection is made yet.
    pub(super) fn new(route: &Route, sizes: &PoolConfig, pooled: bool) -> StoreResult<Self> {
        let mut hot = route.clone();
        if !pooled {
            hot.config
                .options(with_plan_settings(route.config.get_options()));
        }
        let make = |route: Route, size: u32| pool(route, size, WAIT_MAX, sizes);
        let tasks = make(hot.clone(), sizes.task_pool_size)?;
        let events = make(hot.clone(), sizes.event_pool_size)?;
        let results = make(hot, sizes.result_pool_size)?;
        let registry = make(route.clone(), sizes.registry_pool_size)?;
        let operators = pool(
            route.clone(),
            sizes.operator_pool_size,
            sizes.operator_timeout,
            sizes,
        )?;
        // What users' statements are best planned with, the server knows better than we.
        let activities = make(route.clone(), sizes.activity_pool_size)?;
        let all = [
            &tasks,
            &events,
            &results,
            &registry,
            &operators,
            &activities,
        ]
        .map(Pool::clone);
        let reaper = tokio::spawn(close_idle(all, sizes.idle_timeout));
        Ok(Self {
            tasks,
            events,
            results,
            registry,
            operators,
            activities,
            operator_timeout: sizes.operator_timeout,
            tls: route.tls.clone(),
            claims: Semaphore::new(CLAIMS_AT_ONCE),
            reaper,
        })
    }

    /// The connections of activities' own transactions.
    pub(super) fn activities(&self) -> Pool {
        self.activities.clone()
    }

    /// Longest that one statement of an operator's read may take.
    pub(super) fn operator_timeout(&self) -> Duration {
        self.operator_timeout
    }

    /// How a connection that cancels a read is made.
    pub(super) fn tls(&self) -> Connector {
        self.tls.clone()
    }

    /// Waits until it is this claim's turn, which it is until the answer is dropped.
    pub(super) async fn turn_to_claim(&self) -> StoreResult<SemaphorePermit<'_>> {
        match timeout(WAIT_MAX, self.claims.acquire()).await {
            Ok(Ok(turn)) => Ok(turn),
            Ok(Err(error)) => Err(StoreError::unavailable(NO_TURN, error)),
            Err(error) => Err(StoreError::unavailable(NO_TURN, error)),
        }
    }

    /// A connection.
    pub(super) async fn get(&self, concern: Concern) -> StoreResult<Object> {
        let pool = match concern {
            Concern::Tasks => &self.tasks,
            Concern::Events => &self.events,
            Concern::Results => &self.results,
            Concern::Registry => &self.registry,
            Concern::Operators => {
                return self.operators.get().await.map_err(operators_pool_error);
            }
        };
        pool.get().await.map_err(pool_error)
    }
}

impl Drop for Pools {
    fn drop(&mut self) {
        self.reaper.abort();
    }
}

fn pool(route: Route, size: u32, wait: Duration, sizes: &PoolConfig) -> StoreResult<Pool> {
    let manager = Manager::from_config(
        route.config,
        route.tls,
        ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        },
    );
    Pool::builder(manager)
        .max_size(usize::try_from(size.max(1)).unwrap_or(1))
        .wait_timeout(Some(wait))
        .create_timeout(Some(sizes.connect_timeout))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| StoreError::open(error.to_string()))
}

fn with_plan_settings(given: Option<&str>) -> String {
    let own = PLAN_SETTINGS
        .map(|setting| format!("-c {setting}"))
        .join(" ");
    match given {
        Some(given) => format!("{own} {given}"),
        None => own,
    }
}

async fn close_idle(pools: [Pool; 6], idle: Duration) {
    let mut tick = tokio::time::interval((idle / 2).max(Duration::from_secs(1)));
    loop {
        tick.tick().await;
        for pool in &pools {
            pool.retain(|_, metrics| metrics.last_used() < idle);
        }
    }
}
