//! Racing branches.

/// Waits for the first of several branches; the others are dropped, which gives up what they waited for.
///
/// Written as tokio's: `pattern = future => body`, but always in order: of two branches that are ready the first one wins, now
/// and on every replay. (tokio's own `select!` begins with a random branch, so that a replay may come to another winner; `biased;`,
/// which asks it not to, may be written here and changes nothing.)
///
/// ```
/// use everruns_durable::prelude::*;
///
/// #[workflow]
/// async fn approval(ctx: WorkflowContext, _order: String) -> WorkflowResult<String> {
///     select! {
///         decision = ctx.signal::<String>("decision") => decision,
///         slept = ctx.sleep("PT24H") => slept.map(|()| "nobody answered".to_owned()),
///     }
/// }
/// ```
#[macro_export]
macro_rules! select {
    // Written by those who know tokio's; here it says nothing new.
    (biased; $($branches:tt)*) => {
        $crate::macro_support::tokio::select! { biased; $($branches)* }
    };
    ($($branches:tt)*) => {
        $crate::macro_support::tokio::select! { biased; $($branches)* }
    };
}
