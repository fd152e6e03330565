//! Can today's code carry on yesterday's runs?

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable_core::{HistoryError, ReplayError, ReplayMode, Replayer, effective_history};
use uuid::Uuid;

use super::History;
use crate::engine::panic_text;
use crate::workflow::{Birth, RunInfo, WorkflowDefinition, WorkflowRegistry};

/// A history that today's code replays.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// The run.
    pub run_id: Uuid,
    /// Which workflow.
    pub workflow_type: String,
    /// Events that were replayed.
    pub events: usize,
}

/// Why a history does not go with today's code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The text is no history.
    #[error(transparent)]
    Unreadable(#[from] crate::Error),
    /// Nobody here can replay it.
    #[error(
        "the history is of workflow {workflow_type:?} in version {version:?}, which is not registered here"
    )]
    NotRegistered {
        /// Which workflow.
        workflow_type: String,
        /// Which version; empty: none.
        version: String,
    },
    /// No run can have such a history.
    #[error("the history is malformed: {0}")]
    Malformed(#[from] HistoryError),
    /// The code asks for something else than the history records; the message has both sides, where in the code, and the way out.
    #[error("{0}")]
    Diverged(Box<ReplayError>),
    /// The code panicked.
    #[error("the workflow panicked: {0}")]
    Panicked(String),
}

/// Replays a recorded history ([`History::to_json`]) against today's code, inputs and options included.
///
/// ```no_run
/// # use everruns_durable::prelude::*;
/// # #[workflow]
/// # async fn order(ctx: WorkflowContext, n: u32) -> WorkflowResult<u32> { Ok(n) }
/// use everruns_durable::testing::verify;
///
/// let recorded = std::fs::read_to_string("tests/histories/order-A1.json")?;
/// verify::<order>(&recorded)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`VerifyError`]: the first difference.
pub fn verify<W: WorkflowDefinition>(json: &str) -> Result<Verified, VerifyError> {
    Verifier::new().workflow::<W>().history(json)
}

/// [`verify`] for every `*.json` of a folder: a gate for CI.
///
/// # Errors
/// [`Refused`]: all files that were refused, and why; also where there is none, since a gate without histories guards nothing.
pub fn verify_all<W: WorkflowDefinition>(
    folder: impl AsRef<Path>,
) -> Result<Vec<Verified>, Refused> {
    Verifier::new().workflow::<W>().folder(folder)
}

/// Replays recorded histories of several workflows.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Verifier {
    workflows: WorkflowRegistry,
}

impl Verifier {
    /// Knows no workflow yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Knows this workflow, in this version.
    pub fn workflow<W: WorkflowDefinition>(mut self) -> Self {
        self.workflows.register::<W>();
        self
    }

    /// Replays one history.
    ///
    /// # Errors
    /// As [`verify`].
    pub fn history(&self, json: &str) -> Result<Verified, VerifyError> {
        self.replay(&History::from_json(json)?)
    }

    /// Replays every `*.json` of a folder.
    ///
    /// # Errors
    /// As [`verify_all`].
    pub fn folder(&self, folder: impl AsRef<Path>) -> Result<Vec<Verified>, Refused> {
        let folder = folder.as_ref();
        let files = histories(folder).map_err(|error| Refused::of(folder, &error))?;
        if files.is_empty() {
            return Err(Refused::of(folder, &"there is no *.json in this folder"));
        }
        let mut verified = Vec::new();
        let mut refused = Vec::new();
        for file in files {
            let text = std::fs::read_to_string(&file);
            match text.map(|text| self.history(&text)) {
                Ok(Ok(one)) => verified.push(one),
                Ok(Err(error)) => refused.push((file, error.to_string())),
                Err(error) => refused.push((file, error.to_string())),
            }
        }
        if refused.is_empty() {
            Ok(verified)
        } else {
            Err(Refused { files: refused })
        }
    }

    /// The current iteration: it is what a new build would have to carry on.
    pub(crate) fn replay(&self, history: &History) -> Result<Verified, VerifyError> {
        let program =
            self.workflows
                .program(birth(history))
                .ok_or_else(|| VerifyError::NotRegistered {
                    workflow_type: history.workflow_type.clone(),
                    version: history.version.clone(),
                })?;
        let events = effective_history(history.log())?.events;
        let count = events.len();
        let replayed = catch_unwind(AssertUnwindSafe(|| {
            let mut replayer = Replayer::new(history.identity(), program, ReplayMode::Strict);
            for (sequence_num, event) in events {
                replayer.push(sequence_num, event)?;
            }
            // The last fact of a run that goes on may wait for its decision.
            if history.status.is_terminal() {
                replayer.finish().map(drop)
            } else {
                replayer.resume().map(drop)
            }
        }));
        match replayed {
            Ok(Ok(())) => Ok(Verified {
                run_id: history.run_id,
                workflow_type: history.workflow_type.clone(),
                events: count,
            }),
            Ok(Err(error)) => Err(VerifyError::Diverged(Box::new(error))),
            Err(panic) => Err(VerifyError::Panicked(panic_text(&*panic).to_owned())),
        }
    }
}

fn birth(history: &History) -> Birth {
    let began = history.created_at;
    Birth {
        info: RunInfo {
            run_id: history.run_id,
            workflow_type: history.workflow_type.clone(),
            version: history.version.clone(),
            parent_run_id: history.parent.as_ref().map(|parent| parent.run_id),
            attempt: history.epoch.saturating_add(1),
            iteration: history.iteration,
            workflow_id: history.business_id.clone(),
            memo: history.memo.clone(),
        },
        // Asked only behind the recorded end.
        clock: Arc::new(move || began),
    }
}

fn histories(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Files that were refused, and why. Its message names each of them.
#[derive(Debug)]
pub struct Refused {
    files: Vec<(PathBuf, String)>,
}

impl Refused {
    fn of(path: &Path, why: &impl ToString) -> Self {
        Self {
            files: vec![(path.to_owned(), why.to_string())],
        }
    }

    /// The files, each with its reason.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.files
            .iter()
            .map(|(file, why)| (file.as_path(), why.as_str()))
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} refused:", self.files.len())?;
        for (file, why) in self.files() {
            write!(f, "\n  {}: {why}", file.display())?;
        }
        Ok(())
    }
}

impl std::error::Error for Refused {}
