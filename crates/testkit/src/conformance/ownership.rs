//! Ownership of runs: claiming turns, renewing, giving up, blocking. A hint for speed, never for safety.

use std::time::Duration;

use durable_core::Payload;
use everruns_durable::persistence::model::{
    BlockRun, Blocked, ClaimTurns, ClaimedTurn, HostedType, Owner, OwnerRequest, Rejection,
    StartRun, after,
};
use uuid::Uuid;

use crate::World;
use crate::world::{LEASE, WORKER, WORKFLOW, json, one};

claims! { "ownership":
    a_claimed_turn_is_the_run_and_its_facts,
    a_run_that_has_not_begun_comes_with_its_input,
    a_claim_of_runs_with_large_inputs_takes_no_more_bytes_than_fit,
    a_claimed_run_is_left_alone_until_its_time_is_up,
    a_run_started_with_an_owner_is_left_alone,
    the_longest_ready_run_comes_first_then_the_smaller_id,
    no_more_than_max_turns_are_claimed,
    only_hosted_types_and_versions_are_claimed,
    a_run_without_facts_is_not_claimed_until_one_arrives,
    ended_runs_are_not_claimed,
    turns_of_every_shard_are_found_wherever_one_begins,
    renewing_counts_from_now_and_only_for_the_owner,
    a_run_with_a_turn_due_is_not_renewed,
    releasing_frees_ones_own_runs_and_leaves_those_of_others,
    a_blocked_run_is_passed_over_by_its_build_only,
    blocking_gives_ownership_up_whose_ever_it_is,
    an_owner_whose_time_is_up_may_renew_while_nobody_took_over,
    a_run_that_went_on_or_ended_is_not_blocked,
    two_owners_do_no_harm,
    ownership_is_not_needed_to_commit,
    a_run_asked_for_twice_is_answered_twice_alike,
}

fn ids(turns: &[ClaimedTurn]) -> Vec<Uuid> {
    turns.iter().map(|turn| turn.run.id).collect()
}

fn by(worker: &str, claim: ClaimTurns) -> ClaimTurns {
    ClaimTurns {
        worker_id: worker.into(),
        ..claim
    }
}

async fn a_claimed_turn_is_the_run_and_its_facts(w: &World) {
    let run_id = w.start().await;
    for name in ["a", "b", "c"] {
        w.signal(run_id, name).await;
    }
    let mut turn = w.turn(run_id).await;
    turn.facts_through = 1;
    w.committed(turn).await;
    let mut expected = w.waiting(run_id).await;
    w.advance(Duration::from_secs(1));
    expected.run.owner = Some(Owner {
        worker_id: WORKER.into(),
        expires_at: after(w.instant(), LEASE),
    });
    let arrivals: Vec<_> = expected.facts.iter().map(|fact| fact.arrival).collect();
    assert_eq!(arrivals, [2, 3]);
    let claimed = w.claim_turns(10).await;
    assert_eq!(claimed, [expected], "nothing of it changes but its owner");
    let mut stored = w.run(run_id).await;
    assert!(!stored.input.is_empty());
    stored.input = Payload::ABSENT;
    assert_eq!(stored, claimed[0].run, "as stored, without the input");
}

async fn a_run_that_has_not_begun_comes_with_its_input(w: &World) {
    let run_id = w.start().await;
    let input = w.run(run_id).await.input;
    assert!(!input.is_empty());
    assert_eq!(w.waiting(run_id).await.run.input, input);
    assert_eq!(one(Ok(w.claim_turns(10).await)).run.input, input);
}

async fn a_claim_of_runs_with_large_inputs_takes_no_more_bytes_than_fit(w: &World) {
    let text = format!("\"{}\"", "x".repeat(3 * 1024 * 1024));
    let input = json(&text);
    let runs = w.ids_in_one_shard(14);
    for run_id in &runs {
        w.start_one(StartRun::new(*run_id, WORKFLOW, input.clone()))
            .await;
    }
    let first = w.claim_turns(100).await;
    assert_eq!(first.len(), 10, "as many as fit into 32 MiB");
    assert!(ClaimedTurn::may_have_left_some(&first));
    let rest = w.claim_turns(100).await;
    assert_eq!(
        ids(&[first, rest].concat()),
        runs,
        "in order, none left out"
    );
}

async fn a_claimed_run_is_left_alone_until_its_time_is_up(w: &World) {
    let run_id = w.start().await;
    assert_eq!(ids(&w.claim_turns(10).await), [run_id]);
    let other = || w.store.claim_turns(by("worker-2", w.new_turn_claim(10)));
    w.advance(LEASE - Duration::from_micros(1));
    assert_eq!(other().await.expect("claims"), []);
    assert_eq!(w.claim_turns(10).await, [], "nor handed out twice to one");
    w.advance(Duration::from_micros(1));
    let taken = other().await.expect("claims");
    assert_eq!(ids(&taken), [run_id]);
    let owner = taken[0].run.owner.clone().expect("an owner");
    assert_eq!(owner.worker_id, "worker-2");
}

async fn a_run_started_with_an_owner_is_left_alone(w: &World) {
    let run_id = w
        .start_one(StartRun {
            owner: Some(OwnerRequest {
                worker_id: "worker-2".into(),
                lease: LEASE,
            }),
            ..w.new_start()
        })
        .await;
    assert_eq!(w.claim_turns(10).await, []);
    w.advance(LEASE);
    assert_eq!(ids(&w.claim_turns(10).await), [run_id]);
}

async fn the_longest_ready_run_comes_first_then_the_smaller_id(w: &World) {
    let runs = w.ids_in_one_shard(4);
    // Started in another order than that of their ids; the last two at the same instant.
    for (i, wait) in [(2, 1), (0, 1), (3, 0), (1, 0)] {
        let start = StartRun {
            run_id: runs[i],
            ..w.new_start()
        };
        w.start_one(start).await;
        w.advance(Duration::from_secs(wait));
    }
    let expected = [runs[2], runs[0], runs[1], runs[3]];
    assert_eq!(ids(&w.claim_turns(10).await), expected);
}

async fn no_more_than_max_turns_are_claimed(w: &World) {
    for _ in 0..5 {
        w.start().await;
    }
    for expected in [3, 2, 0] {
        assert_eq!(w.claim_turns(3).await.len(), expected);
    }
}

async fn only_hosted_types_and_versions_are_claimed(w: &World) {
    let start = |workflow_type: &str, version: &str| StartRun {
        workflow_type: workflow_type.into(),
        version: version.into(),
        ..w.new_start()
    };
    let plain = w.start().await;
    let v2 = w.start_one(start(WORKFLOW, "v2")).await;
    w.start_one(start(WORKFLOW, "v3")).await;
    let other = w.start_one(start("other", "")).await;
    w.start_one(start("third", "")).await;
    let hosting = |types: &[(&str, &str)]| ClaimTurns {
        hosted: types
            .iter()
            .map(|&(workflow_type, version)| HostedType {
                workflow_type: workflow_type.into(),
                version: version.into(),
            })
            .collect(),
        ..w.new_turn_claim(10)
    };
    let claim = |types| w.store.claim_turns(hosting(types));
    assert_eq!(claim(&[]).await.expect("claims"), []);
    assert_eq!(claim(&[("other", "v2")]).await.expect("claims"), []);
    assert_eq!(
        ids(&claim(&[(WORKFLOW, "")]).await.expect("claims")),
        [plain]
    );
    let mut found = ids(&claim(&[(WORKFLOW, "v2"), ("other", "")])
        .await
        .expect("claims"));
    found.sort_unstable();
    assert_eq!(found, [v2, other]);
}

async fn a_run_without_facts_is_not_claimed_until_one_arrives(w: &World) {
    let run_id = w.start_with_tasks(vec![]).await;
    assert_eq!(w.claim_turns(10).await, []);
    w.signal(run_id, "hello").await;
    assert_eq!(ids(&w.claim_turns(10).await), [run_id]);
}

async fn ended_runs_are_not_claimed(w: &World) {
    let run_id = w.start().await;
    w.complete(run_id).await;
    assert_eq!(w.claim_turns(10).await, []);
}

async fn turns_of_every_shard_are_found_wherever_one_begins(w: &World) {
    for first_shard in [0, 1, 3, 9] {
        for _ in 0..12 {
            w.start().await;
        }
        let claim = ClaimTurns {
            first_shard,
            ..w.new_turn_claim(100)
        };
        let claimed = w.store.claim_turns(claim).await.expect("claims");
        assert_eq!(claimed.len(), 12, "beginning with shard {first_shard}");
    }
}

async fn renewing_counts_from_now_and_only_for_the_owner(w: &World) {
    let mine = owned_by(w, WORKER).await;
    let theirs = owned_by(w, "worker-2").await;
    let nobodys = w.start().await;
    w.advance(Duration::from_secs(5));
    let runs = [mine, theirs, nobodys, w.id()];
    let renewed = w.store.renew_runs(WORKER, &runs, LEASE, w.now()).await;
    assert_eq!(renewed.expect("renews"), [true, false, false, false]);
    let owner = |worker_id: &str, since| {
        Some(Owner {
            worker_id: worker_id.into(),
            expires_at: after(since, LEASE),
        })
    };
    assert_eq!(w.run(mine).await.owner, owner(WORKER, w.instant()));
    let before = w.instant() - Duration::from_secs(5);
    assert_eq!(w.run(theirs).await.owner, owner("worker-2", before));
    assert_eq!(w.run(nobodys).await.owner, None);
}

/// A run that a worker has turned and that waits for its next fact.
async fn owned_by(w: &World, worker_id: &str) -> Uuid {
    let run_id = w.start().await;
    let mut turn = w.turn(run_id).await;
    turn.owner = Some(OwnerRequest {
        worker_id: worker_id.into(),
        lease: LEASE,
    });
    w.committed(turn).await;
    run_id
}

async fn a_run_with_a_turn_due_is_not_renewed(w: &World) {
    let run_id = owned_by(w, WORKER).await;
    let before = w.run(run_id).await.owner;
    w.advance(LEASE / 2);
    w.signal(run_id, "hello").await;
    let renewed = w
        .store
        .renew_runs(WORKER, std::slice::from_ref(&run_id), LEASE, w.now())
        .await;
    assert!(!one(renewed), "its owner may not have been told");
    assert_eq!(w.run(run_id).await.owner, before);
    w.advance(LEASE / 2);
    assert_eq!(ids(&w.claim_turns(10).await), [run_id]);
}

async fn releasing_frees_ones_own_runs_and_leaves_those_of_others(w: &World) {
    let mine = w.start().await;
    w.claim_turns(10).await;
    let theirs = w.start().await;
    let other = by("worker-2", w.new_turn_claim(10));
    w.store.claim_turns(other).await.expect("claims");
    let released = w.store.release_runs(WORKER, &[mine, theirs, w.id()]).await;
    released.expect("releases");
    assert_eq!(w.run(mine).await.owner, None);
    assert!(w.run(theirs).await.owner.is_some());
    assert_eq!(ids(&w.claim_turns(10).await), [mine]);
}

fn block(run_id: Uuid, expected_sequence: i64) -> BlockRun {
    BlockRun {
        run_id,
        expected_sequence,
        build: "build-1".into(),
        reason: "diverged at 7".into(),
    }
}

async fn a_blocked_run_is_passed_over_by_its_build_only(w: &World) {
    let run_id = w.start().await;
    assert!(one(w
        .store
        .block_runs(vec![block(run_id, 0)], w.now())
        .await));
    let blocked = Blocked {
        build: "build-1".into(),
        reason: "diverged at 7".into(),
    };
    let run = w.run(run_id).await;
    assert_eq!(run.blocked, Some(blocked));
    assert_eq!(run.sequence, 0, "nothing is appended");
    assert_eq!(w.claim_turns(10).await, []);
    w.signal(run_id, "hello").await;
    assert_eq!(w.claim_turns(10).await, []);
    let fixed = ClaimTurns {
        build: "build-2".into(),
        ..w.new_turn_claim(10)
    };
    let claimed = w.store.claim_turns(fixed).await.expect("claims");
    assert_eq!(ids(&claimed), [run_id]);
    w.queue(run_id, vec![]).await;
    w.signal(run_id, "hello").await;
    assert_eq!(ids(&w.claim_turns(10).await), [run_id], "unblocked");
}

async fn blocking_gives_ownership_up_whose_ever_it_is(w: &World) {
    for worker in [WORKER, "worker-2"] {
        let run_id = w.start().await;
        let claim = by(worker, w.new_turn_claim(10));
        w.store.claim_turns(claim).await.expect("claims");
        w.advance(Duration::from_secs(1));
        one(w.store.block_runs(vec![block(run_id, 0)], w.now()).await);
        let run = w.run(run_id).await;
        assert_eq!((run.owner, run.updated_at), (None, w.instant()));
    }
}

async fn an_owner_whose_time_is_up_may_renew_while_nobody_took_over(w: &World) {
    let run_id = owned_by(w, WORKER).await;
    let renew = || {
        w.store
            .renew_runs(WORKER, std::slice::from_ref(&run_id), LEASE, w.now())
    };
    w.advance(LEASE * 2);
    assert!(one(renew().await));
    w.signal(run_id, "hello").await;
    assert_eq!(w.claim_turns(10).await, [], "its own again");
    w.advance(LEASE);
    let other = by("worker-2", w.new_turn_claim(10));
    assert_eq!(w.store.claim_turns(other).await.expect("claims").len(), 1);
    assert!(!one(renew().await));
}

async fn a_run_that_went_on_or_ended_is_not_blocked(w: &World) {
    let gone_on = w.start_with_tasks(vec![]).await;
    let ended = w.start().await;
    w.complete(ended).await;
    let here = w.start().await;
    let sequence = w.run(ended).await.sequence;
    let before = [w.dump(gone_on).await, w.dump(ended).await];
    let blocks = vec![
        block(gone_on, 0),
        block(ended, sequence),
        block(w.id(), 0),
        block(here, 0),
    ];
    let noted = w.store.block_runs(blocks, w.now()).await;
    assert_eq!(noted.expect("blocks"), [false, false, false, true]);
    assert_eq!([w.dump(gone_on).await, w.dump(ended).await], before);
}

async fn two_owners_do_no_harm(w: &World) {
    let run_id = w.start().await;
    let first = w.claim_turns(10).await.remove(0);
    let slow = w.turn(run_id).await;
    w.advance(LEASE);
    let second = w.claim_turns(10).await.remove(0);
    assert_eq!(first.run.id, second.run.id);
    let quick = w.turn(run_id).await;
    w.committed(quick).await;
    assert_eq!(w.rejected(slow).await, Rejection::Sequence { found: 1 });
    assert_eq!(w.stored_events(run_id).await.len(), 1);
}

async fn ownership_is_not_needed_to_commit(w: &World) {
    let run_id = w.start().await;
    let other = by("worker-2", w.new_turn_claim(10));
    w.store.claim_turns(other).await.expect("claims");
    let turn = w.turn(run_id).await;
    w.committed(turn).await;
    assert_eq!(w.run(run_id).await.owner, None);
}

async fn a_run_asked_for_twice_is_answered_twice_alike(w: &World) {
    let run_id = w.start().await;
    w.signal(run_id, "once").await;
    let nobody = w.id();
    let turns = w.store.load_turns(&[run_id, nobody, run_id]).await;
    let turns = turns.expect("load_turns");
    assert_eq!(turns[0].as_ref().map(|turn| turn.facts.len()), Some(1));
    assert_eq!(turns, [turns[0].clone(), None, turns[0].clone()]);
}
