//! The two stores that are compared.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::flavour::Kind;
use crate::{Flavour, StoreUnderTest};

type Opening = Pin<Box<dyn Future<Output = anyhow::Result<StoreUnderTest>> + Send>>;

/// A store that can be opened fresh and empty, as often as it takes.
#[derive(Clone)]
pub struct Subject {
    name: String,
    open: Arc<dyn Fn(u16) -> Opening + Send + Sync>,
}

impl Subject {
    /// A store of one's own, opened with so many shards.
    pub fn new<F, O>(name: impl Into<String>, open: O) -> Self
    where
        F: Future<Output = anyhow::Result<StoreUnderTest>> + Send + 'static,
        O: Fn(u16) -> F + Send + Sync + 'static,
    {
        Self {
            name: name.into(),
            open: Arc::new(move |shards| Box::pin(open(shards))),
        }
    }

    /// One of the stores of this project.
    #[must_use]
    pub fn of_kind(kind: Kind) -> Self {
        let name = Flavour { kind, shards: 1 }.name();
        Self::new(name, move |shards| Flavour { kind, shards }.open())
    }
}

/// The two stores that are compared.
#[derive(Clone)]
pub struct Pair {
    /// The one that is believed: what it grants is what later steps use.
    pub first: Subject,
    /// The other one.
    pub second: Subject,
}

/// Both, fresh and empty.
pub(crate) struct Opened {
    pub(crate) first: StoreUnderTest,
    pub(crate) second: StoreUnderTest,
}

impl Pair {
    /// Their names, as the command takes them.
    #[must_use]
    pub fn names(&self) -> String {
        format!("{},{}", self.first.name, self.second.name)
    }

    pub(crate) async fn open(&self, shards: u16) -> anyhow::Result<Opened> {
        Ok(Opened {
            first: (self.first.open)(shards).await?,
            second: (self.second.open)(shards).await?,
        })
    }
}
