//! Which activities a worker runs.

use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use durable_core::{ActivityError, Failure, Payload, error_types};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Activity, ActivityContext};

/// An activity behind its name: payload in, payload out.
#[async_trait]
pub(crate) trait AnyActivity: Send + Sync + 'static {
    async fn call(&self, ctx: ActivityContext, input: Payload) -> Result<Payload, ActivityError>;

    /// See [`Activity::TRANSACTIONAL`].
    fn is_transactional(&self) -> bool {
        false
    }
}

/// Activities by type.
#[derive(Clone, Default)]
pub struct ActivityRegistry {
    by_type: BTreeMap<String, Arc<dyn AnyActivity>>,
    /// Takes every type that has no code of its own.
    dynamic: Option<Arc<dyn AnyActivity>>,
}

impl ActivityRegistry {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an activity; one of the same type is replaced.
    pub fn register<A: Activity>(&mut self, activity: A) {
        self.by_type
            .insert(A::TYPE.to_owned(), Arc::new(OfTrait(activity)));
    }

    /// Adds an async closure; one of the same type is replaced.
    pub fn register_fn<F, I, O, Fut>(&mut self, activity_type: impl Into<String>, function: F)
    where
        F: Fn(ActivityContext, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, ActivityError>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
    {
        let erased = OfClosure {
            function,
            signature: PhantomData::<fn(I) -> O>,
        };
        self.by_type.insert(activity_type.into(), Arc::new(erased));
    }

    /// Adds the activity that takes every type that is not registered by name; [`ActivityContext::activity_type`] tells which it is.
    pub fn register_dynamic<A: Activity>(&mut self, activity: A) {
        self.dynamic = Some(Arc::new(OfTrait(activity)));
    }

    /// Whether types that are not registered by name are taken too.
    #[must_use]
    pub fn takes_any(&self) -> bool {
        self.dynamic.is_some()
    }

    /// The types, in order.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        self.by_type.keys().map(String::as_str)
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_type.is_empty() && self.dynamic.is_none()
    }

    /// Whether it has this type.
    #[must_use]
    pub fn contains(&self, activity_type: &str) -> bool {
        self.takes_any() || self.by_type.contains_key(activity_type)
    }

    pub(crate) fn get(&self, activity_type: &str) -> Option<Arc<dyn AnyActivity>> {
        let by_name = self.by_type.get(activity_type);
        by_name.or(self.dynamic.as_ref()).cloned()
    }
}

impl std::fmt::Debug for ActivityRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.types()).finish()
    }
}

struct OfTrait<A>(A);

#[async_trait]
impl<A: Activity> AnyActivity for OfTrait<A> {
    async fn call(&self, ctx: ActivityContext, input: Payload) -> Result<Payload, ActivityError> {
        let input = read(A::TYPE, &input)?;
        let output = self.0.execute(&ctx, input).await?;
        write(A::TYPE, &output)
    }

    fn is_transactional(&self) -> bool {
        A::TRANSACTIONAL
    }
}

struct OfClosure<F, I, O> {
    function: F,
    signature: PhantomData<fn(I) -> O>,
}

#[async_trait]
impl<F, I, O, Fut> AnyActivity for OfClosure<F, I, O>
where
    F: Fn(ActivityContext, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ActivityError>> + Send + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
{
    async fn call(&self, ctx: ActivityContext, input: Payload) -> Result<Payload, ActivityError> {
        let activity_type = ctx.activity_type().to_owned();
        let input = read(&activity_type, &input)?;
        let output = (self.function)(ctx, input).await?;
        write(&activity_type, &output)
    }
}

/// Another attempt would be given the same input: not retryable.
fn read<T: DeserializeOwned>(activity_type: &str, input: &Payload) -> Result<T, ActivityError> {
    input.to_value().map_err(|error| {
        let message = format!("input of activity {activity_type}: {error}");
        ActivityError::from_failure(
            Failure::new(error_types::INVALID_INPUT, message).non_retryable(),
        )
    })
}

fn write<T: Serialize>(activity_type: &str, output: &T) -> Result<Payload, ActivityError> {
    Payload::from_value(output).map_err(|error| {
        let message = format!("result of activity {activity_type}: {error}");
        ActivityError::from_failure(
            Failure::new(error_types::INVALID_OUTPUT, message).non_retryable(),
        )
    })
}
