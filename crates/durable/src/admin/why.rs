//! What a run waits for.

use std::fmt;

use durable_core::{CircuitState, Failure, Timestamp};
use uuid::Uuid;

use crate::persistence::SetAside;
use crate::persistence::model::{TaskStatus, WorkflowStatus};

/// Why a run is where it is. Made by [`Client::why`](crate::Client::why).
#[derive(Debug, Clone, PartialEq)]
pub struct Why {
    /// The run.
    pub run_id: Uuid,
    /// Where it stands.
    pub status: WorkflowStatus,
    /// Where its code waits, if it is hosted here and says so: a file and a line.
    pub code: Option<String>,
    /// Everything it waits for; any of them may be what comes next. What holds the rest back comes first.
    pub waits: Vec<Wait>,
}

/// One thing that a run waits for. As text it is a sentence.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Wait {
    /// Nothing: the run has ended.
    Ended {
        /// How.
        status: WorkflowStatus,
    },
    /// Another build: this one could not take its turn.
    Blocked {
        /// The build that could not.
        build: String,
        /// Why.
        reason: String,
    },
    /// A deadline, timer, task, lease or message of the run, which the store could not handle and
    /// this process has set aside.
    SetAside(SetAside),
    /// Its turn, which somebody has to take.
    Turn {
        /// Since when it is due.
        since: Timestamp,
        /// Who is about to take it.
        owner: Option<String>,
        /// Whether a live process hosts the workflow.
        hosted: bool,
    },
    /// An activity.
    Activity(Box<ActivityWait>),
    /// Time to pass.
    Timer {
        /// The timer.
        timer_id: String,
        /// When it fires.
        fires_at: Option<Timestamp>,
    },
    /// A signal.
    Signal {
        /// Its name.
        name: String,
    },
    /// A child.
    Child {
        /// The name it has here.
        child_id: String,
        /// Its run.
        run_id: Uuid,
        /// Where that stands; none: it is about to be started.
        status: Option<WorkflowStatus>,
    },
    /// Its own answer to an update.
    Update {
        /// The update.
        update_id: String,
    },
    /// A person.
    HumanTask {
        /// The task.
        task_id: String,
    },
    /// A condition over its own state, which a signal or an update may bring about.
    Condition {
        /// What it is, where the code says so ([`Until::described`](durable_core::function::Until::described)).
        what: Option<String>,
    },
    /// What only its code knows, perhaps: a signal, an update.
    Unknown {
        /// Why the code cannot be asked, or does not say.
        reason: String,
    },
}

/// An activity that a run waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct ActivityWait {
    /// The activity's id within the run.
    pub activity_id: String,
    /// Which activity.
    pub activity_type: String,
    /// Its task; also its dead letter, if it has one.
    pub task_id: Uuid,
    /// Where the task stands.
    pub status: TaskStatus,
    /// The attempt under way, or the one that comes next.
    pub attempt: u32,
    /// Attempts it may have.
    pub max_attempts: u32,
    /// Since when it is in the queue, or a worker has it.
    pub since: Timestamp,
    /// When something happens to it by the clock: it may be claimed again, or its time is up.
    pub next_at: Option<Timestamp>,
    /// Who has it.
    pub claimed_by: Option<String>,
    /// How the last attempt failed.
    pub last_error: Option<Failure>,
    /// The activity of the same run that stands before it in the line.
    pub behind: Option<String>,
    /// The breaker that guards it and where that stands, unless it is closed.
    pub breaker: Option<(String, CircuitState)>,
    /// Whether a live worker runs this type.
    pub hosted: bool,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended { status } => write!(f, "nothing: the run has ended ({status})"),
            Self::Blocked { build, reason } => {
                write!(
                    f,
                    "other code: build {build} could not take its turn: {reason}"
                )
            }
            Self::SetAside(aside) => {
                let (kind, attempts) = (aside.kind.as_str(), aside.attempts);
                let (next_try, reason) = (aside.next_try, &aside.reason);
                write!(
                    f,
                    "its {kind}, which failed {attempts} times and is tried again at {next_try}: {reason}"
                )
            }
            Self::Turn { hosted: false, .. } => {
                write!(
                    f,
                    "its turn, and no live process hosts the workflow; start a worker that does"
                )
            }
            Self::Turn {
                since,
                owner: Some(owner),
                ..
            } => {
                write!(
                    f,
                    "its turn, due since {since}, which {owner} is about to take"
                )
            }
            Self::Turn {
                since, owner: None, ..
            } => write!(f, "its turn, due since {since}"),
            Self::Activity(wait) => wait.fmt(f),
            Self::Timer {
                timer_id,
                fires_at: Some(at),
            } => write!(f, "timer {timer_id}, which fires at {at}"),
            Self::Timer {
                timer_id,
                fires_at: None,
            } => write!(f, "timer {timer_id}"),
            Self::Signal { name } => write!(f, "signal {name:?}"),
            Self::Child {
                child_id,
                run_id,
                status,
            } => match status {
                Some(status) => write!(f, "child {child_id:?}, run {run_id} ({status})"),
                None => write!(
                    f,
                    "child {child_id:?}, run {run_id}, which is about to be started"
                ),
            },
            Self::Update { update_id } => write!(f, "its own answer to update {update_id}"),
            Self::HumanTask { task_id } => write!(f, "a person's decision about {task_id}"),
            Self::Condition { what: Some(what) } => f.write_str(what),
            Self::Condition { what: None } => f.write_str(
                "a condition over its own state, which a signal or an update may bring about",
            ),
            Self::Unknown { reason } => {
                write!(
                    f,
                    "what only its code knows, perhaps a signal or an update: {reason}"
                )
            }
        }
    }
}

impl fmt::Display for ActivityWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            activity_type,
            activity_id,
            attempt,
            max_attempts,
            since,
            ..
        } = self;
        write!(f, "activity {activity_type:?} ({activity_id})")?;
        let by = |at: Option<Timestamp>| at.map_or_else(String::new, |at| format!(" until {at}"));
        match self.status {
            TaskStatus::Pending if !self.hosted => {
                write!(
                    f,
                    ", queued since {since}; no live worker runs this type, start one that does"
                )
            }
            TaskStatus::Pending => write!(
                f,
                ", queued since {since}, attempt {attempt} of {max_attempts}"
            ),
            TaskStatus::InLine => match &self.behind {
                Some(behind) => write!(f, ", in line behind {behind}"),
                None => write!(f, ", in line"),
            },
            TaskStatus::Delayed => {
                write!(
                    f,
                    ", attempt {attempt} of {max_attempts} waits{}",
                    by(self.next_at)
                )
            }
            TaskStatus::Parked => match &self.breaker {
                Some((key, _)) => write!(
                    f,
                    ", held back by circuit breaker {key:?}{}",
                    by(self.next_at)
                ),
                None => write!(f, ", held back by its rate limit{}", by(self.next_at)),
            },
            TaskStatus::Claimed => {
                let who = self.claimed_by.as_deref().unwrap_or("a worker");
                write!(
                    f,
                    ", attempt {attempt} of {max_attempts} runs on {who} since {since}"
                )
            }
            TaskStatus::Dead => {
                let letter = self.task_id;
                write!(
                    f,
                    ", which has no attempt left; dead letter {letter} has to be decided"
                )
            }
        }?;
        match &self.last_error {
            Some(error) => write!(f, "; the last attempt failed: {error}"),
            None => Ok(()),
        }
    }
}
