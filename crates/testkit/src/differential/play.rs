//! Playing steps on two stores.

use std::sync::Arc;

use everruns_durable::persistence::WorkflowEventStore;
use everruns_durable::persistence::model::AuditNote;
use uuid::Uuid;

use crate::audit::{Scope, audit_within};

use super::coverage::Coverage;
use super::difference::{self, Difference};
use super::intent::Step;
use super::pair::{Opened, Pair};
use super::request::Request;
use super::session::Session;

/// Two stores in the middle of a replay.
pub(crate) struct Play {
    opened: Opened,
    pub(crate) session: Session,
    pub(crate) coverage: Coverage,
}

/// When the whole content is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dumps {
    /// After each step from this place in the list on.
    From(usize),
    /// Only after the last one.
    AtTheEnd,
}

/// A difference and the step that showed it.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// Place of the step in the list that was played.
    pub(crate) at: usize,
    /// Whether the content differed, not the answer.
    pub(crate) in_dump: bool,
    pub(crate) difference: Difference,
}

impl Play {
    /// Two fresh stores.
    pub(crate) async fn open(pair: &Pair, shards: u16) -> anyhow::Result<Self> {
        Ok(Self {
            opened: pair.open(shards).await?,
            session: Session::default(),
            coverage: Coverage::default(),
        })
    }

    /// The store whose answers the session learns from.
    pub(crate) fn first(&self) -> &dyn WorkflowEventStore {
        self.opened.first.store.as_ref()
    }

    /// Sends one step to both; the difference of the answers, if there is one.
    pub(crate) async fn step(&mut self, step: &Step) -> (Request, Option<Difference>) {
        let request = self.session.resolve(step, self.first()).await;
        let (first, second) = (&self.opened.first.store, &self.opened.second.store);
        let first = request.send(&*noted(first, step), step.now).await;
        let second = request.send(&*noted(second, step), step.now).await;
        self.coverage.count(&request, &first);
        self.session.learn(step.number, &request, &first);
        let difference = difference::of_answers(request.method(), &first, &second);
        (request, difference)
    }

    /// Compares all that both hold; what they agree on must stand the audit too, or they are wrong alike.
    pub(crate) async fn compare(&mut self) -> anyhow::Result<Option<Difference>> {
        let first = self.first().dump().await?;
        let second = self.opened.second.store.dump().await?;
        self.coverage.look(&first);
        let difference = difference::of_dumps(&first, &second);
        Ok(difference.or_else(|| difference::of_audit(&audit_within(&first, Scope::Rows))))
    }
}

/// The store for a step: every other one is somebody's, so that what it changes leaves audit rows, which the dumps have.
fn noted(store: &Arc<dyn WorkflowEventStore>, step: &Step) -> Arc<dyn WorkflowEventStore> {
    if step.number.is_multiple_of(2) {
        return Arc::clone(store);
    }
    let request = Uuid::from_u128(step.number as u128);
    let note = AuditNote {
        now: Some(step.now),
        ..AuditNote::new(request, "alice", "operator", "step")
    };
    let view = store.audited(note.into()).expect("the note fits");
    view.expect("the stores that are compared keep an audit")
}

/// Plays steps on fresh stores until they differ. With `requests`, also collects the calls made.
pub(crate) async fn replay(
    pair: &Pair,
    shards: u16,
    steps: &[Step],
    dumps: Dumps,
    mut requests: Option<&mut Vec<Request>>,
) -> anyhow::Result<Option<Found>> {
    let mut play = Play::open(pair, shards).await?;
    for (at, step) in steps.iter().enumerate() {
        let (request, difference) = play.step(step).await;
        if let Some(requests) = requests.as_deref_mut() {
            requests.push(request);
        }
        if let Some(difference) = difference {
            return Ok(Some(Found {
                at,
                in_dump: false,
                difference,
            }));
        }
        let compare = match dumps {
            Dumps::From(first) => at >= first,
            Dumps::AtTheEnd => at + 1 == steps.len(),
        };
        if compare && let Some(difference) = play.compare().await? {
            return Ok(Some(Found {
                at,
                in_dump: true,
                difference,
            }));
        }
    }
    Ok(None)
}
