//! Puts many dead letters back, one after the other and not all at once.

use std::time::Duration;

use super::Client;
use crate::Result;
use crate::persistence::limits::PAGE_ROWS_MAX;
use crate::persistence::model::{DeadLetterState, DlqFilter, Page};

/// How many dead letters are put back, and how fast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequeueOptions {
    /// Most letters; none: all that match.
    pub limit: Option<usize>,
    /// Most letters a second. What failed together would come back together, upon what has perhaps just recovered.
    pub per_second: u32,
}

impl Default for RequeueOptions {
    fn default() -> Self {
        Self {
            limit: None,
            per_second: 50,
        }
    }
}

/// What became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequeueOutcome {
    /// Letters whose activities are tried again.
    pub requeued: u64,
    /// Letters that nothing could be done about: their runs have ended or gone on, or somebody decided meanwhile.
    pub passed_over: u64,
}

impl Client {
    /// [`Client::requeue_dead_letter`] for all that match, newest first, at the pace that the options say. Letters of those that die again meanwhile are
    /// left alone.
    ///
    /// # Errors
    /// The store's. Call again to go on: what was put back no longer matches.
    pub async fn requeue_dead_letters(
        &self,
        filter: DlqFilter,
        options: RequeueOptions,
    ) -> Result<RequeueOutcome> {
        let began = self.store().clock(None).await?;
        let mut filter = DlqFilter {
            state: Some(DeadLetterState::Dead),
            dead_before: Some(filter.dead_before.map_or(began, |at| at.min(began))),
            ..filter
        };
        let pause = Duration::from_secs(1) / options.per_second.max(1);
        let mut left = options.limit.unwrap_or(usize::MAX);
        let mut outcome = RequeueOutcome::default();
        loop {
            let page = Page::first(left.min(PAGE_ROWS_MAX));
            let letters = match page.limit {
                0 => Vec::new(),
                _ => self.list_dead_letters(filter.clone(), page).await?,
            };
            let Some(last) = letters.last() else {
                return Ok(outcome);
            };
            // Those that stay are not met again.
            filter.after = Some(last.rank());
            for letter in letters {
                left -= 1;
                match self.requeue_dead_letter(letter.run_id, letter.id).await {
                    Ok(()) => outcome.requeued += 1,
                    Err(error) if error.is_retryable() && !error.is_conflict() => {
                        return Err(error);
                    }
                    Err(_) => outcome.passed_over += 1,
                }
                self.shared.runtime.sleep(pause).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use durable_core::{
        ActivityOptions, ExhaustedPolicy, Failure, Payload, RetryPolicy, WorkflowEvent,
    };
    use tokio::time::Instant;
    use uuid::Uuid;

    use super::*;
    use crate::persistence::model::{
        ClaimTasks, NewTask, StartRun, TaskOutcome, TaskResult, TerminateRun, TurnCommit,
    };
    use crate::persistence::{MemoryStore, WorkerPort as _, WorkflowEventStore as _};

    /// A run that waits for the dead letters of so many activities.
    async fn parked(store: &MemoryStore, run: u128, letters: u128) -> Uuid {
        let run_id = Uuid::from_u128(run);
        let start = StartRun::new(run_id, "order", Payload::ABSENT);
        store.start_runs(vec![start], None).await.unwrap();
        let record = store.get_run(run_id).await.unwrap().unwrap();
        let mut turn = TurnCommit::new(&record, Uuid::from_u128(run));
        turn.events = vec![WorkflowEvent::SideEffectRecorded {
            effect_id: "e".to_owned(),
            value: Payload::ABSENT,
        }];
        let tasks = (0..letters).map(|n| NewTask {
            task_id: Uuid::from_u128(run * 1_000 + n),
            activity_id: format!("a{n}"),
            activity_type: "charge".to_owned(),
            input: Payload::ABSENT,
            options: ActivityOptions {
                retry_policy: RetryPolicy::never(),
                on_exhausted: ExhaustedPolicy::Park,
                sequential: false,
                ..ActivityOptions::default()
            },
            delay: None,
            lease: false,
            trace: None,
        });
        turn.tasks = tasks.collect();
        store.commit_turns(vec![turn], None).await.unwrap();
        let claim = ClaimTasks {
            worker_id: "w".to_owned(),
            activity_types: vec!["charge".to_owned()],
            max: 1_000,
            lease: Duration::from_secs(60),
            token: Uuid::from_u128(run),
            first_shard: 0,
            now: None,
        };
        let claimed = store.claim_tasks(claim).await.unwrap();
        let failed = claimed.into_iter().map(|task| TaskResult {
            lease: task.lease,
            outcome: TaskOutcome::Failed {
                failure: Failure::new("Down", "not there"),
            },
            jitter: 0.0,
            step_logs: Vec::new(),
        });
        store.finish_tasks(failed.collect(), None).await.unwrap();
        run_id
    }

    #[tokio::test(start_paused = true)]
    async fn letters_are_put_back_one_after_the_other_and_hopeless_ones_passed_over() {
        let store = Arc::new(MemoryStore::new());
        parked(&store, 1, 12).await;
        let ended = parked(&store, 2, 2).await;
        let end = TerminateRun {
            run_id: ended,
            reason: "no more".to_owned(),
        };
        store.terminate_runs(vec![end], None).await.unwrap();
        let client = Client::on(store.clone());
        let began = Instant::now();
        let some = RequeueOptions {
            limit: Some(4),
            per_second: 10,
        };
        let all = DlqFilter::default();
        let outcome = client.requeue_dead_letters(all.clone(), some.clone()).await;
        let outcome = outcome.unwrap();
        assert_eq!(outcome.requeued + outcome.passed_over, 4);
        let rest = RequeueOptions {
            limit: None,
            ..some
        };
        let more = client.requeue_dead_letters(all.clone(), rest.clone()).await;
        let more = more.unwrap();
        assert_eq!(
            (outcome.requeued + more.requeued, more.passed_over),
            (12, 2)
        );
        assert!(
            began.elapsed() >= Duration::from_millis(100) * 14,
            "ten a second"
        );
        let again = client.requeue_dead_letters(all, rest).await.unwrap();
        assert_eq!((again.requeued, again.passed_over), (0, 2));
    }
}
