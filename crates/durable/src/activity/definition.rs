//! What an activity is.

use async_trait::async_trait;
use durable_core::{ActivityError, ActivityOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ActivityContext;

/// What an activity answers. `?` on any error makes a failure that is retried by the policy;
/// [`ActivityError::non_retryable`] makes one that is not.
pub type ActivityResult<T> = Result<T, ActivityError>;

/// A unit of work that may fail and be tried again.
///
/// It runs at least once: a crash after its side effect and before its result is stored runs it again. Give what it
/// calls [`ActivityContext::idempotency_key`], so that the other side can tell a repeat.
///
/// ```
/// use everruns_durable::prelude::*;
///
/// struct Greet { greeting: String }
///
/// #[async_trait]
/// impl Activity for Greet {
///     const TYPE: &'static str = "greet";
///     type Input = String;
///     type Output = String;
///
///     async fn execute(&self, _ctx: &ActivityContext, name: String) -> ActivityResult<String> {
///         Ok(format!("{}, {name}!", self.greeting))
///     }
/// }
/// ```
#[async_trait]
pub trait Activity: Send + Sync + 'static {
    /// Name of the type; it holds across processes and releases.
    const TYPE: &'static str;

    /// Whether its own writes and its result commit as one: it writes in [`ActivityContext::transaction`], and is refused on a
    /// store that has none.
    const TRANSACTIONAL: bool = false;

    /// What it is given.
    type Input: Serialize + DeserializeOwned + Send;

    /// What it answers.
    type Output: Serialize + DeserializeOwned + Send;

    /// How it is run unless a call says otherwise.
    #[must_use]
    fn options() -> ActivityOptions
    where
        Self: Sized,
    {
        ActivityOptions::default()
    }

    /// Does the work. Called anew for each attempt.
    ///
    /// # Errors
    /// [`ActivityError`]: the attempt failed; the activity's retry policy decides what follows.
    async fn execute(
        &self,
        ctx: &ActivityContext,
        input: Self::Input,
    ) -> Result<Self::Output, ActivityError>;
}

/// What can be registered as an activity: a value that is one, or the function that `#[activity]` makes beside the type.
pub trait IntoActivity<Marker> {
    /// The activity's type.
    type Activity: Activity;

    /// The activity.
    fn into_activity(self) -> Self::Activity;
}

impl<A: Activity> IntoActivity<()> for A {
    type Activity = A;

    fn into_activity(self) -> A {
        self
    }
}

/// Tells the two implementations apart.
#[derive(Debug)]
pub enum FromFunction {}

impl<A: Activity, F: FnOnce() -> A> IntoActivity<(FromFunction, A)> for F {
    type Activity = A;

    fn into_activity(self) -> A {
        self()
    }
}
