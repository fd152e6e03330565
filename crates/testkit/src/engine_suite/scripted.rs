//! A workflow that does what its input says: steps, one after the other.

use std::sync::Arc;
use std::time::Duration;

use everruns_durable::activity::ActivityContext;
use everruns_durable::engine::EngineBuilder;
use everruns_durable::prelude::*;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// What a scripted run does.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Script {
    /// One after the other; the run completes after the last with the results so far.
    pub steps: Vec<Step>,
    /// Steps to take after a request to stop, before the run ends cancelled.
    #[serde(default)]
    pub cleanup: Vec<Step>,
    /// Whether requests to stop are taken note of.
    #[serde(default)]
    pub heeds_cancel: bool,
    /// A failed activity is written down instead of failing the run.
    #[serde(default)]
    pub tolerates_failure: bool,
}

/// One step.
#[allow(
    clippy::large_enum_variant,
    reason = "a test's script: boxes would only make it harder to write"
)]
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Step {
    /// Runs an activity and waits for it.
    Activity {
        /// Which.
        name: String,
        /// Its input.
        input: Value,
        /// How.
        #[serde(default)]
        options: ActivityOptions,
    },
    /// Runs several activities side by side and waits for all.
    Parallel {
        /// Which activity.
        name: String,
        /// How many times; the input is the number.
        count: usize,
    },
    /// Asks for several activities at once, in the run's line, and waits for all.
    Line {
        /// Which activity.
        name: String,
        /// How many; the input is the number.
        count: usize,
    },
    /// Asks for these activities at once, in the run's line, and waits for all.
    LineOf {
        /// Which; the input is the place, from 0.
        names: Vec<String>,
    },
    /// Asks for two activities at once, in the run's line, each by a step of its own, and waits for both.
    Line2 {
        /// The first: an activity.
        head: Box<Step>,
        /// The second: an activity.
        behind: Box<Step>,
    },
    /// Asks for two activities in the run's line, gives the first up at a signal, and waits for the second.
    GiveUpHead {
        /// The first.
        head: String,
        /// The second; its input is 1.
        behind: String,
        /// When.
        signal: String,
    },
    /// Sleeps.
    Timer {
        /// For how long.
        millis: u64,
    },
    /// Waits for a signal of that type.
    Signal {
        /// Which.
        name: String,
    },
    /// Starts a child with that script and waits for it.
    Child {
        /// What it does.
        script: Script,
    },
    /// Starts an activity, waits for a signal, then gives the activity up.
    StartThenCancel {
        /// Which activity.
        name: String,
        /// Given up at this signal.
        signal: String,
    },
    /// Panics.
    Panic,
    /// Panics.
    PanicWith {
        /// With this message.
        message: String,
    },
    /// Fails the run.
    Fail {
        /// With this message.
        message: String,
    },
    /// Goes on as a new iteration with that script.
    ContinueAsNew {
        /// What it does then.
        script: Box<Script>,
    },
}

impl Step {
    /// An activity with the default options.
    #[must_use]
    pub fn activity(name: &str, input: Value) -> Self {
        Self::Activity {
            name: name.to_owned(),
            input,
            options: ActivityOptions::default(),
        }
    }

    /// An activity that is tried this often, without delay.
    #[must_use]
    pub fn tried(name: &str, input: Value, attempts: u32) -> Self {
        let retry_policy = RetryPolicy {
            max_attempts: attempts,
            initial_interval: Duration::from_millis(1),
            max_interval: Duration::from_millis(5),
            ..RetryPolicy::default()
        };
        Self::Activity {
            name: name.to_owned(),
            input,
            options: ActivityOptions {
                retry_policy,
                ..ActivityOptions::default()
            },
        }
    }
}

impl Script {
    /// Steps one after the other.
    #[must_use]
    pub fn of(steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            steps: steps.into_iter().collect(),
            ..Self::default()
        }
    }
}

/// The workflow.
pub struct Scripted {
    script: Script,
    /// Index of the step under way.
    at: usize,
    stopping: Option<String>,
    /// Ids of what the step waits for.
    waits: Vec<String>,
    /// Signals that arrived before their step.
    early: Vec<(String, Value)>,
    results: Vec<Value>,
    partial: Vec<Value>,
    ending: Option<Result<Value, WorkflowError>>,
}

impl Scripted {
    fn steps(&self) -> &[Step] {
        if self.stopping.is_some() {
            &self.script.cleanup
        } else {
            &self.script.steps
        }
    }

    fn id(&self, n: usize) -> String {
        let phase = if self.stopping.is_some() { "c" } else { "s" };
        format!("{phase}{}-{n}", self.at)
    }

    fn begin(&mut self) -> Vec<WorkflowAction> {
        self.waits.clear();
        self.partial.clear();
        let Some(step) = self.steps().get(self.at).cloned() else {
            return match &self.stopping {
                Some(reason) => vec![WorkflowAction::CancelWorkflow {
                    reason: reason.clone(),
                }],
                None => {
                    self.ending = Some(Ok(Value::Array(self.results.clone())));
                    vec![]
                }
            };
        };
        match step {
            Step::Activity {
                name,
                input,
                options,
            } => {
                let id = self.wait_for(0);
                vec![schedule(id, &name, &input, options)]
            }
            Step::Parallel { name, count } => self.many(&name, count, false),
            Step::Line { name, count } => self.many(&name, count, true),
            Step::LineOf { names } => self.line_of(&names),
            Step::Line2 { head, behind } => (0..)
                .zip([*head, *behind])
                .filter_map(|(n, step)| match step {
                    Step::Activity {
                        name,
                        input,
                        options,
                    } => Some(schedule(self.wait_for(n), &name, &input, options)),
                    _ => None,
                })
                .collect(),
            Step::GiveUpHead {
                head,
                behind,
                signal,
            } => {
                let actions = self.line_of(&[head, behind]);
                self.waits.remove(0);
                self.waits.push(format!("signal {signal}"));
                actions
            }
            Step::Timer { millis } => vec![WorkflowAction::StartTimer {
                timer_id: self.wait_for(0),
                duration: Duration::from_millis(millis),
            }],
            Step::Signal { name } => self.take_early(&name),
            Step::Child { script } => vec![WorkflowAction::ScheduleChildWorkflow {
                workflow_id: self.wait_for(0),
                workflow_type: Self::TYPE.to_owned(),
                input: Payload::from_value(&script).expect("a script is JSON"),
            }],
            Step::StartThenCancel { name, signal } => {
                let id = self.id(0);
                let mut actions = vec![schedule(
                    id.clone(),
                    &name,
                    &json!(0),
                    ActivityOptions::default(),
                )];
                if self.early.iter().any(|(early, _)| *early == signal) {
                    actions.push(WorkflowAction::CancelActivity { activity_id: id });
                }
                actions.extend(self.take_early(&signal));
                actions
            }
            Step::Panic => panic!("as the script says"),
            Step::PanicWith { message } => std::panic::panic_any(message),
            Step::Fail { message } => vec![WorkflowAction::FailWorkflow {
                error: WorkflowError::new("Scripted", message),
            }],
            Step::ContinueAsNew { script } => vec![WorkflowAction::ContinueAsNew {
                input: Payload::from_value(&script).expect("a script is JSON"),
            }],
        }
    }

    fn wait_for(&mut self, n: usize) -> String {
        let id = self.id(n);
        self.waits.push(id.clone());
        id
    }

    fn many(&mut self, name: &str, count: usize, sequential: bool) -> Vec<WorkflowAction> {
        let options = ActivityOptions {
            sequential,
            ..ActivityOptions::default()
        };
        (0..count)
            .map(|n| schedule(self.wait_for(n), name, &json!(n), options.clone()))
            .collect()
    }

    fn line_of(&mut self, names: &[String]) -> Vec<WorkflowAction> {
        let in_line = (0..).zip(names);
        in_line
            .map(|(n, name)| {
                schedule(
                    self.wait_for(n),
                    name,
                    &json!(n),
                    ActivityOptions::default(),
                )
            })
            .collect()
    }

    fn take_early(&mut self, name: &str) -> Vec<WorkflowAction> {
        match self.early.iter().position(|(early, _)| early == name) {
            Some(place) => {
                let (_, payload) = self.early.remove(place);
                self.results.push(payload);
                self.next()
            }
            None => {
                self.waits.push(format!("signal {name}"));
                vec![]
            }
        }
    }

    fn next(&mut self) -> Vec<WorkflowAction> {
        self.at += 1;
        self.begin()
    }

    /// Something that the step waits for has come.
    fn came(&mut self, id: &str, value: Value) -> Vec<WorkflowAction> {
        let Some(place) = self.waits.iter().position(|waits| waits == id) else {
            return vec![];
        };
        self.waits.remove(place);
        self.partial.push(value);
        if !self.waits.is_empty() {
            return vec![];
        }
        let partial = std::mem::take(&mut self.partial);
        self.results.extend(partial);
        self.next()
    }
}

impl Workflow for Scripted {
    const TYPE: &'static str = "scripted";
    type Input = Script;
    type Output = Value;

    fn new(script: Script) -> Self {
        Self {
            script,
            at: 0,
            stopping: None,
            waits: vec![],
            early: vec![],
            results: vec![],
            partial: vec![],
            ending: None,
        }
    }

    fn on_start(&mut self) -> Vec<WorkflowAction> {
        self.begin()
    }

    fn on_activity_completed(&mut self, activity_id: &str, result: Value) -> Vec<WorkflowAction> {
        self.came(activity_id, result)
    }

    fn on_activity_failed(
        &mut self,
        activity_id: &str,
        error: &ActivityError,
    ) -> Vec<WorkflowAction> {
        if self.script.tolerates_failure {
            let failure = error.clone().into_failure();
            let note = json!({ "failed": failure.error_type, "message": failure.message });
            return self.came(activity_id, note);
        }
        let error = WorkflowError::from(error.clone().into_failure());
        vec![WorkflowAction::FailWorkflow { error }]
    }

    fn on_timer_fired(&mut self, timer_id: &str) -> Vec<WorkflowAction> {
        self.came(timer_id, json!("slept"))
    }

    fn on_signal(&mut self, signal: &WorkflowSignal) -> Vec<WorkflowAction> {
        let payload: Value = signal.payload.to_value().unwrap_or(Value::Null);
        if signal.signal_type == signal_types::CANCEL {
            if !self.script.heeds_cancel || self.stopping.is_some() {
                return vec![];
            }
            self.stopping = Some(payload.as_str().unwrap_or("cancel").to_owned());
            let at_timer = matches!(self.script.steps.get(self.at), Some(Step::Timer { .. }));
            self.at = 0;
            let mut given_up: Vec<WorkflowAction> = std::mem::take(&mut self.waits)
                .into_iter()
                .filter(|_| at_timer)
                .map(|timer_id| WorkflowAction::CancelTimer { timer_id })
                .collect();
            given_up.extend(self.begin());
            return given_up;
        }
        let waited = format!("signal {}", signal.signal_type);
        if !self.waits.contains(&waited) {
            self.early.push((signal.signal_type.clone(), payload));
            return vec![];
        }
        if let Some(Step::StartThenCancel { .. } | Step::GiveUpHead { .. }) =
            self.steps().get(self.at)
        {
            let activity_id = self.id(0);
            let mut actions = vec![WorkflowAction::CancelActivity { activity_id }];
            actions.extend(self.came(&waited, payload));
            return actions;
        }
        self.came(&waited, payload)
    }

    fn on_child_completed(&mut self, child_id: &str, result: Value) -> Vec<WorkflowAction> {
        self.came(child_id, result)
    }

    fn on_child_failed(&mut self, child_id: &str, error: &WorkflowError) -> Vec<WorkflowAction> {
        self.came(child_id, json!({ "child failed": error.message }))
    }

    fn is_completed(&self) -> bool {
        self.ending.is_some()
    }

    fn result(&self) -> Option<Result<Value, WorkflowError>> {
        self.ending.clone()
    }
}

fn schedule(id: String, name: &str, input: &Value, options: ActivityOptions) -> WorkflowAction {
    WorkflowAction::ScheduleActivity {
        activity_id: id,
        activity_type: name.to_owned(),
        input: Payload::from_value(input).expect("a value is JSON"),
        options,
    }
}

/// What activities did outside the engine, and gates that hold them.
#[derive(Clone, Default)]
pub struct Effects {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    done: Mutex<Vec<String>>,
    changed: Notify,
    open: Mutex<bool>,
    gate: Notify,
}

impl Effects {
    /// Nothing done yet; gates closed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes down that something was done.
    pub fn note(&self, what: impl Into<String>) {
        self.shared.done.lock().push(what.into());
        self.shared.changed.notify_waiters();
    }

    /// All that was done, in order.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        self.shared.done.lock().clone()
    }

    /// How often that was done.
    #[must_use]
    pub fn count(&self, what: &str) -> usize {
        self.shared
            .done
            .lock()
            .iter()
            .filter(|done| *done == what)
            .count()
    }

    /// Waits until something was done that often.
    pub async fn reached(&self, what: &str, times: usize) {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.count(what) >= times {
                return;
            }
            changed.await;
        }
    }

    /// Lets everything through that waits at the gate, now and later.
    pub fn open_gate(&self) {
        *self.shared.open.lock() = true;
        self.shared.gate.notify_waiters();
    }

    /// Whether the gate is open.
    #[must_use]
    pub fn is_gate_open(&self) -> bool {
        *self.shared.open.lock()
    }

    pub(super) async fn pass_gate(&self) {
        loop {
            let opened = self.shared.gate.notified();
            tokio::pin!(opened);
            opened.as_mut().enable();
            if *self.shared.open.lock() {
                return;
            }
            opened.await;
        }
    }
}

/// Adds the activities that scripts use: `echo`, `flaky` (fails until attempt N), `broken` (never succeeds), `gated` (waits for
/// the gate or for being stopped), `mended` (works once the gate is open), `fatal` (fails for good), `beating` (heartbeats, fails once, tells what it found).
pub fn scripted_activities(builder: EngineBuilder, effects: &Effects) -> EngineBuilder {
    let echo = effects.clone();
    let flaky = effects.clone();
    let gated = effects.clone();
    let broken = effects.clone();
    let mended = effects.clone();
    builder
        .activity_fn("echo", move |_ctx: ActivityContext, input: Value| {
            let effects = echo.clone();
            async move {
                effects.note(format!("echo {input}"));
                Ok(input)
            }
        })
        .activity_fn("flaky", move |ctx: ActivityContext, succeeds_at: u32| {
            let effects = flaky.clone();
            async move {
                effects.note(format!("flaky {}", ctx.attempt));
                if ctx.attempt < succeeds_at {
                    return Err(ActivityError::new(
                        "Flaky",
                        format!("attempt {}", ctx.attempt),
                    ));
                }
                Ok(ctx.attempt)
            }
        })
        .activity_fn("broken", move |ctx: ActivityContext, _input: Value| {
            let effects = broken.clone();
            async move {
                effects.note(format!("broken {}", ctx.attempt));
                Err::<Value, _>(ActivityError::new("Broken", "never works"))
            }
        })
        .activity_fn("mended", move |_ctx: ActivityContext, _input: Value| {
            let effects = mended.clone();
            async move {
                if effects.is_gate_open() {
                    Ok("mended")
                } else {
                    Err(ActivityError::new("Broken", "not mended yet"))
                }
            }
        })
        .activity_fn("fatal", |_ctx: ActivityContext, _input: Value| async move {
            Err::<Value, _>(ActivityError::new("Fatal", "no use trying again").non_retryable())
        })
        .activity_fn(
            "panics",
            |_ctx: ActivityContext, _input: Value| async move {
                panic!("an activity that panics");
                #[allow(unreachable_code)]
                Ok(Value::Null)
            },
        )
        .activity_fn("gated", move |ctx: ActivityContext, input: Value| {
            let effects = gated.clone();
            async move {
                effects.note("gated began");
                tokio::select! {
                    () = effects.pass_gate() => {
                        effects.note("gated passed");
                        Ok(input)
                    }
                    () = ctx.cancelled() => {
                        effects.note("gated stopped");
                        Err(ActivityError::new("Stopped", "asked to stop"))
                    }
                }
            }
        })
        .activity_fn(
            "beating",
            |ctx: ActivityContext, _input: Value| async move {
                if let Some(found) = ctx.heartbeat_details::<Value>() {
                    return Ok(json!({ "attempt": ctx.attempt, "found": found }));
                }
                ctx.heartbeat(Some(json!({ "page": 7 }))).await?;
                // Long enough for the heartbeat to be on its way; the attempt's end does not carry it.
                tokio::time::sleep(Duration::from_millis(400)).await;
                Err(ActivityError::new("Interrupted", "after a heartbeat"))
            },
        )
}
