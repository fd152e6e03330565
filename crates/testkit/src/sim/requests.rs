//! What clients do for a run besides signals: updates, queries, decisions about dead letters, retries and resets.

use std::time::Duration;

use everruns_durable::Error;
use everruns_durable::persistence::model::{DeadLetterState, DlqFilter, Page};
use serde_json::Value;
use tokio::time::sleep;
use uuid::Uuid;

use super::client::{AGAIN_AFTER, Caller};
use super::program::{Code, Decision, LetterPlan, Program, UpdatePlan};
use super::tally::Happening;

/// An update and what it was told.
#[derive(Debug)]
pub(super) struct Replied {
    pub(super) update: UpdatePlan,
    pub(super) reply: Reply,
}

/// What an update was told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Answered(i64),
    /// By the run, with an error of this type.
    Failed(String),
    /// The run was over.
    Late,
}

/// What a query saw: the iteration, and what its deeds had come to.
pub(super) type View = (u32, Vec<Value>);

impl Caller {
    pub(super) async fn update_all(&mut self, run_id: Uuid, program: &Program) -> Vec<Replied> {
        let mut replied = Vec::new();
        for update in &program.updates {
            sleep(Duration::from_millis(self.random.below(1200))).await;
            self.reaches_iteration(run_id, update.iteration).await;
            let reply = self.update(run_id, update).await;
            self.world
                .note(&self.who, || format!("{update:?}: {reply:?}"));
            let update = update.clone();
            replied.push(Replied { update, reply });
        }
        replied
    }

    /// Until it is answered; always under the same id.
    async fn update(&mut self, run_id: Uuid, update: &UpdatePlan) -> Reply {
        loop {
            let client = self.client();
            let sending = client
                .update(run_id, &update.name, &update.input)
                .id(&update.id);
            let Some(answer) = self.mortal(1500, sending.await_result::<i64>()).await else {
                continue;
            };
            match answer {
                Ok(answer) => {
                    self.world.count(Happening::UpdateAnswered, 1);
                    return Reply::Answered(answer);
                }
                Err(error) if error.is_update_failed() => {
                    let failure = error.failure();
                    let error_type = failure.map(|failure| failure.error_type.clone());
                    self.world.count(Happening::UpdateFailed, 1);
                    return Reply::Failed(error_type.unwrap_or_default());
                }
                Err(error) if error.is_run_finished() => return Reply::Late,
                // Nodes that are down come back, those of the second release too.
                Err(error)
                    if error.is_retryable()
                        || error.is_no_worker_for_type()
                        || error.is_blocked() =>
                {
                    sleep(AGAIN_AFTER).await;
                }
                Err(error) => {
                    let id = &update.id;
                    self.world
                        .violated(format!("update {id} cannot be sent: {error}"));
                    return Reply::Late;
                }
            }
        }
    }

    /// Asks for the state of a run now and then.
    pub(super) async fn ask(&mut self, run_id: Uuid, program: &Program) -> Vec<View> {
        let mut views = Vec::new();
        if matches!(program.code, Code::Script(_)) || !self.random.one_in(3) {
            return views;
        }
        for _ in 0..=self.random.below(3) {
            sleep(Duration::from_millis(self.random.below(2500))).await;
            let client = self.client();
            match client.query::<View>(run_id, "results", &()).await {
                Ok(view) => {
                    self.world.count(Happening::QueryAnswered, 1);
                    self.world.note(&self.who, || format!("sees {view:?}"));
                    views.push(view);
                }
                // It has not begun, it is over, or the store cannot be reached: there is nothing to see.
                Err(error) => self
                    .world
                    .note(&self.who, || format!("sees nothing: {error}")),
            }
        }
        let nobodys = self.client().query::<Value>(run_id, "nobody's", &()).await;
        match nobodys {
            Err(error) if error.is_query_not_found() => {
                self.world.count(Happening::QueryUnknown, 1);
            }
            Err(_) => {}
            Ok(answer) => self
                .world
                .violated(format!("a query that nobody set up answered {answer}")),
        }
        views
    }

    pub(super) async fn decide_letters(&mut self, run_id: Uuid, program: &Program) {
        for letter in &program.letters {
            while !self.decide_letter(run_id, letter).await {
                sleep(AGAIN_AFTER).await;
            }
        }
    }

    /// Whether nothing is left to decide.
    async fn decide_letter(&mut self, run_id: Uuid, plan: &LetterPlan) -> bool {
        let client = self.client();
        if client
            .get(run_id)
            .await
            .is_ok_and(|run| run.status.is_terminal())
        {
            return true;
        }
        let dead = DlqFilter {
            run_id: Some(run_id),
            state: Some(DeadLetterState::Dead),
            ..DlqFilter::default()
        };
        let Ok(letters) = client.list_dead_letters(dead, Page::default()).await else {
            return false;
        };
        let mut marked = None;
        for listed in letters.iter().filter(|letter| letter.parked) {
            // Lists hold no inputs.
            let Ok(Some(letter)) = client.get_dead_letter(listed.id).await else {
                return false;
            };
            let input = letter.input.to_value::<String>();
            if input.is_ok_and(|input| input == plan.marker) {
                marked = Some(letter);
            }
        }
        let Some(letter) = marked else {
            return false;
        };
        let decided = match plan.decision {
            Decision::Requeue => {
                self.world.remedies.mend(&plan.marker);
                client.requeue_dead_letter(run_id, letter.id).await
            }
            Decision::Complete => {
                let done = client.complete_dead_letter(run_id, letter.id, &"by hand");
                done.await
            }
            Decision::Discard => client.discard_dead_letter(run_id, letter.id).await,
        };
        self.done(
            "a decision about a dead letter",
            Happening::LetterDecided,
            decided,
        )
    }

    /// Tries a failed run again, until that is acknowledged.
    pub(super) async fn retry(&mut self, run_id: Uuid) {
        loop {
            let client = self.client();
            let Some(retried) = self.mortal(300, client.retry(run_id)).await else {
                continue;
            };
            // A repeat after an unknown outcome finds nothing to retry.
            if self.done("a retry", Happening::RunRetried, retried) {
                return;
            }
            sleep(AGAIN_AFTER).await;
        }
    }

    /// Takes a run back to some event of its history, once, if it lets itself be taken.
    pub(super) async fn reset(&mut self, run_id: Uuid, program: &Program) {
        if !program.resets {
            return;
        }
        sleep(Duration::from_millis(300 + self.random.below(3000))).await;
        let client = self.client();
        let Ok(run) = client.get(run_id).await else {
            return;
        };
        let events = u64::try_from(run.sequence - run.history_start).unwrap_or(0);
        let back = i64::try_from(self.random.below(events)).unwrap_or(0);
        let reset = client.reset_to(run_id, run.history_start + 1 + back).await;
        match reset {
            Ok(()) => {
                self.world.count(Happening::RunReset, 1);
                self.world.note(&self.who, || {
                    format!("reset run {run_id} to its event {}", back + 1)
                });
            }
            Err(error) => self
                .world
                .note(&self.who, || format!("reset refused: {error}")),
        }
    }

    /// Whether it need not be tried again.
    fn done(&self, what: &str, happening: Happening, outcome: Result<(), Error>) -> bool {
        match outcome {
            Ok(()) => {
                self.world.count(happening, 1);
                true
            }
            Err(error) if error.is_conflict() || error.is_run_finished() => true,
            Err(error) if error.is_retryable() => false,
            Err(error) => {
                self.world.violated(format!("{what} is refused: {error}"));
                true
            }
        }
    }
}
