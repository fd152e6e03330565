//! Many at once: no deadlock, one winner for each race.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use durable_core::{Timestamp, WorkflowEvent};
use everruns_durable::persistence::WorkflowEventStore;
use everruns_durable::persistence::model::{
    ClaimTasks, FinishOutcome, FireDue, LeaseExtension, LeaseState, Next, ReapLeases, Rejection,
    RunRecord, SendOutcome, SendRejection, SendSignal, TaskLease, TaskOutcome, TaskResult,
    TerminateOutcome, TerminateRun, TurnCommit, TurnOutcome, WorkflowStatus,
};
use uuid::Uuid;

use crate::World;
use crate::world::{LEASE, at_once, json, one};

claims! { "concurrency":
    sixteen_committers_over_overlapping_runs_never_deadlock,
    concurrent_claimers_never_get_the_same_task,
    concurrent_claimers_never_get_the_same_turn,
    concurrent_results_of_one_lease_have_one_winner,
    the_line_holds_under_many_workers,
    a_signal_that_races_with_the_end_is_in_the_history_or_refused,
    the_first_end_of_a_run_wins,
    reaper_worker_and_heartbeat_agree_on_one_outcome,
    many_that_fire_the_same_timers_fire_each_once,
    committers_and_reporters_of_one_run_never_deadlock,
}

type Store = Arc<dyn WorkflowEventStore>;

/// A small generator of its own, so that every run of the suite shuffles alike.
struct Shuffle(u64);

impl Shuffle {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.0 >> 33).expect("31 bits") % below
    }

    fn pick(&mut self, from: &[Uuid], count: usize) -> Vec<Uuid> {
        let mut all = from.to_vec();
        for i in (1..all.len()).rev() {
            all.swap(i, self.next(i + 1));
        }
        all.truncate(count);
        all
    }
}

/// A turn with an id of the caller's and one event that names it.
fn turn_of(run: &RunRecord, turn_id: Uuid) -> TurnCommit {
    let mut turn = TurnCommit::new(run, turn_id);
    turn.facts_through = run.arrivals;
    turn.events.push(WorkflowEvent::SideEffectRecorded {
        effect_id: turn_id.to_string(),
        value: json("1"),
    });
    turn
}

/// Commits turns of sets of eight runs, again and again; the turns that were accepted, by run and sequence.
async fn commit_rounds(
    store: Store,
    runs: Vec<Uuid>,
    committer: u64,
    now: Option<Timestamp>,
) -> Vec<(Uuid, i64, Uuid)> {
    let mut shuffle = Shuffle(committer);
    let mut accepted = Vec::new();
    for round in 0..30_u64 {
        let set = shuffle.pick(&runs, 8);
        let loaded = store.load_turns(&set).await.expect("load_turns");
        let turns: Vec<TurnCommit> = (0_u64..)
            .zip(loaded)
            .map(|(i, run)| {
                let run = run.expect("the run exists").run;
                let id = (u128::from(committer) << 64) + u128::from(round * 8 + i) + 1;
                turn_of(&run, Uuid::from_u128(id))
            })
            .collect();
        let outcomes = store.commit_turns(turns.clone(), now).await;
        let outcomes = outcomes.expect("a conflict is an outcome, never an error");
        for (turn, outcome) in turns.iter().zip(outcomes) {
            match outcome {
                TurnOutcome::Committed(committed) => {
                    assert_eq!(committed.sequence, turn.expected_sequence + 1);
                    accepted.push((turn.run_id, committed.sequence, turn.turn_id));
                }
                TurnOutcome::Rejected(Rejection::Sequence { found }) => {
                    assert!(found > turn.expected_sequence);
                }
                TurnOutcome::Rejected(other) => panic!("unexpected: {other}"),
            }
        }
    }
    accepted
}

async fn sixteen_committers_over_overlapping_runs_never_deadlock(w: &World) {
    let mut runs = Vec::new();
    for _ in 0..12 {
        runs.push(w.start().await);
    }
    let committers =
        (1..=16).map(|committer| commit_rounds(w.store.clone(), runs.clone(), committer, w.now()));
    let accepted = at_once(committers.collect()).await.concat();
    let mut by_run: BTreeMap<Uuid, BTreeMap<i64, Uuid>> = BTreeMap::new();
    for (run_id, sequence, turn_id) in accepted {
        let former = by_run.entry(run_id).or_default().insert(sequence, turn_id);
        assert_eq!(former, None, "two turns won sequence {sequence}");
    }
    for run_id in runs {
        let history = w.stored_events(run_id).await;
        let won = by_run.remove(&run_id).expect("every run was turned");
        let stored: BTreeMap<i64, String> = history
            .iter()
            .map(|e| match &e.event {
                WorkflowEvent::SideEffectRecorded { effect_id, .. } => {
                    (e.sequence_num, effect_id.clone())
                }
                other => panic!("nobody wrote {other:?}"),
            })
            .collect();
        let won: BTreeMap<i64, String> =
            won.into_iter().map(|(s, id)| (s, id.to_string())).collect();
        assert_eq!(stored, won, "the history is what the winners wrote");
        let last = i64::try_from(history.len()).expect("few events");
        assert!(won.keys().copied().eq(1..=last), "no gap");
    }
}

/// Claims by a number of workers at once, three tasks a time, until none is left.
async fn claim_all(w: &World, workers: usize) -> Vec<TaskLease> {
    let claims = (0..workers).map(|worker| ClaimTasks {
        worker_id: format!("worker-{worker}"),
        first_shard: u16::try_from(worker).expect("few workers"),
        ..w.new_claim(3)
    });
    let workers = claims.map(|claim| {
        let store = w.store.clone();
        async move {
            let mut leases = Vec::new();
            loop {
                let tasks = store.claim_tasks(claim.clone()).await.expect("claims");
                if tasks.is_empty() {
                    return leases;
                }
                leases.extend(tasks.into_iter().map(|task| task.lease));
            }
        }
    });
    at_once(workers.collect()).await.concat()
}

async fn concurrent_claimers_never_get_the_same_task(w: &World) {
    let mut queued = BTreeSet::new();
    for _ in 0..20 {
        let tasks: Vec<_> = (0..10)
            .map(|i| w.parallel_task(&format!("task-{i}")))
            .collect();
        queued.extend(tasks.iter().map(|task| task.task_id));
        w.start_with_tasks(tasks).await;
    }
    let mut leases = claim_all(w, 8).await;
    // A claim passes over what another has in its hands: what is left then is for the next.
    leases.extend(claim_all(w, 1).await);
    assert_eq!(leases.len(), queued.len(), "none twice");
    let claimed: BTreeSet<Uuid> = leases.iter().map(|lease| lease.task_id).collect();
    assert_eq!(claimed, queued);
}

async fn concurrent_claimers_never_get_the_same_turn(w: &World) {
    let mut started = BTreeSet::new();
    for _ in 0..60 {
        started.insert(w.start().await);
    }
    let claimers = (0..8).map(|_| {
        let (store, claim) = (w.store.clone(), w.new_turn_claim(5));
        async move {
            let mut runs = Vec::new();
            loop {
                let turns = store.claim_turns(claim.clone()).await.expect("claims");
                if turns.is_empty() {
                    return runs;
                }
                runs.extend(turns.into_iter().map(|turn| turn.run.id));
            }
        }
    });
    let mut claimed: Vec<Uuid> = at_once(claimers.collect()).await.concat();
    claimed.extend(w.claim_turns(60).await.iter().map(|turn| turn.run.id));
    assert_eq!(claimed.len(), started.len(), "none twice");
    assert_eq!(claimed.into_iter().collect::<BTreeSet<_>>(), started);
}

fn result(lease: &TaskLease, text: &str) -> TaskResult {
    TaskResult {
        lease: lease.clone(),
        outcome: TaskOutcome::Completed { result: json(text) },
        jitter: 0.5,
        step_logs: vec![],
    }
}

async fn concurrent_results_of_one_lease_have_one_winner(w: &World) {
    for _ in 0..20 {
        let run_id = w.start_with_tasks(vec![w.task("a")]).await;
        let lease = w.claim_one().await.lease;
        let now = w.now();
        let reporters = (0..8).map(|i| {
            let (store, result) = (w.store.clone(), result(&lease, &format!("{i}")));
            async move { one(store.finish_tasks(vec![result], now).await) }
        });
        let outcomes = at_once(reporters.collect()).await;
        let recorded = FinishOutcome::Recorded {
            arrival: 1,
            line_moved: false,
        };
        let winners: Vec<usize> = (0..8).filter(|i| outcomes[*i] == recorded).collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        let lost = outcomes.iter().filter(|o| **o == FinishOutcome::LeaseLost);
        assert_eq!(lost.count(), 7);
        let facts = w.waiting(run_id).await.facts;
        assert_eq!(facts.len(), 1);
        let told = json(&winners[0].to_string());
        assert_eq!(facts[0].event.payload(), Some(&told), "the winner's");
    }
}

async fn the_line_holds_under_many_workers(w: &World) {
    const TASKS: usize = 40;
    let tasks: Vec<_> = (0..TASKS).map(|i| w.task(&format!("{i:02}"))).collect();
    let run_id = w.start_with_tasks(tasks).await;
    let done = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let now = w.now();
    let workers = (0..8).map(|_| {
        let (store, done, claim) = (w.store.clone(), done.clone(), w.new_claim(10));
        async move {
            while done.lock().len() < TASKS {
                let tasks = store.claim_tasks(claim.clone()).await.expect("claims");
                assert!(tasks.len() <= 1, "two of one line at the same time");
                for task in tasks {
                    // Before the result is stored: whoever gets the next one must see this one here.
                    done.lock().push(task.activity_id.clone());
                    let result = result(&task.lease, "1");
                    let outcome = one(store.finish_tasks(vec![result], now).await);
                    assert!(matches!(outcome, FinishOutcome::Recorded { .. }));
                }
                tokio::task::yield_now().await;
            }
        }
    });
    at_once(workers.collect()).await;
    let expected: Vec<_> = (0..TASKS).map(|i| format!("{i:02}")).collect();
    assert_eq!(*done.lock(), expected, "in the order queued");
    assert_eq!(w.waiting(run_id).await.facts.len(), TASKS);
}

async fn a_signal_that_races_with_the_end_is_in_the_history_or_refused(w: &World) {
    let now = w.now();
    for _ in 0..40 {
        let run_id = w.start().await;
        let turn = World::completing(w.turn(run_id).await);
        let signal = w.new_signal("hello");
        let sender = w.store.clone();
        let sending = tokio::spawn(async move {
            let sent = SendSignal { run_id, signal };
            one(sender.send_signals(vec![sent], now).await)
        });
        let ended = w.commit(turn).await;
        let sent = sending.await.expect("the sender does not panic");
        let status = WorkflowStatus::Completed;
        match sent {
            SendOutcome::Accepted { arrival: 1 } => {
                let unseen = Rejection::UnseenFacts { arrivals: 1 };
                assert_eq!(ended, TurnOutcome::Rejected(unseen));
                assert_eq!(w.waiting(run_id).await.facts.len(), 1);
            }
            SendOutcome::Rejected(SendRejection::RunFinished { status: found }) => {
                assert_eq!(found, status);
                assert!(matches!(ended, TurnOutcome::Committed(_)));
            }
            other => panic!("neither taken nor refused: {other:?}"),
        }
    }
}

async fn the_first_end_of_a_run_wins(w: &World) {
    let now = w.now();
    for _ in 0..20 {
        let run_id = w.start_with_tasks(vec![]).await;
        let cancel = Next::Cancel {
            reason: "asked to".into(),
        };
        let turns = vec![
            Some(World::completing(w.turn(run_id).await)),
            Some(World::ending(w.turn(run_id).await, cancel)),
            None,
        ];
        let enders = turns.into_iter().map(|turn| {
            let store = w.store.clone();
            async move {
                if let Some(turn) = turn {
                    let outcome = one(store.commit_turns(vec![turn], now).await);
                    return matches!(outcome, TurnOutcome::Committed(_));
                }
                let reason = "an operator".to_owned();
                let terminate = vec![TerminateRun { run_id, reason }];
                let outcome = one(store.terminate_runs(terminate, now).await);
                outcome == TerminateOutcome::Terminated
            }
        });
        let ended = at_once(enders.collect()).await;
        let winner = ended.iter().position(|won| *won).expect("one ends it");
        assert_eq!(ended.iter().filter(|won| **won).count(), 1, "{ended:?}");
        let statuses = [
            WorkflowStatus::Completed,
            WorkflowStatus::Cancelled,
            WorkflowStatus::Failed,
        ];
        assert_eq!(w.run(run_id).await.status, statuses[winner]);
        let history = w.stored_events(run_id).await;
        let terminal = history.iter().filter(|e| e.event.is_terminal());
        assert_eq!(terminal.count(), 1);
    }
}

/// What the three that fight for an expired lease saw.
#[derive(Debug, Clone, Default, PartialEq)]
struct Fight {
    finished: bool,
    extended: bool,
    reaped: bool,
}

async fn reaper_worker_and_heartbeat_agree_on_one_outcome(w: &World) {
    for _ in 0..30 {
        let run_id = w.start_with_tasks(vec![w.task("a")]).await;
        let lease = w.claim_one().await.lease;
        w.advance(LEASE);
        let now = w.now();
        let fighters = (0..3).map(|actor| {
            let (store, lease) = (w.store.clone(), lease.clone());
            async move {
                let mut seen = Fight::default();
                match actor {
                    0 => {
                        let results = vec![result(&lease, "1")];
                        let outcome = one(store.finish_tasks(results, now).await);
                        seen.finished = outcome != FinishOutcome::LeaseLost;
                    }
                    1 => {
                        let extension = LeaseExtension {
                            lease,
                            extend: LEASE,
                            heartbeat: None,
                        };
                        let state = one(store.extend_leases(vec![extension], now).await);
                        seen.extended = matches!(state, LeaseState::Extended { .. });
                    }
                    _ => {
                        let reap = ReapLeases {
                            max: 10,
                            first_shard: 0,
                            now,
                        };
                        let reaped = store.reap_leases(reap).await.expect("reaps");
                        seen.reaped = !reaped.is_empty();
                    }
                }
                seen
            }
        });
        let seen = at_once(fighters.collect()).await;
        let (finished, reaped) = (seen[0].finished, seen[2].reaped);
        assert!(finished != reaped, "one of them, not both: {seen:?}");
        let dump = w.dump(run_id).await;
        assert_eq!(dump.facts.len(), usize::from(finished));
        assert_eq!(dump.tasks.len(), usize::from(reaped));
        assert!(!(reaped && seen[1].extended), "extended, then taken back");
        w.complete(run_id).await;
    }
}

async fn many_that_fire_the_same_timers_fire_each_once(w: &World) {
    let mut runs = Vec::new();
    for _ in 0..10 {
        let run_id = w.start().await;
        let mut turn = w.turn(run_id).await;
        turn.timers = (0..5)
            .map(|i| World::timer(&format!("t{i}"), Duration::from_secs(1)))
            .collect();
        w.committed(turn).await;
        runs.push(run_id);
    }
    w.advance(Duration::from_secs(1));
    let now = w.now();
    let firing = (0..4).map(|first_shard| {
        let store = w.store.clone();
        let due = FireDue {
            max: 1000,
            first_shard,
            jitter: 0.5,
            now,
        };
        async move { store.fire_due(due).await.expect("fires").timers }
    });
    let fired = at_once(firing.collect()).await;
    let rest = w.fire_due().await.timers;
    assert_eq!(fired.iter().sum::<usize>() + rest, 50);
    for run_id in runs {
        let facts = w.waiting(run_id).await.facts;
        let names: BTreeSet<String> = facts.iter().map(|f| format!("{:?}", f.event)).collect();
        assert_eq!((facts.len(), names.len()), (5, 5));
    }
}

async fn committers_and_reporters_of_one_run_never_deadlock(w: &World) {
    const EACH: usize = 10;
    let mut runs = Vec::new();
    for _ in 0..4 {
        let tasks: Vec<_> = (0..EACH)
            .map(|i| w.parallel_task(&format!("{i}")))
            .collect();
        runs.push(w.start_with_tasks(tasks).await);
    }
    let leases: Vec<_> = w.claim(100).await.into_iter().map(|t| t.lease).collect();
    assert_eq!(leases.len(), 4 * EACH);
    let now = w.now();
    // Reporters report in one order, committers commit in the other.
    let backwards: Vec<TaskLease> = leases.iter().rev().cloned().collect();
    let actors: Vec<Option<Vec<TaskLease>>> = vec![
        Some(leases[..2 * EACH].to_vec()),
        Some(backwards[..2 * EACH].to_vec()),
        None,
        None,
    ];
    let acting = actors.into_iter().map(|leases| {
        let (store, runs) = (w.store.clone(), runs.clone());
        async move {
            if let Some(leases) = leases {
                let results = leases.iter().map(|lease| result(lease, "1")).collect();
                let outcomes = store.finish_tasks(results, now).await.expect("results");
                let recorded = |o: &&FinishOutcome| matches!(o, FinishOutcome::Recorded { .. });
                return outcomes.iter().filter(recorded).count();
            }
            commit_rounds_of_all(store, runs, now).await;
            0
        }
    });
    let reported = at_once(acting.collect()).await;
    assert_eq!(reported.iter().sum::<usize>(), 4 * EACH);
    for run_id in runs {
        let run = w.run(run_id).await;
        assert_eq!(run.arrivals, i64::try_from(EACH).expect("few"));
        let waiting = w.waiting(run_id).await.facts;
        let left = run.arrivals - run.consumed;
        assert_eq!(i64::try_from(waiting.len()).expect("few"), left);
    }
}

/// Commits turns of all the runs, from the last to the first, ten times.
async fn commit_rounds_of_all(store: Store, mut runs: Vec<Uuid>, now: Option<Timestamp>) {
    runs.reverse();
    for _ in 0..10 {
        let loaded = store.load_turns(&runs).await.expect("load_turns");
        let turns = loaded.into_iter().flatten().map(|claimed| {
            let arrivals = u128::try_from(claimed.run.arrivals).expect("not negative");
            let id = Uuid::from_u128(claimed.run.id.as_u128() ^ (arrivals << 32) ^ 1);
            turn_of(&claimed.run, id)
        });
        let outcomes = store.commit_turns(turns.collect(), now).await;
        outcomes.expect("a conflict is an outcome");
    }
}
