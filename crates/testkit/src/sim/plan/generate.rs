//! Random plans, each with what it must come to.

use std::collections::BTreeMap;
use std::time::Duration;

use durable_core::{ActivityOptions, AttributeValue, TimeoutType, error_types};
use serde_json::{Value, json};

use super::{Deed, Plan, Race};
use crate::differential::Random;
use crate::sim::oracle::{End, Expected, Part};
use crate::sim::program::{
    Code, Decision, Foretold, LetterPlan, Limit, Program, SignalPlan, Tie, UpdatePlan,
};

/// Makes plans.
pub(in crate::sim) struct Generator<'a> {
    pub(super) random: &'a mut Random,
    next_number: u32,
    iteration: u32,
    pub(super) signals: Vec<SignalPlan>,
    pub(super) updates: Vec<UpdatePlan>,
    pub(super) letters: Vec<LetterPlan>,
    children: Vec<Foretold>,
    attributes: BTreeMap<String, AttributeValue>,
    /// Whether it matters in which order signals come, or which release was there first: a reset brings signals back behind those that
    /// wait, and cannot tell whether the step that it cut had come to a patch.
    pub(super) has_order: bool,
}

/// A plan under construction.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) deeds: Vec<Deed>,
    pub(super) parts: Vec<Part>,
    /// How the run ends, and what is at the bottom of it, if it fails.
    pub(super) fails: Option<(End, String)>,
}

impl Draft {
    pub(super) fn push(&mut self, deed: Deed, comes_to: impl Into<Value>) {
        self.add(deed, Part::Exactly(comes_to.into()));
    }

    pub(super) fn add(&mut self, deed: Deed, part: Part) {
        self.deeds.push(deed);
        self.parts.push(part);
    }

    pub(super) fn fail(&mut self, deed: Deed, error_type: &str, root: &str) {
        self.deeds.push(deed);
        let end = End::Failed {
            error_type: error_type.to_owned(),
            message: String::new(),
        };
        self.fails = Some((end, root.to_owned()));
    }
}

/// Where a deed stands, and so what it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// In a run that a client started: everything.
    Run,
    /// In a branch of such a run: nothing that ends the run.
    Branch,
    /// In a child: nothing that needs a client.
    Child,
}

impl<'a> Generator<'a> {
    /// Plans are numbered from `first` on.
    pub(in crate::sim) const fn new(random: &'a mut Random, first: u32) -> Self {
        Self {
            random,
            next_number: first,
            iteration: 0,
            signals: Vec::new(),
            updates: Vec::new(),
            letters: Vec::new(),
            children: Vec::new(),
            attributes: BTreeMap::new(),
            has_order: false,
        }
    }

    pub(in crate::sim) fn program(mut self) -> Program {
        if self.random.one_in(14) {
            return self.too_slow();
        }
        if self.random.one_in(14) {
            return self.mended();
        }
        let (plan, expected, _) = self.plan(Stage::Run);
        // What a reset forgets must be something that everybody repeats, and a run that has failed is sent nothing.
        let repeatable = self.updates.is_empty() && self.letters.is_empty() && !self.has_order;
        let resets = repeatable && expected.end == End::Completed && self.random.one_in(4);
        Program {
            code: Code::Plan(plan),
            expected,
            signals: self.signals,
            updates: self.updates,
            letters: self.letters,
            children: self.children,
            attributes: self.attributes,
            limit: None,
            mends: None,
            resets,
        }
    }

    /// A run that waits for what never comes, and has only so much time.
    fn too_slow(mut self) -> Program {
        let time = Duration::from_millis(800 + self.random.below(2500));
        let (limit, error_type) = if self.random.one_in(2) {
            (Limit::Execution(time), error_types::EXECUTION_TIMEOUT)
        } else {
            (Limit::Run(time), error_types::RUN_TIMEOUT)
        };
        let plan = Plan {
            number: self.number(),
            deeds: vec![
                self.activity("echo", json!("before"), 3),
                Deed::Signal {
                    name: "never".to_owned(),
                },
            ],
            cleanup: Vec::new(),
        };
        let expected = Expected {
            parts: Vec::new(),
            end: End::Failed {
                error_type: error_type.to_owned(),
                message: String::new(),
            },
        };
        Program {
            limit: Some(limit),
            ..Program::of(Code::Plan(plan), expected)
        }
    }

    fn number(&mut self) -> u32 {
        self.next_number += 1;
        self.next_number
    }

    /// A plan, what it must come to, and what is at the bottom of its failure.
    pub(super) fn plan(&mut self, stage: Stage) -> (Plan, Expected, Option<String>) {
        let number = self.number();
        let mut draft = Draft::default();
        let most = if stage == Stage::Run { 4 } else { 2 };
        for _ in 0..=self.random.below(most) {
            self.deed(&mut draft, stage);
            if draft.fails.is_some() {
                break;
            }
        }
        let mut expected = None;
        if stage == Stage::Run
            && draft.fails.is_none()
            && self.iteration < 2
            && self.random.one_in(6)
        {
            self.iteration += 1;
            let (next, comes_to, _) = self.plan(stage);
            let plan = Box::new(next);
            draft.deeds.push(Deed::ContinueAsNew { plan });
            expected = Some(comes_to);
        }
        let plan = Plan {
            number,
            deeds: draft.deeds,
            cleanup: self.cleanup(),
        };
        let (end, root) = match draft.fails {
            Some((end, root)) => (end, Some(root)),
            None => (End::Completed, None),
        };
        let own = Expected {
            parts: draft.parts,
            end,
        };
        (plan, expected.unwrap_or(own), root)
    }

    fn cleanup(&mut self) -> Vec<Deed> {
        let tidy = self.activity("tidy", json!("tidied up"), 3);
        match self.random.below(3) {
            0 => Vec::new(),
            1 => vec![tidy],
            _ => vec![Deed::Sleep { millis: 300 }, tidy],
        }
    }

    fn deed(&mut self, draft: &mut Draft, stage: Stage) {
        match self.random.below(match stage {
            Stage::Run => 98,
            Stage::Branch => 66,
            Stage::Child => 50,
        }) {
            0..28 => self.some_activity(draft, stage),
            28..32 => {
                let fails = self.random.below(3);
                let answer = if fails == 0 {
                    json!("local")
                } else {
                    json!(fails + 1)
                };
                draft.push(Deed::Local { fails }, answer);
            }
            32..37 => {
                let millis = 5 + self.random.below(2500);
                draft.push(Deed::Sleep { millis }, "slept");
            }
            37..41 => draft.push(Deed::Fixed, true),
            41..44 => self.saga(draft),
            44..46 => {
                let millis = 20 + self.random.below(1200);
                draft.push(Deed::Race(Race::TimerFirst { millis }), "time");
            }
            46..50 => {
                let slow = 300 + self.random.below(900);
                let millis = 300 + self.random.below(900);
                let race = Race::ActivityOrTimer { slow, millis };
                let either = vec![json!("activity"), json!("timer")];
                draft.add(Deed::Race(race), Part::OneOf(either));
            }
            50..66 => self.awaits_signal(draft),
            66..72 => self.gather(draft),
            72..75 => draft.push(Deed::FailFast, json!({ "failed": "Fatal" })),
            75..80 => self.updates(draft),
            80..87 => self.child(draft),
            87..89 => {
                self.has_order = true;
                let change = format!("change-{}", self.random.below(3));
                let either = vec![json!(true), json!(false)];
                draft.add(Deed::Patched { change }, Part::OneOf(either));
            }
            89..92 => {
                let name = self.random.pick(&["colour", "size"]).to_owned();
                let value = AttributeValue::from(i64::from(self.number()));
                self.attributes.insert(name.clone(), value.clone());
                draft.deeds.push(Deed::Attribute { name, value });
            }
            92..96 => self.parked(draft),
            _ => {
                let message = "as the plan says".to_owned();
                draft.fail(Deed::Fail { message }, "Planned", "Planned");
            }
        }
    }

    fn saga(&mut self, draft: &mut Draft) {
        let (steps, fails) = (1 + self.random.below(3), self.random.one_in(2));
        let undone: Vec<u64> = (0..steps).rev().collect();
        let comes_to = if fails {
            json!({ "undone": undone })
        } else {
            json!("kept")
        };
        draft.push(Deed::Saga { steps, fails }, comes_to);
    }

    fn gather(&mut self, draft: &mut Draft) {
        let mut branches = Vec::new();
        let mut parts = Vec::new();
        for _ in 0..2 + self.random.below(2) {
            let mut branch = Draft::default();
            for _ in 0..=self.random.below(2) {
                self.deed(&mut branch, Stage::Branch);
            }
            branches.push(branch.deeds);
            parts.push(branch.parts);
        }
        draft.add(Deed::Gather { branches }, Part::Branches(parts));
    }

    fn updates(&mut self, draft: &mut Draft) {
        let name = format!("update-{}", self.updates.len());
        let count = 1 + self.random.index(3);
        let mut applied = Vec::new();
        while applied.len() < count {
            let refused = self.random.one_in(4);
            let n = i64::try_from(self.random.below(100)).unwrap_or(0);
            let input = if refused { -1 - n } else { n };
            self.updates.push(UpdatePlan {
                id: format!("{name}-{}", self.updates.len()),
                name: name.clone(),
                input,
                iteration: self.iteration,
            });
            if !refused {
                applied.push(n);
            }
        }
        draft.push(Deed::Updates { name, count }, json!(applied));
    }

    fn child(&mut self, draft: &mut Draft) {
        let (plan, expected, root) = self.plan(Stage::Child);
        let tie = self
            .random
            .pick(&[Tie::Awaited, Tie::Awaited, Tie::Dropped, Tie::Abandoned]);
        self.children.push(Foretold {
            number: plan.number,
            expected: expected.clone(),
            tie,
        });
        match tie {
            Tie::Awaited => {
                let part = match root {
                    Some(root) => Part::Exactly(json!({ "failed": root })),
                    None => Part::Child(expected),
                };
                draft.add(Deed::Child { plan }, part);
            }
            Tie::Abandoned => draft.push(Deed::Detached { plan }, "detached"),
            Tie::Dropped => {
                let (name, payload) = self.signal();
                let either = vec![payload, json!("child")];
                let part = match root {
                    // Then the child may win by failing.
                    Some(_) => return self.lost_child(draft, plan),
                    None => Part::OneOf(either),
                };
                draft.add(Deed::Race(Race::SignalOrChild { name, plan }), part);
            }
        }
    }

    /// A child that fails is waited for: who wins would decide about the run.
    fn lost_child(&mut self, draft: &mut Draft, plan: Plan) {
        self.signals.pop();
        if let Some(foretold) = self.children.last_mut() {
            foretold.tie = Tie::Abandoned;
        }
        draft.push(Deed::Detached { plan }, "detached");
    }

    /// An activity that waits for somebody's decision when it has failed.
    fn parked(&mut self, draft: &mut Draft) {
        let marker = format!("letter-{}", self.number());
        let decision = self.random.pick(&[
            Decision::Requeue,
            Decision::Requeue,
            Decision::Complete,
            Decision::Discard,
        ]);
        let comes_to = match decision {
            Decision::Requeue => json!(marker),
            Decision::Complete => json!("by hand"),
            Decision::Discard => json!({ "failed": "Sick" }),
        };
        self.letters.push(LetterPlan {
            marker: marker.clone(),
            decision,
        });
        let mut deed = self.activity("sick", json!(marker), 2);
        if let Deed::Activity {
            options, tolerates, ..
        } = &mut deed
        {
            options.on_exhausted = durable_core::ExhaustedPolicy::Park;
            *tolerates = true;
        }
        draft.push(deed, comes_to);
    }

    /// A run that fails until something is mended and it is retried. It needs nothing from a client, who would be refused meanwhile.
    fn mended(mut self) -> Program {
        let number = self.number();
        let marker = format!("mended-{number}");
        let mut draft = Draft::default();
        for place in 0..3 {
            if place == 1 {
                let deed = self.activity("sick", json!(marker), 2);
                draft.push(deed, marker.as_str());
            } else if self.random.one_in(2) {
                self.deed(&mut draft, Stage::Child);
            }
            if draft.fails.is_some() {
                break;
            }
        }
        let plan = Plan {
            number,
            deeds: draft.deeds,
            cleanup: self.cleanup(),
        };
        let expected = Expected {
            parts: draft.parts,
            end: draft.fails.map_or(End::Completed, |(end, _)| end),
        };
        Program {
            mends: Some(marker),
            ..Program::of(Code::Plan(plan), expected)
        }
    }

    pub(super) fn signal(&mut self) -> (String, Value) {
        let name = format!("signal-{}", self.signals.len());
        let payload = json!(self.random.below(1000));
        self.send(&name, &payload);
        (name, payload)
    }

    /// Names are used once, so a signal may come in any iteration: it is carried over to whoever waits.
    pub(super) fn send(&mut self, name: &str, payload: &Value) {
        self.signals.push(SignalPlan {
            name: name.to_owned(),
            payload: payload.clone(),
            iteration: 0,
        });
    }

    pub(super) fn timed_out(draft: &mut Draft, deed: Deed, timeout: TimeoutType) {
        draft.push(deed, json!({ "failed": timeout.error_type() }));
    }

    pub(super) fn activity(&mut self, name: &str, input: Value, max_attempts: u32) -> Deed {
        let mut options = ActivityOptions::default();
        options.retry_policy.max_attempts = max_attempts;
        options.retry_policy.initial_interval = Duration::from_millis(50 + self.random.below(400));
        options.retry_policy.max_interval = Duration::from_secs(1);
        Deed::Activity {
            name: name.to_owned(),
            input,
            options,
            tolerates: false,
        }
    }
}
