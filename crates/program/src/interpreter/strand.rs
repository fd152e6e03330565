//! A line of steps: the program, one of its branches, or what cleans up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everruns_durable::prelude::WorkflowContext;

use super::whereabouts::StrandId;

/// Asks a part of a program to stop. What is cancelled includes all that was made from it.
#[derive(Clone, Default)]
pub(super) struct Token(Arc<Node>);

#[derive(Default)]
struct Node {
    cancelled: AtomicBool,
    parent: Option<Token>,
}

impl Token {
    pub(super) fn child(&self) -> Self {
        Self(Arc::new(Node {
            cancelled: AtomicBool::new(false),
            parent: Some(self.clone()),
        }))
    }

    /// Nobody is woken: who cancels polls what it cancelled.
    pub(super) fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        let parents = std::iter::successors(Some(self), |token| token.0.parent.as_ref());
        parents
            .into_iter()
            .any(|token| token.0.cancelled.load(Ordering::Relaxed))
    }
}

/// Where steps run.
#[derive(Clone)]
pub(super) struct Strand {
    id: StrandId,
    token: Token,
    /// Whether it goes on when the run is asked to stop.
    shielded: bool,
}

impl Strand {
    /// The program's own.
    pub(super) fn main() -> Self {
        Self {
            id: StrandId::MAIN,
            token: Token::default(),
            shielded: false,
        }
    }

    /// A branch of it.
    pub(super) fn branch(&self, id: StrandId) -> Self {
        Self {
            id,
            ..self.cancellable()
        }
    }

    /// A part of it that can be cancelled alone.
    pub(super) fn cancellable(&self) -> Self {
        Self {
            token: self.token.child(),
            ..self.clone()
        }
    }

    /// What cleans up: nothing that happens outside cancels it.
    pub(super) fn shielded(&self) -> Self {
        Self {
            id: self.id,
            token: Token::default(),
            shielded: true,
        }
    }

    pub(super) const fn id(&self) -> StrandId {
        self.id
    }

    pub(super) const fn token(&self) -> &Token {
        &self.token
    }

    pub(super) const fn is_shielded(&self) -> bool {
        self.shielded
    }

    pub(super) fn is_cancelled(&self, ctx: &WorkflowContext) -> bool {
        self.token.is_cancelled() || (!self.shielded && ctx.is_cancelled())
    }
}
