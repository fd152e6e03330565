//! Starts, signals and single activities inside your own PostgreSQL transaction: rolled back, nothing exists; committed, engines pick it up.
//!
//! The transaction is in the database that the engines use, of any connection of yours. Nothing has to be open beside it: no engine, no
//! client. From other drivers and languages, the SQL functions `durable_start`, `durable_signal` and `durable_enqueue` do the same.
//!
//! ```no_run
//! use everruns_durable::postgres;
//! use everruns_durable::prelude::*;
//!
//! #[workflow]
//! async fn ship(ctx: WorkflowContext, order: i64) -> WorkflowResult<()> {
//!     ctx.sleep("PT1H").await
//! }
//!
//! # async fn place(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
//! let transaction = client.transaction().await?;
//! transaction.execute("INSERT INTO orders (id) VALUES (7)", &[]).await?;
//! let run_id = postgres::start_in::<ship>(&transaction, 7)
//!     .workflow_id("order-7")
//!     .await?;
//! transaction.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! What holds, besides all or nothing:
//! - A refusal (a workflow id that is taken, a run that has ended) and any other error leave your transaction as it was: go on, or roll back.
//! - A key, and a run that is signalled, stay locked until you commit, as any row you write: whoever has to do with them waits, and the
//!   engine takes no turn of that run meanwhile. Come to it late in the transaction, and commit soon.
//! - Engines are told by a notification at your commit, and find the run by themselves within seconds where that is lost.
//! - Under `REPEATABLE READ` and above, a conflict with somebody else's start or signal is an error ([`Error::is_conflict`](crate::Error::is_conflict)): run your
//!   transaction again, as always there.

mod signal;
mod start;

pub use crate::persistence::postgres::{ActivityTransaction, Within};
pub use signal::{SignalIn, signal_in};
pub use start::{StartIn, enqueue_in, enqueue_named_in, start_in, start_named_in};
