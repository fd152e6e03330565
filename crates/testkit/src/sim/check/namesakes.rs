//! Runs under one workflow id: what was acknowledged is there once, each start had the right to be one by its reuse policy, and a refusal
//! had a reason.

use durable_core::Timestamp;
use everruns_durable::persistence::model::{KeyKind, ReusePolicy, RunDump, WorkflowStatus};
use uuid::Uuid;

use super::Scene;
use super::outcome::is_terminated;
use crate::sim::namesakes::{Claim, ClaimAnswer, NAME};
use crate::sim::tally::Happening;

pub(super) fn check(scene: &Scene<'_>) {
    let runs = scene.dump.runs.iter();
    let namesakes = runs.filter(|run| run.run.business_id.as_deref() == Some(NAME));
    let family = Family {
        scene,
        namesakes: namesakes.collect(),
    };
    for claim in scene.claims {
        let problem = match claim.answer {
            ClaimAnswer::Started(run_id) => family.started(claim, run_id),
            ClaimAnswer::Refused(run_id) => family.refused(claim, run_id),
        };
        if let Some(problem) = problem {
            scene.world.violated(format!("{claim:?}: {problem}"));
        }
    }
    for run in &family.namesakes {
        let problem = match family.claim(run) {
            Some(claim) if !family.is_rightful(run, claim.policy) => {
                Some("the run before it should have stood in the way".to_owned())
            }
            Some(claim) => family.wrong_end(claim, run),
            None => Some("nobody started it".to_owned()),
        };
        if let Some(problem) = problem {
            scene.violated(run, problem);
        }
    }
    family.last_has_the_key();
}

/// All runs under the shared workflow id.
struct Family<'a> {
    scene: &'a Scene<'a>,
    namesakes: Vec<&'a RunDump>,
}

impl Family<'_> {
    fn started(&self, claim: &Claim, run_id: Uuid) -> Option<String> {
        let runs: Vec<Uuid> = self.runs_of(claim).map(|run| run.run.id).collect();
        (runs != [run_id]).then(|| format!("the runs with its key are {runs:?}"))
    }

    fn is_rightful(&self, run: &RunDump, policy: ReusePolicy) -> bool {
        match policy {
            ReusePolicy::AllowDuplicate => true,
            ReusePolicy::RejectDuplicate => self.is_first(run),
            ReusePolicy::AllowDuplicateFailedOnly => {
                self.comes_after(run, |before| before.run.status == WorkflowStatus::Failed)
            }
            ReusePolicy::TerminateIfRunning => self.comes_after(run, |_| true),
        }
    }

    /// Whether no namesake was there before. Of several that were started in one instant one may have been the first.
    fn is_first(&self, run: &RunDump) -> bool {
        let mut others = self.others(run);
        others.all(|other| {
            let rejects_too = self.policy(other) == Some(ReusePolicy::RejectDuplicate);
            other.run.created_at >= run.run.created_at && !rejects_too
        })
    }

    /// Whether the namesake just before it, if there was one, had ended by then, in this way. In one instant any order is possible.
    fn comes_after(&self, run: &RunDump, in_this_way: impl Fn(&RunDump) -> bool) -> bool {
        let at = run.run.created_at;
        let earlier = self.others(run).map(|other| other.run.created_at);
        let Some(last) = earlier.filter(|created| *created < at).max() else {
            return true;
        };
        let mut just_before = self
            .others(run)
            .filter(|other| other.run.created_at == last || other.run.created_at == at);
        just_before.any(|before| has_ended(before, at) && in_this_way(before))
    }

    fn wrong_end(&self, claim: &Claim, run: &RunDump) -> Option<String> {
        let status = run.run.status;
        if is_terminated(run) {
            self.scene.world.count(Happening::NameReplaced, 1);
            let mut others = self.others(run);
            let replaced = others.any(|other| {
                self.policy(other) == Some(ReusePolicy::TerminateIfRunning)
                    && Some(other.run.created_at) == run.run.completed_at
            });
            return (!replaced).then(|| "nobody took its place, and it was terminated".to_owned());
        }
        let expected = if claim.fails {
            WorkflowStatus::Failed
        } else {
            WorkflowStatus::Completed
        };
        (status != expected).then(|| format!("it ended as {status}"))
    }

    fn refused(&self, claim: &Claim, by: Option<Uuid>) -> Option<String> {
        let started = self.runs_of(claim).count();
        if started > usize::from(claim.in_doubt) {
            return Some(format!("it was refused, and {started} runs have its key"));
        }
        let mut runs = self.namesakes.iter();
        let Some(other) = runs.find(|run| Some(run.run.id) == by) else {
            return Some("it was refused because of a run that is none of its name".to_owned());
        };
        let newer = |newest: &&RunDump| {
            let created = newest.run.created_at;
            created > other.run.created_at && created < claim.asked_at
        };
        if other.run.created_at > claim.told_at
            || self.namesakes.iter().copied().any(|run| newer(&run))
        {
            return Some("it was refused because of a run that was not the last".to_owned());
        }
        // What ended in the very instant may have ended later.
        let ended_before = other
            .run
            .completed_at
            .is_some_and(|ended| ended < claim.asked_at);
        let had_failed = other.run.status == WorkflowStatus::Failed && ended_before;
        match claim.policy {
            ReusePolicy::RejectDuplicate => None,
            ReusePolicy::AllowDuplicateFailedOnly => {
                had_failed.then(|| "it was refused, and the last one had failed".to_owned())
            }
            ReusePolicy::AllowDuplicate | ReusePolicy::TerminateIfRunning => {
                Some("its policy refuses nothing".to_owned())
            }
        }
    }

    fn last_has_the_key(&self) {
        let last = self.namesakes.iter().map(|run| run.run.created_at).max();
        let mut keys = self.scene.dump.keys.iter();
        let key = keys.find(|key| key.kind == KeyKind::Business && key.key == NAME);
        let holder = key.and_then(|key| self.scene.run(key.run_id));
        let holds = holder.map(|run| run.run.created_at);
        if holds != last {
            self.scene.world.violated(format!(
                "the last run under {NAME} began at {last:?}, the one that has it at {holds:?}"
            ));
        }
    }

    fn others<'b>(&'b self, run: &'b RunDump) -> impl Iterator<Item = &'b RunDump> {
        let all = self.namesakes.iter().copied();
        all.filter(|other| other.run.id != run.run.id)
    }

    fn runs_of<'b>(&'b self, claim: &'b Claim) -> impl Iterator<Item = &'b RunDump> {
        let all = self.namesakes.iter().copied();
        all.filter(|run| run.run.idempotency_key.as_ref() == Some(&claim.key))
    }

    fn claim(&self, run: &RunDump) -> Option<&Claim> {
        let key = run.run.idempotency_key.as_ref();
        let mut claims = self.scene.claims.iter();
        claims.find(|claim| Some(&claim.key) == key)
    }

    fn policy(&self, run: &RunDump) -> Option<ReusePolicy> {
        self.claim(run).map(|claim| claim.policy)
    }
}

fn has_ended(run: &RunDump, by: Timestamp) -> bool {
    run.run.completed_at.is_some_and(|ended| ended <= by)
}
