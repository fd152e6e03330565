//! The server's side: a call in, an answer out.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;

use super::calls::{Door, Method, carry_out};
use super::touch::Touched;
use super::wire::{Failed, Mistake, write};
use crate::persistence::{StoreError, StoreResult, WorkflowEventStore};

/// Says whether a caller may do what a call is about to do. By door it may already.
#[async_trait]
pub trait Permit: Send + Sync {
    /// Refuses what is out of reach ([`StoreError::Denied`]) or wrong ([`StoreError::Invalid`]).
    async fn permit(&self, method: Method, touched: &[Touched<'_>]) -> StoreResult<()>;
}

/// Answers calls from a store.
#[derive(Clone)]
pub struct Answerer {
    store: Arc<dyn WorkflowEventStore>,
}

impl Answerer {
    /// Answers from this store.
    #[must_use]
    pub fn new(store: Arc<dyn WorkflowEventStore>) -> Self {
        Self { store }
    }

    /// Carries a call out that came through this door, and answers in the wire's form: the result, or the contract's own error.
    ///
    /// # Errors
    /// [`Mistake`] where the call cannot be read; nothing was done then.
    pub async fn answer(
        &self,
        door: Door,
        method: &str,
        body: &[u8],
        permit: &dyn Permit,
    ) -> Result<Vec<u8>, Mistake> {
        let known = Method::parse(method);
        let known = known.ok_or_else(|| Mistake::unknown_method(method))?;
        if !known.doors().contains(&door) {
            let why = format!("{method} does not go through {}", door.name());
            return Ok(answered::<()>(Err(StoreError::Denied(why))));
        }
        let through = Through { door, permit };
        carry_out(&*self.store, known, body, &through).await
    }
}

/// The rule of turns, before the permit's own.
struct Through<'a> {
    door: Door,
    permit: &'a dyn Permit,
}

#[async_trait]
impl Permit for Through<'_> {
    async fn permit(&self, method: Method, touched: &[Touched<'_>]) -> StoreResult<()> {
        // Who runs tasks may not reset runs, and who resets them may not take their turns.
        let resets = |touched: &Touched<'_>| match touched {
            Touched::Turn { resets, .. } => Some(*resets),
            _ => None,
        };
        let is_start = |touched: &Touched<'_>| matches!(touched, Touched::Start(_));
        if method == Method::commit_turns && touched.iter().any(is_start) {
            return Err(StoreError::Denied(format!(
                "a turn does not start its run from here; start it through {} first",
                Door::Start.name()
            )));
        }
        let operates = self.door == Door::Operate;
        if touched
            .iter()
            .filter_map(resets)
            .any(|resets| resets != operates)
        {
            return Err(StoreError::Denied(format!(
                "{} does not go through {}: turns that reset a run go through {}, all others through {}; send them apart",
                method.name(),
                self.door.name(),
                Door::Operate.name(),
                Door::Work.name()
            )));
        }
        self.permit.permit(method, touched).await
    }
}

/// An answer's document.
pub(super) fn answered<T: Serialize>(answer: StoreResult<T>) -> Vec<u8> {
    let answer = write(&answer.map_err(Failed::from));
    answer.unwrap_or_else(|error| {
        // What the store answers has a form; should it not, the caller is told so and asks no more.
        let failed: Result<(), Failed> = Err(Failed::Other(error.to_string()));
        write(&failed).unwrap_or_default()
    })
}
