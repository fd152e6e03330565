//! Random scripts, each with what it must come to.

use std::time::Duration;

use durable_core::{ActivityOptions, RetryPolicy, TimeoutType};
use serde_json::{Value, json};

use super::oracle::{End, Expected, Part};
use super::program::{Code, Program, SignalPlan};
use crate::differential::Random;
use crate::engine_suite::{Script, Step};

/// Makes scripts.
pub(super) struct Generator<'a> {
    random: &'a mut Random,
    /// Whether a heartbeat is sure to be found by the next attempt.
    steady: bool,
    signals: Vec<SignalPlan>,
    iteration: u32,
}

/// A script under construction.
#[derive(Default)]
struct Draft {
    steps: Vec<Step>,
    parts: Vec<Part>,
    end: Option<End>,
    tolerates: bool,
}

impl Draft {
    fn push(&mut self, step: Step, part: Part) {
        self.steps.push(step);
        self.parts.push(part);
    }

    /// A step whose activity fails for good.
    fn fails(&mut self, step: Step, error_type: &str, message: &str) {
        self.steps.push(step);
        if self.tolerates {
            let note = json!({ "failed": error_type, "message": message });
            self.parts.push(Part::Exactly(note));
        } else {
            self.end = Some(End::Failed {
                error_type: error_type.to_owned(),
                message: message.to_owned(),
            });
        }
    }
}

impl<'a> Generator<'a> {
    pub(super) const fn new(random: &'a mut Random, steady: bool) -> Self {
        Self {
            random,
            steady,
            signals: Vec::new(),
            iteration: 0,
        }
    }

    pub(super) fn program(mut self) -> Program {
        let (script, expected) = self.script(0);
        Program {
            signals: self.signals,
            ..Program::of(Code::Script(script), expected)
        }
    }

    fn script(&mut self, depth: u32) -> (Script, Expected) {
        let mut draft = Draft {
            tolerates: self.random.one_in(3),
            ..Draft::default()
        };
        let heeds_cancel = self.random.one_in(2);
        let steps = 1 + self.random.below(if depth == 0 { 5 } else { 2 });
        for _ in 0..steps {
            self.step(&mut draft, depth);
            if draft.end.is_some() {
                break;
            }
        }
        let mut expected = None;
        if draft.end.is_none() && depth == 0 && self.random.one_in(6) && self.iteration < 2 {
            self.iteration += 1;
            let (next, comes_to) = self.script(depth);
            draft.steps.push(Step::ContinueAsNew {
                script: Box::new(next),
            });
            expected = Some(comes_to);
        }
        let script = Script {
            steps: draft.steps,
            cleanup: self.cleanup(),
            heeds_cancel,
            tolerates_failure: draft.tolerates,
        };
        let expected = expected.unwrap_or(Expected {
            parts: draft.parts,
            end: draft.end.unwrap_or(End::Completed),
        });
        (script, expected)
    }

    fn cleanup(&mut self) -> Vec<Step> {
        match self.random.below(3) {
            0 => vec![],
            1 => vec![Step::activity("echo", json!("tidied up"))],
            _ => vec![
                Step::Timer { millis: 300 },
                Step::activity("echo", json!("tidied up")),
            ],
        }
    }

    fn step(&mut self, draft: &mut Draft, depth: u32) {
        let kind = self.random.below(if depth == 0 { 100 } else { 70 });
        match kind {
            0..14 => {
                let value = json!(self.random.below(1000));
                draft.push(
                    self.activity("echo", value.clone(), 3),
                    Part::Exactly(value),
                );
            }
            14..22 => {
                let succeeds_at = 1 + self.random.below(3);
                let step = self.activity("flaky", json!(succeeds_at), 4);
                draft.push(step, Part::Exactly(json!(succeeds_at)));
            }
            22..32 => {
                let millis = json!(300 + self.random.below(4000));
                draft.push(
                    self.activity("slow", millis.clone(), 3),
                    Part::Exactly(millis),
                );
            }
            32..36 => {
                let pages = 2 + self.random.below(4);
                draft.push(
                    self.beating("pages", json!(pages), 100),
                    Part::Exactly(json!(pages)),
                );
            }
            36..40 => {
                let found = if self.steady {
                    Part::Exactly(json!(2))
                } else {
                    Part::OneOf(vec![json!(0), json!(1), json!(2)])
                };
                draft.push(self.activity("memory", json!(null), 100), found);
            }
            40..44 => {
                let step = self.activity("fatal", json!(null), 3);
                draft.fails(step, "Fatal", "no use trying again");
            }
            44..47 => {
                let step = self.activity("broken", json!(null), 2);
                draft.fails(step, "Broken", "never works");
            }
            47..50 => {
                let failure = TimeoutType::StartToClose.failure();
                let mut step = self.activity("hangs", json!(null), 2);
                if let Step::Activity { options, .. } = &mut step {
                    options.start_to_close_timeout = Duration::from_millis(700);
                }
                draft.fails(step, &failure.error_type, &failure.message);
            }
            50..62 => {
                let millis = 5 + self.random.below(3000);
                draft.push(Step::Timer { millis }, Part::Exactly(json!("slept")));
            }
            62..66 => {
                let count = 2 + self.random.index(3);
                let name = self.random.pick(&["echo", "nap"]).to_owned();
                let values = (0..count).map(|n| json!(n)).collect();
                draft.push(Step::Parallel { name, count }, Part::InAnyOrder(values));
            }
            66..69 => self.line(draft),
            69 => {
                let message = "as the script says".to_owned();
                draft.steps.push(Step::Fail {
                    message: message.clone(),
                });
                draft.end = Some(End::Failed {
                    error_type: "Scripted".to_owned(),
                    message,
                });
            }
            70..84 => {
                let (name, payload) = self.signal();
                draft.push(Step::Signal { name }, Part::Exactly(payload));
            }
            84..94 => {
                let (script, expected) = self.script(depth + 1);
                draft.push(Step::Child { script }, Part::Child(expected));
            }
            _ => {
                let (signal, payload) = self.signal();
                let name = self
                    .random
                    .pick(&["patient", "patient", "stubborn"])
                    .to_owned();
                draft.push(
                    Step::StartThenCancel { name, signal },
                    Part::Exactly(payload),
                );
            }
        }
    }

    /// Adds one part a task: the line keeps its order.
    fn line(&mut self, draft: &mut Draft) {
        let count = 2 + self.random.index(3);
        let name = self.random.pick(&["echo", "nap"]).to_owned();
        draft.steps.push(Step::Line { name, count });
        draft
            .parts
            .extend((0..count).map(|n| Part::Exactly(json!(n))));
    }

    fn signal(&mut self) -> (String, Value) {
        let name = format!("signal-{}", self.signals.len());
        let payload = json!(self.random.below(1000));
        self.signals.push(SignalPlan {
            name: name.clone(),
            payload: payload.clone(),
            iteration: self.iteration,
        });
        (name, payload)
    }

    fn activity(&mut self, name: &str, input: Value, max_attempts: u32) -> Step {
        let options = ActivityOptions {
            retry_policy: RetryPolicy {
                max_attempts,
                initial_interval: Duration::from_millis(50 + self.random.below(400)),
                max_interval: Duration::from_secs(1),
                ..RetryPolicy::default()
            },
            sequential: !self.random.one_in(3),
            ..ActivityOptions::default()
        };
        Step::Activity {
            name: name.to_owned(),
            input,
            options,
        }
    }

    fn beating(&mut self, name: &str, input: Value, max_attempts: u32) -> Step {
        let mut step = self.activity(name, input, max_attempts);
        if let Step::Activity { options, .. } = &mut step {
            options.heartbeat_timeout = Some(Duration::from_millis(1500));
        }
        step
    }
}
