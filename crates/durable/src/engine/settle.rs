//! Commits a set of turns and settles what follows from each outcome.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use durable_core::{Failure, ProgramState};
use tracing::{debug, error, warn};
use uuid::Uuid;

use super::beginning::AskedBy;
use super::cache::Kept;
use super::desk::Wanted;
use super::hand_over::HandOver;
use super::stops::Stops;
use super::too_large::{failing, failure_of, too_many_attributes};
use super::turner::{Decided, Fault, Turner};
use crate::persistence::model::{
    Committed, Next, Rejection, RunRecord, TaskPlace, TurnCommit, TurnOutcome,
};
use crate::persistence::{AsideKind, Bug, StoreError, planted};
use crate::worker::Finished;

/// First wait before a set is committed again after the store could not be reached; doubles up to the largest.
const RETRY_MS_FIRST: u64 = 20;
/// Largest such wait.
const RETRY_MS_MAX: u64 = 2_000;
/// Tries of a set that fails although the store answers, before its parts are tried on their own.
const TRIES_TOGETHER: u32 = 6;
/// Wait before a run is read again that cannot be read although the store answers.
const UNREADABLE_AGAIN: Duration = Duration::from_secs(1);
/// The name under which an operator is told of turns that cannot be committed.
const TROUBLE: &str = "turns";
/// Open activities whose types are told when a line moves up: a long line would make each of its steps dear.
const LINE_TYPES_MAX: usize = 32;

impl Turner {
    /// Commits; programs that wait for more stay in memory. Answers the turns whose runs another
    /// transaction has locked: nothing became of them yet, and the others went on without them.
    pub(super) async fn commit(&self, mut decided: Vec<Decided>) -> Vec<Decided> {
        if decided.is_empty() {
            return Vec::new();
        }
        if planted(Bug::ListenerToldEarly) {
            decided.iter().for_each(|turn| self.tell(turn, None));
        }
        let runs = decided.iter().map(|turn| turn.commit.run_id);
        let _told_in_order = self.node.listeners.hold(runs);
        let stops = decided
            .iter()
            .map(|turn| Stops::of(&self.node, &turn.commit));
        let stops: Vec<Stops> = stops.collect();
        match self.commit_until_known(&mut decided).await {
            Ok(outcomes) => {
                let mut locked = Vec::new();
                for ((turn, outcome), stops) in decided.into_iter().zip(outcomes).zip(stops) {
                    match outcome {
                        TurnOutcome::Committed(committed) => {
                            self.settle_committed(turn, committed, &stops);
                        }
                        // It is started on its own, or was meanwhile.
                        TurnOutcome::Rejected(_) if turn.asked_by.is_some() => {}
                        TurnOutcome::Rejected(why) => {
                            locked.extend(self.settle_rejected(turn, &why).await);
                        }
                    }
                }
                locked
            }
            Err(StoreError::Busy { runs }) => self.commit_without(decided, &runs).await,
            Err(error) if decided.len() > 1 => {
                // One of them is refused and takes the others with it: each on its own.
                warn!(%error, turns = decided.len(), "a set of turns was refused; committing one by one");
                let mut locked = Vec::new();
                for turn in decided.drain(..) {
                    locked.extend(Box::pin(self.commit(vec![turn])).await);
                }
                locked
            }
            Err(error) => {
                let turn = decided.remove(0);
                if turn.asked_by.is_some() {
                    // Whoever starts it on its own is told.
                    debug!(run_id = %turn.commit.run_id, %error, "the run is not started with its turn");
                    return Vec::new();
                }
                if !turn.finished.is_empty() {
                    // What ended here goes by the inbox: the result is what cannot be stored, or the next turn is refused without it.
                    debug!(run_id = %turn.commit.run_id, %error, "the turn is taken apart");
                    self.node.results.store(turn.finished);
                    return Vec::new();
                }
                if let Some(failure) = failure_of(&error)
                    && !matches!(turn.commit.next, Next::Fail { .. })
                {
                    return self.fail_over_limit(turn, failure).await;
                }
                let reason = format!("the turn cannot be stored: {error}");
                let fault = Fault::new(&turn.place, reason, turn.finished);
                self.block(fault).await;
                Vec::new()
            }
        }
    }

    /// Commits, in place of a turn that the store refused for a limit, one that fails the run.
    async fn fail_over_limit(&self, mut turn: Decided, failure: Failure) -> Vec<Decided> {
        let run_id = turn.commit.run_id;
        warn!(%run_id, error = %failure.message, "the run fails: its turn is over a limit");
        let turn_id = self.node.runtime.new_id();
        turn.commit = failing(&turn.commit, failure, turn_id);
        turn.hand_over = HandOver::default();
        Box::pin(self.commit(vec![turn])).await
    }

    /// Commits the turns whose runs are not locked, and answers the others.
    async fn commit_without(&self, decided: Vec<Decided>, locked: &[Uuid]) -> Vec<Decided> {
        let is_locked = |turn: &Decided| locked.contains(&turn.commit.run_id);
        let (mut aside, mut others): (Vec<_>, Vec<_>) = decided.into_iter().partition(is_locked);
        debug!(
            turns = aside.len(),
            "another transaction has the runs of turns locked"
        );
        if aside.is_empty() {
            // It is not known which: the halves tell.
            let half = others.split_off(others.len() / 2);
            if others.is_empty() {
                return half;
            }
            aside = Box::pin(self.commit(half)).await;
        }
        aside.extend(Box::pin(self.commit(others)).await);
        aside
    }

    /// Sends the same turns until the store says what became of them: their ids make that safe.
    ///
    /// # Errors
    /// What the store refuses; [`StoreError::Busy`] also where the set fails again and again although
    /// the store answers, so that one of the turns may be at fault: the halves tell which, and that
    /// one is tried again apart from the others.
    async fn commit_until_known(
        &self,
        decided: &mut [Decided],
    ) -> Result<Vec<TurnOutcome>, StoreError> {
        if let [turn] = &mut *decided
            && let Some(outcome) = commit_elsewhere(turn).await
        {
            return Ok(vec![outcome]);
        }
        let runtime = &self.node.runtime;
        let mut wait_ms = RETRY_MS_FIRST;
        let mut failures = 0;
        loop {
            let commits = decided.iter().map(|turn| turn.commit.clone()).collect();
            match self.node.store.commit_turns(commits, None).await {
                Ok(outcomes) => {
                    if failures > 0 {
                        self.node.hub.troubles.succeeded(TROUBLE);
                    }
                    return Ok(outcomes);
                }
                Err(_) if planted(Bug::UnknownCommitTakenAsDone) => {
                    return Ok(decided
                        .iter()
                        .map(|turn| taken_as_done(&turn.commit))
                        .collect());
                }
                // Nothing was written by this try, and the turns' ids tell if an earlier one was
                // carried out.
                Err(error @ StoreError::Busy { .. }) => return Err(error),
                Err(error) if error.is_retryable() || error.is_outcome_unknown() => {
                    if planted(Bug::UnknownCommitMadeAnew) {
                        for turn in decided.iter_mut() {
                            turn.commit.turn_id = runtime.new_id();
                        }
                    }
                    failures += 1;
                    if failures >= TRIES_TOGETHER && self.node.store.clock(None).await.is_ok() {
                        return Err(self.one_at_fault(decided, &error));
                    }
                    debug!(%error, wait_ms, "the commit is tried again");
                    runtime
                        .sleep(runtime.jittered(Duration::from_millis(wait_ms)))
                        .await;
                    wait_ms = (wait_ms * 2).min(RETRY_MS_MAX);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// One of these turns cannot be committed. Alone, it is named: operators see it among what is
    /// set aside until it goes through.
    fn one_at_fault(&self, decided: &[Decided], error: &StoreError) -> StoreError {
        let node = &self.node;
        let told = node.hub.troubles.failed(TROUBLE, error.to_string());
        if let Some(times) = told {
            warn!(%error, turns = decided.len(), times, "turns cannot be committed although the store answers");
        }
        let mut runs = Vec::new();
        if let [turn] = decided {
            let run_id = turn.commit.run_id;
            runs.push(run_id);
            if let Some(asides) = node.store.asides() {
                asides.note(
                    AsideKind::Turn,
                    run_id,
                    error.to_string(),
                    node.runtime.now(),
                );
            }
        }
        StoreError::Busy { runs }
    }

    /// Tells listeners what a turn came to.
    fn tell(&self, turn: &Decided, last: Option<i64>) {
        let workflow_type = turn.program.program().workflow_type();
        let iteration = turn.program.identity().iteration;
        let listeners = &self.node.listeners;
        listeners.turned(workflow_type, iteration, &turn.commit, last);
    }

    fn settle_committed(&self, turn: Decided, committed: Committed, stops: &Stops) {
        if !planted(Bug::ListenerToldEarly) {
            self.tell(&turn, Some(committed.sequence));
        }
        let Decided {
            mut commit,
            program,
            mut place,
            finished,
            hand_over,
            asked_by,
        } = turn;
        asked_by.into_iter().for_each(AskedBy::tell);
        let node = &self.node;
        let run_id = commit.run_id;
        // Only now are the slots free: the results are stored.
        let slots = finished.into_iter().map(|finished| finished.slot).collect();
        self.announce_due(&commit, &committed);
        if committed.has_messages || committed.repeated && may_have_messages(&commit) {
            node.hub.messages.notify_one();
        }
        for activity_id in &commit.cancelled_activities {
            stops.activity(activity_id);
        }
        let line_moved = committed.line_moved || committed.repeated;
        self.announce_line(&program, line_moved, commit.facts_through > place.consumed);
        hand_over.deliver(
            node,
            std::mem::take(&mut commit.tasks),
            committed.tasks,
            slots,
        );
        node.hub
            .turned(run_id, &commit.next, !commit.updates.is_empty());
        match commit.next {
            Next::Wait => {
                if committed.arrivals > commit.facts_through {
                    node.hub.desk.ring([run_id]);
                }
                place.sequence = committed.sequence;
                place.consumed = commit.facts_through;
                if self.cache.keeps_any() {
                    self.keep(program, place);
                }
            }
            Next::ContinueAsNew { .. } | Next::Reset { .. } => {
                stops.all();
                node.hub.desk.ring([run_id]);
            }
            Next::Complete { .. } | Next::Fail { .. } | Next::Cancel { .. } => stops.all(),
        }
    }

    /// The next of the run's line may be claimed, now or since a fact that was taken came in. Which one it is the store knows; the open
    /// activities tell the type and how long it may wait, as far as that matters.
    fn announce_line(&self, program: &ProgramState, moved: bool, took_facts: bool) {
        if !moved && !took_facts {
            return;
        }
        let open = program.history().pending_activities().take(LINE_TYPES_MAX);
        let in_line: Vec<(&str, Duration)> = open
            .filter_map(|(_, open)| Some((&*open.activity_type, open.at_head_max?)))
            .collect();
        let Some(first) = in_line.iter().map(|(_, at_head_max)| *at_head_max).min() else {
            return;
        };
        let hub = &self.node.hub;
        hub.due.due_in(self.node.runtime.instant(), first);
        if moved {
            let types: BTreeSet<&str> = in_line.into_iter().map(|(name, _)| name).collect();
            hub.claimable(types);
        }
    }

    /// When the first of the new clocks runs out, as far as can be told from here.
    fn announce_due(&self, commit: &TurnCommit, committed: &Committed) {
        let timers = commit.timers.iter().map(|timer| timer.after);
        let tasks = commit
            .tasks
            .iter()
            .zip(&committed.tasks)
            .flat_map(|(task, placed)| {
                let options = &task.options;
                let own = match placed.place {
                    TaskPlace::Leased { .. } => Some(options.silent_attempt_max()),
                    TaskPlace::Claimable => Some(options.schedule_to_start_timeout),
                    TaskPlace::Waiting => task.delay,
                };
                [own, options.schedule_to_close_timeout]
                    .into_iter()
                    .flatten()
            });
        if let Some(first) = timers.chain(tasks).min() {
            self.node.hub.due.due_in(self.node.runtime.instant(), first);
        }
    }

    /// Answers the turn that fails the run in place of this one, if the run is locked by another
    /// transaction.
    async fn settle_rejected(&self, turn: Decided, rejection: &Rejection) -> Vec<Decided> {
        let run_id = turn.commit.run_id;
        debug!(%run_id, %rejection, "the turn was not accepted");
        match rejection {
            Rejection::NotFound | Rejection::NotStarted(_) => {}
            Rejection::RunFinished { .. } => {
                self.node.cancel_run(run_id);
                self.node.hub.finished(&[run_id]);
            }
            Rejection::LeaseLost { task_id } => {
                let mut finished = turn.finished;
                finished.retain(|finished| finished.task.lease.task_id != *task_id);
                self.once_more(run_id, finished);
            }
            Rejection::Epoch { .. }
            | Rejection::Sequence { .. }
            | Rejection::Facts { .. }
            | Rejection::UnseenFacts { .. }
            | Rejection::TimerNotDue { .. } => {
                if planted(Bug::CachedProgramAfterConflict) {
                    let kept = Kept {
                        program: turn.program,
                        place: turn.place,
                    };
                    self.cache.keep(kept, self.node.runtime.instant());
                }
                self.once_more(run_id, turn.finished);
            }
            Rejection::IdInUse { .. } | Rejection::ResetOutside { .. } => {
                let reason = format!("the turn is not possible: {rejection}");
                let fault = Fault::new(&turn.place, reason, turn.finished);
                self.block(fault).await;
            }
            Rejection::Attributes { found } => {
                let failure = too_many_attributes(*found);
                return self.fail_over_limit(turn, failure).await;
            }
        }
        Vec::new()
    }

    pub(super) fn once_more(&self, run_id: Uuid, finished: Vec<Finished>) {
        let wanted = Wanted {
            rung: true,
            finished,
            ..Wanted::default()
        };
        self.node.hub.desk.again(run_id, wanted);
    }

    /// The store could not be read: the runs come again after a moment, with all they brought.
    pub(super) async fn put_off(
        &self,
        runs: Vec<(Uuid, Option<Kept>, Wanted)>,
        error: &StoreError,
    ) {
        if error.is_retryable() {
            debug!(%error, runs = runs.len(), "turns are put off");
        } else {
            error!(%error, runs = runs.len(), "turns are put off");
        }
        let runtime = &self.node.runtime;
        runtime
            .sleep(runtime.jittered(Duration::from_millis(100)))
            .await;
        for (run_id, _, wanted) in runs {
            let Wanted {
                claimed, finished, ..
            } = wanted;
            drop(claimed);
            self.once_more(run_id, finished);
        }
    }

    /// A run that cannot be read although the store answers comes again after a longer moment,
    /// during which no committer waits for it.
    pub(super) fn put_off_alone(&self, run_id: Uuid, wanted: Wanted, error: &StoreError) {
        warn!(%run_id, %error, "the run cannot be read although the store answers; it is tried again");
        let node = Arc::clone(&self.node);
        self.node.runtime.spawn(async move {
            let runtime = &node.runtime;
            runtime.sleep(runtime.jittered(UNREADABLE_AGAIN)).await;
            let wanted = Wanted {
                rung: true,
                finished: wanted.finished,
                ..Wanted::default()
            };
            node.hub.desk.again(run_id, wanted);
        });
    }

    /// Runs of which something stored cannot be read by this build, such as a fact that a newer one wrote: blocked, if at least
    /// the run itself can be read. They come again when somebody rings or claims.
    pub(super) async fn set_aside(
        &self,
        runs: Vec<(Uuid, Option<Kept>, Wanted)>,
        error: &StoreError,
    ) {
        for (run_id, _, wanted) in runs {
            match self.node.store.get_run(run_id).await {
                Ok(Some(run)) => {
                    let reason = format!("it cannot be read: {error}");
                    let fault = Fault::of_run(&self.node, &run, reason, wanted.finished);
                    self.block(fault).await;
                }
                Ok(None) => debug!(%run_id, "the run does not exist any more"),
                Err(worse) => {
                    error!(%run_id, %error, %worse, "the run cannot be read");
                    self.node.results.store(wanted.finished);
                }
            }
        }
    }

    /// Whether this process should take the run's turns: it hosts the code, may try, and nobody else is at it.
    pub(super) fn is_for_us(&self, run: &RunRecord) -> bool {
        let node = &self.node;
        let owned_elsewhere = run.owner.as_ref().is_some_and(|owner| {
            owner.worker_id != node.worker_id && !node.until(owner.expires_at).is_zero()
        });
        let blocked_here = run.blocked.as_ref().is_some_and(|blocked| {
            blocked.build == node.build_for(&run.workflow_type, &run.version)
        });
        !run.status.is_terminal()
            && !owned_elsewhere
            && !blocked_here
            && node.workflows.hosts(&run.workflow_type, &run.version)
    }

    /// Somebody else's run: what ended here goes to its inbox, and its owner hears of it.
    pub(super) fn leave_to_others(&self, run: &RunRecord, finished: Vec<Finished>) {
        if run.status.is_terminal() {
            self.node.cancel_run(run.id);
            self.node.hub.finished(&[run.id]);
            return;
        }
        self.node.results.store(finished);
        self.node.hub.pass_on([run.id]);
    }
}

/// Lets whoever offered the run commit its first turn. None: nobody did, or it is not known what became of it. The run may be there all the
/// same, and this is then a turn like any other; where it is not, nothing is lost.
async fn commit_elsewhere(turn: &mut Decided) -> Option<TurnOutcome> {
    let asked_by = turn
        .asked_by
        .take_if(|asked_by| matches!(asked_by, AskedBy::Offer(_)));
    let Some(AskedBy::Offer(taking)) = asked_by else {
        return None;
    };
    // They have it.
    turn.commit.start = None;
    taking.take(turn.commit.clone()).await
}

/// Whether the turn wrote messages to other runs, as far as can be told from it: a repeated commit does not say.
fn may_have_messages(commit: &TurnCommit) -> bool {
    let ends = matches!(
        commit.next,
        Next::Complete { .. } | Next::Fail { .. } | Next::Cancel { .. }
    );
    ends || !commit.children.is_empty() || !commit.signals.is_empty()
}

/// The answer that a store would have given: only to be made up by mistake.
fn taken_as_done(turn: &TurnCommit) -> TurnOutcome {
    let events = i64::try_from(turn.events.len()).unwrap_or(0);
    TurnOutcome::Committed(Committed {
        sequence: turn.expected_sequence + events,
        arrivals: turn.facts_through,
        tasks: Vec::new(),
        has_messages: true,
        line_moved: false,
        repeated: false,
    })
}
