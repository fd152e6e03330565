//! Clients who start runs under one workflow id, each start with a reuse policy and a key of its own.

use std::time::Duration;

use durable_core::Timestamp;
use everruns_durable::persistence::model::ReusePolicy;
use tokio::time::sleep;
use uuid::Uuid;

use super::client::{AGAIN_AFTER, Caller};
use super::plan::{Deed, Plan, planned};
use super::tally::Happening;

/// The workflow id that they share.
pub(super) const NAME: &str = "shared";
/// Plans of theirs are numbered from here on.
const FIRST_NUMBER: u32 = 1_000_000;

/// A start under the shared id and what it was told.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) key: String,
    pub(super) policy: ReusePolicy,
    /// Whether the code of the run fails.
    pub(super) fails: bool,
    /// From before its first try.
    pub(super) asked_at: Timestamp,
    pub(super) told_at: Timestamp,
    /// Whether a try before is not known to have come to nothing: it may be on its way still, and start the run later.
    pub(super) in_doubt: bool,
    pub(super) answer: ClaimAnswer,
}

/// What a start was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimAnswer {
    Started(Uuid),
    /// Because of this run.
    Refused(Option<Uuid>),
}

impl Caller {
    /// A few starts, one after the other.
    pub(super) async fn claim_name(mut self, number: usize) -> Vec<Claim> {
        let mut claims = Vec::new();
        for round in 0..=self.random.below(3) {
            sleep(Duration::from_millis(self.random.below(2500))).await;
            let key = format!("namesake-{number}-{round}");
            let claim = self.claim(key).await;
            self.world.note(&self.who, || format!("{claim:?}"));
            claims.push(claim);
        }
        claims
    }

    /// Until it is started or refused; always under the same key.
    async fn claim(&mut self, key: String) -> Claim {
        let policy = self.random.pick(&[
            ReusePolicy::AllowDuplicate,
            ReusePolicy::RejectDuplicate,
            ReusePolicy::AllowDuplicateFailedOnly,
            ReusePolicy::AllowDuplicateFailedOnly,
            ReusePolicy::TerminateIfRunning,
        ]);
        let fails = self.random.one_in(2);
        let plan = self.short_plan(fails);
        let asked_at = self.world.now();
        let mut in_doubt = false;
        let answer = loop {
            let start = self.client().start::<planned>(plan.clone());
            let start = start.workflow_id(NAME).reuse_policy(policy);
            let start = start.idempotency_key(&key);
            match self.mortal(200, start).await {
                None => in_doubt = true,
                Some(Ok(run)) => break ClaimAnswer::Started(run.id()),
                Some(Err(error)) if error.is_retryable() => {
                    in_doubt = true;
                    sleep(AGAIN_AFTER).await;
                }
                Some(Err(error)) if error.is_conflict() => {
                    break ClaimAnswer::Refused(error.run_id());
                }
                Some(Err(error)) => {
                    let what = format!("the start of {key} cannot be made: {error}");
                    self.world.violated(what);
                    std::future::pending::<()>().await;
                }
            }
        };
        let what = match answer {
            ClaimAnswer::Started(_) => Happening::NameTaken,
            ClaimAnswer::Refused(_) => Happening::NameRefused,
        };
        self.world.count(what, 1);
        Claim {
            key,
            policy,
            fails,
            asked_at,
            told_at: self.world.now(),
            in_doubt,
            answer,
        }
    }

    fn short_plan(&mut self, fails: bool) -> Plan {
        let millis = 1 + self.random.below(2500);
        let mut deeds = vec![Deed::Sleep { millis }];
        if fails {
            let message = "as planned".to_owned();
            deeds.push(Deed::Fail { message });
        }
        Plan {
            number: FIRST_NUMBER,
            deeds,
            cleanup: Vec::new(),
        }
    }
}
