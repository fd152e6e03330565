//! Workflows: which ones an engine hosts.

use std::collections::BTreeMap;
use std::fmt;

use durable_core::{Program, TraitProgram, Workflow};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::persistence::model::HostedType;

/// Workflow code that an engine can host, whichever front door it was written for.
///
/// Implemented for every [`Workflow`]; nobody else needs to.
pub trait WorkflowDefinition: 'static {
    /// Name of the type.
    const TYPE: &'static str;

    /// Version that new runs are pinned to; empty: the type has none.
    const VERSION: &'static str = "";

    /// What a run is started with.
    type Input: Serialize + DeserializeOwned + Send;

    /// What a run ends with.
    type Output: Serialize + DeserializeOwned + Send;

    /// The code of a run that has not begun.
    fn program() -> Box<dyn Program>;
}

impl<W: Workflow> WorkflowDefinition for W {
    const TYPE: &'static str = <W as Workflow>::TYPE;
    type Input = <W as Workflow>::Input;
    type Output = <W as Workflow>::Output;

    fn program() -> Box<dyn Program> {
        Box::new(TraitProgram::<W>::new())
    }
}

type Factory = fn() -> Box<dyn Program>;

/// Workflows by type and version.
#[derive(Clone, Default)]
pub struct WorkflowRegistry {
    by_type: BTreeMap<HostedType, Factory>,
}

impl WorkflowRegistry {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a workflow; one of the same type and version is replaced.
    pub fn register<W: WorkflowDefinition>(&mut self) {
        let hosted = HostedType {
            workflow_type: W::TYPE.to_owned(),
            version: W::VERSION.to_owned(),
        };
        self.by_type.insert(hosted, W::program);
    }

    /// Types and versions, in order.
    #[must_use]
    pub fn hosted(&self) -> Vec<HostedType> {
        self.by_type.keys().cloned().collect()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_type.is_empty()
    }

    /// Whether a type is hosted in this version.
    #[must_use]
    pub fn hosts(&self, workflow_type: &str, version: &str) -> bool {
        self.factory(workflow_type, version).is_some()
    }

    /// The newest version of a type: what a new run of it is pinned to.
    #[must_use]
    pub fn newest(&self, workflow_type: &str) -> Option<&str> {
        self.by_type
            .keys()
            .rev()
            .find(|hosted| hosted.workflow_type == workflow_type)
            .map(|hosted| hosted.version.as_str())
    }

    pub(crate) fn program(&self, workflow_type: &str, version: &str) -> Option<Box<dyn Program>> {
        self.factory(workflow_type, version).map(|make| make())
    }

    fn factory(&self, workflow_type: &str, version: &str) -> Option<Factory> {
        let key = HostedType {
            workflow_type: workflow_type.to_owned(),
            version: version.to_owned(),
        };
        self.by_type.get(&key).copied()
    }
}

impl fmt::Debug for WorkflowRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_type.keys()).finish()
    }
}
