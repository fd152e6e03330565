//! Workflows: how they are written, and which ones an engine hosts.
//!
//! Two front doors: the [`Workflow`] trait, a state machine; and an `async fn` with a [`WorkflowContext`], made a workflow by
//! `#[workflow]` or by hand with [`function_program`]. Behind both is a [`Program`].

mod activity;
mod attributes;
mod child;
mod context;
mod function;
mod local;
mod question;
mod saga;
mod select;
mod signal;
mod single;
mod sleep;
mod state;
mod update;
mod version;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use activity::ActivityCall;
pub use child::ChildCall;
pub use context::WorkflowContext;
pub use durable_core::function::{Birth, RunInfo, Scope};
pub use durable_core::{Program, Workflow};
pub use function::{WorkflowResult, function_program};
pub use local::LocalActivityCall;
pub(crate) use question::{ANSWER, Answer, Question, question_type};
pub use saga::Saga;
pub use signal::{SignalCall, SignalOrTimeout};
pub use single::{ActivityRequest, ActivityRun};
pub use sleep::{Sleep, Span};
pub use state::State;
pub use update::UpdateSetup;

use durable_core::TraitProgram;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::hosting::{Attached, WorkflowHosts};
use crate::persistence::model::HostedType;

/// Workflow code that an engine can host, whichever front door it was written for.
///
/// Implemented for every [`Workflow`], and by `#[workflow]` for an `async fn`. By hand:
///
/// ```
/// use everruns_durable::prelude::*;
/// use everruns_durable::workflow::{Birth, Program, WorkflowDefinition, function_program};
///
/// struct Nap;
///
/// impl WorkflowDefinition for Nap {
///     const TYPE: &'static str = "nap";
///     type Input = String;
///     type Output = String;
///
///     fn program(birth: Birth) -> Box<dyn Program> {
///         function_program::<Self, _, _>(birth, |ctx: WorkflowContext, name: String| async move {
///             ctx.sleep("PT0.01S").await?;
///             Ok(format!("{name} is awake"))
///         })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> everruns_durable::Result<()> {
/// let engine = Engine::in_memory().workflow::<Nap>().start().await?;
/// assert_eq!(engine.run::<Nap>("Ann".to_owned()).await?, "Ann is awake");
/// # engine.shutdown().await
/// # }
/// ```
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
    fn program(birth: Birth) -> Box<dyn Program>;

    /// What its runs have unless they are started with something else.
    #[must_use]
    fn defaults() -> RunDefaults {
        RunDefaults::default()
    }
}

/// What the runs of a workflow have unless they are started with something else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunDefaults {
    /// Time for a run, all its iterations together.
    pub execution_timeout: Option<Duration>,
    /// Time for each iteration.
    pub run_timeout: Option<Duration>,
}

impl<W: Workflow> WorkflowDefinition for W {
    const TYPE: &'static str = <W as Workflow>::TYPE;
    type Input = <W as Workflow>::Input;
    type Output = <W as Workflow>::Output;

    fn program(_birth: Birth) -> Box<dyn Program> {
        Box::new(TraitProgram::<W>::new())
    }
}

type Factory = fn(Birth) -> Box<dyn Program>;

/// Workflows by type and version.
#[derive(Clone, Default)]
pub struct WorkflowRegistry {
    by_type: BTreeMap<HostedType, Factory>,
    /// Takes every type that has no code of its own.
    dynamic: Option<Factory>,
    /// Types whose code is in other processes; the same for all clones.
    elsewhere: Arc<WorkflowHosts>,
}

impl WorkflowRegistry {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What every engine hosts: [`ActivityRun`].
    #[must_use]
    pub fn with_built_in() -> Self {
        let mut registry = Self::new();
        registry.register::<single::AnyActivityRun>();
        registry
    }

    /// Adds a workflow; one of the same type and version is replaced.
    pub fn register<W: WorkflowDefinition>(&mut self) {
        let hosted = HostedType {
            workflow_type: W::TYPE.to_owned(),
            version: W::VERSION.to_owned(),
        };
        self.by_type.insert(hosted, W::program);
    }

    /// Adds the workflow that takes every type, in every version, that is not registered by name.
    pub fn register_dynamic<W: WorkflowDefinition>(&mut self) {
        self.dynamic = Some(W::program);
    }

    /// Whether types that are not registered by name are taken too.
    #[must_use]
    pub const fn takes_any(&self) -> bool {
        self.dynamic.is_some()
    }

    /// Types and versions whose code is here, in order.
    #[must_use]
    pub fn hosted(&self) -> Vec<HostedType> {
        self.by_type.keys().cloned().collect()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_type.is_empty() && self.dynamic.is_none() && self.elsewhere.is_empty()
    }

    /// Whether a type is hosted in this version: its code is here, or in a process that is attached here.
    #[must_use]
    pub fn hosts(&self, workflow_type: &str, version: &str) -> bool {
        self.factory(workflow_type, version).is_some()
            || self.elsewhere.pick(workflow_type, version).is_some()
    }

    /// The hosts of code in other processes.
    pub(crate) fn elsewhere(&self) -> &Arc<WorkflowHosts> {
        &self.elsewhere
    }

    /// The host of a type whose code is not here.
    pub(crate) fn elsewhere_for(
        &self,
        workflow_type: &str,
        version: &str,
    ) -> Option<Arc<Attached>> {
        let here = self.factory(workflow_type, version).is_some();
        if here {
            None
        } else {
            self.elsewhere.pick(workflow_type, version)
        }
    }

    /// The newest version of a type, in the order of semantic versions: what a new run of it is pinned to.
    #[must_use]
    pub fn newest(&self, workflow_type: &str) -> Option<String> {
        let of_type = self.by_type.keys();
        let of_type = of_type.filter(|hosted| hosted.workflow_type == workflow_type);
        let here = of_type.map(|hosted| hosted.version.clone());
        here.chain(self.elsewhere.versions(workflow_type))
            .max_by(|a, b| version::compare(a, b))
    }

    /// Whose turns are taken here, by the code of this process: the types that are hosted, and the questions to runs of all types, wherever their code is.
    pub(crate) fn turned(&self) -> Vec<HostedType> {
        let mut turned = self.hosted();
        let asked = self.hosted().into_iter().chain(self.elsewhere.hosted());
        turned.extend(asked.map(|hosted| HostedType {
            workflow_type: question_type(&hosted.workflow_type),
            version: hosted.version,
        }));
        turned
    }

    pub(crate) fn program(&self, birth: Birth) -> Option<Box<dyn Program>> {
        let info = &birth.info;
        let make = self.factory(&info.workflow_type, &info.version)?;
        Some(make(birth))
    }

    fn factory(&self, workflow_type: &str, version: &str) -> Option<Factory> {
        if let Some(asked) = question::asked_type(workflow_type) {
            // Whoever hosts a workflow answers for its runs.
            let answers: Factory = question::QuestionRun::program;
            return self.hosts(asked, version).then_some(answers);
        }
        let key = HostedType {
            workflow_type: workflow_type.to_owned(),
            version: version.to_owned(),
        };
        self.by_type.get(&key).copied().or(self.dynamic)
    }
}

impl fmt::Debug for WorkflowRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_type.keys()).finish()
    }
}
