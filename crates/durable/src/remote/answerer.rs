//! The server's side: a call in, an answer out.

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::calls::{Door, Method, carry_out};
use super::touch::{Touched, Touches};
use super::wire::{Failed, Mistake, read, write};
use crate::client::Client;
use crate::persistence::{StoreError, StoreResult};

/// Says whether a caller may do what a call is about to do. By door it may already.
#[async_trait]
pub trait Permit: Send + Sync {
    /// Refuses what is out of reach ([`StoreError::Denied`]) or wrong ([`StoreError::Invalid`]).
    async fn permit(&self, method: Method, touched: &[Touched<'_>]) -> StoreResult<()>;
}

/// Answers calls from the store of a client, which starts runs as it would start its own.
#[derive(Clone)]
pub struct Answerer {
    client: Client,
}

impl Answerer {
    /// Answers from the store of this client.
    #[must_use]
    pub const fn of(client: Client) -> Self {
        Self { client }
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
        let client = &self.client;
        // What more is known, and to be told, than the store does by itself.
        match known {
            Method::start_runs => {
                let start = async |(starts, now)| client.start_all(starts, now).await;
                carried(known, body, &through, start).await
            }
            Method::commit_turns => {
                let commit = async |(turns, now)| client.commit_all(turns, now).await;
                carried(known, body, &through, commit).await
            }
            Method::await_run => {
                let wait = async |(run_id, max)| client.await_run(run_id, max).await;
                carried(known, body, &through, wait).await
            }
            _ => carry_out(&**client.store(), known, body, &through).await,
        }
    }
}

/// Does what a call asks for, once the permit has seen what it touches.
async fn carried<A: DeserializeOwned + Touches, T: Serialize>(
    method: Method,
    body: &[u8],
    permit: &dyn Permit,
    call: impl AsyncFnOnce(A) -> StoreResult<T>,
) -> Result<Vec<u8>, Mistake> {
    let arguments: A = read(method.name(), body)?;
    let mut touched = Vec::new();
    arguments.touches(&mut touched);
    if let Err(error) = permit.permit(method, &touched).await {
        return Ok(answered::<T>(Err(error)));
    }
    drop(touched);
    Ok(answered(call(arguments).await))
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
