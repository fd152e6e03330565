//! The attributes of Durable's function model.
//!
//! Each turns an `async fn` into a unit struct of the same name that implements the library's trait, so that a type
//! stands for the function wherever one is asked for (`ctx.activity::<greet>(name)`), and its name holds across
//! processes. The function itself stays callable as `greet::call(…)`.
//!
//! Use them through `everruns_durable::prelude`.
//!
//! **Architecture invariant:** the expansion names nothing of the library but its `macro_support` module; what moves
//! inside the library does not concern this crate.

mod activity;
mod duration;
mod expansion;
mod function;
mod kind;
mod parameters;
mod settings;
mod version;
mod workflow;

use proc_macro::TokenStream;

/// Makes an activity of an `async fn`: a step of work with side effects, run at least once.
///
/// ```text
/// #[activity(start_to_close = "30s", attempts = 5)]
/// async fn charge(ctx: ActivityContext, order: Order, amount: u64) -> ActivityResult<Receipt> { … }
/// ```
///
/// The context comes first and may be left out. What follows is the input: one value as it is, several as a tuple, none
/// as `()`. All are owned, since they are stored. `charge::call(ctx, order, amount)` calls the function itself, as a
/// unit test does.
///
/// | setting | meaning | unless given |
/// |---|---|---|
/// | `name = "…"` | the type's name, which holds across processes and releases | the function's name |
/// | `start_to_close = "30s"` | longest time for one attempt | the library's default |
/// | `schedule_to_start = "5m"` | longest wait until a worker picks it up | the library's default |
/// | `schedule_to_close = "1h"` | longest time for all attempts together | none |
/// | `heartbeat = "10s"` | longest time between two heartbeats | none |
/// | `attempts = 5` | attempts in all, the first included | the retry policy's |
/// | `retry = RetryPolicy::exponential()` | when it is tried again | the library's default |
/// | `priority = 3` | higher is claimed first | 0 |
/// | `exhausted = "park"` | what happens when no attempt is left: `"fail"` or `"park"` | `"fail"` |
/// | `transactional` | its own writes and its result commit as one | they do not |
/// | `crate = "path"` | where the library is found | `::everruns_durable` |
///
/// Durations are texts, checked when the program is compiled: `"250ms"`, `"30s"`, `"1h30m"`, `"2d"`, or ISO 8601
/// (`"PT10M"`).
#[proc_macro_attribute]
pub fn activity(arguments: TokenStream, item: TokenStream) -> TokenStream {
    activity::expand(arguments.into(), item.into()).into()
}

/// Makes a workflow of an `async fn`: a program that is durable at every await.
///
/// ```text
/// #[workflow(version = "1.2.0", run_timeout = "1d")]
/// async fn order(ctx: WorkflowContext, order: Order) -> WorkflowResult<Receipt> { … }
/// ```
///
/// The context comes first. What follows is the input: one value as it is, several as a tuple, none as `()`. All are
/// owned, since they are stored. `order::call(ctx, order)` calls the function itself, so that one workflow can run
/// another's body inline.
///
/// | setting | meaning | unless given |
/// |---|---|---|
/// | `name = "…"` | the type's name, which holds across processes and releases | the function's name |
/// | `version = "1.2.0"` | the version a run is pinned to, MAJOR.MINOR.PATCH | none |
/// | `execution_timeout = "7d"` | longest time for the run and all that continue it | none |
/// | `run_timeout = "1d"` | longest time for one run | none |
/// | `crate = "path"` | where the library is found | `::everruns_durable` |
#[proc_macro_attribute]
pub fn workflow(arguments: TokenStream, item: TokenStream) -> TokenStream {
    workflow::expand(arguments.into(), item.into()).into()
}
