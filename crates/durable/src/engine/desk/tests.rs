use futures_util::FutureExt as _;

use super::*;
use crate::persistence::model::{RunRecord, StartRun};
use crate::worker::Slots;

fn run(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

async fn take(desk: &Desk, max: usize) -> Option<Vec<(Uuid, Wanted)>> {
    let set = desk.take(max, &Runtime::real(), |_| Room::None).await;
    set.map(|set| set.runs)
}

fn ids(runs: &[(Uuid, Wanted)]) -> Vec<Uuid> {
    runs.iter().map(|(run_id, _)| *run_id).collect()
}

#[tokio::test]
async fn new_run_begins_when_there_is_a_slot_for_it() {
    let (desk, slots) = (Desk::default(), Slots::new(1));
    let runtime = Runtime::real();
    let room = |_| slots.try_take().map_or(Room::None, Room::Slot);
    let now = runtime.instant();
    desk.started(run(1), now);
    desk.started(run(2), now);
    desk.ring([run(3)]);
    let set = desk.take(10, &runtime, room).await.expect("open");
    assert_eq!(ids(&set.runs), [run(3), run(1)], "those under way first");
    assert_eq!(set.slots.len(), 1);
    assert_eq!(desk.len(), 2);
    assert_eq!(
        desk.state.lock().started.runs,
        [run(2)],
        "the other new one waits"
    );
}

#[tokio::test(start_paused = true)]
async fn new_runs_do_not_wait_for_slots_for_ever() {
    let desk = Desk::default();
    let began = Runtime::real().instant();
    desk.started(run(1), began);
    desk.started(run(2), began);
    let set = take(&desk, 1).await.expect("open");
    assert_eq!(ids(&set), [run(1)]);
    assert_eq!(began.elapsed(), HOLD_IDLE);
    desk.state.lock().last_end = Some(began + HOLD_MAX * 2);
    desk.ring([run(3)]);
    let set = take(&desk, 1).await.expect("open");
    assert_eq!(ids(&set), [run(3)], "as long as activities end");
    let set = take(&desk, 1).await.expect("open");
    assert_eq!(ids(&set), [run(2)]);
    assert_eq!(began.elapsed(), HOLD_IDLE + HOLD_MAX);
}

#[tokio::test]
async fn new_run_that_somebody_waits_for_begins_without_a_slot_and_once() {
    let desk = Desk::default();
    desk.started(run(1), Runtime::real().instant());
    desk.hurry(run(1));
    desk.hurry(run(1));
    let set = take(&desk, 10).await.expect("open");
    assert_eq!(ids(&set), [run(1)]);
    desk.ring([run(1)]);
    assert_eq!(desk.len(), 1, "in hand");
    assert!(desk.close().is_empty(), "it has begun");
}

#[tokio::test]
async fn closed_desk_lets_no_new_run_begin() {
    let desk = Desk::default();
    desk.started(run(1), Runtime::real().instant());
    assert_eq!(desk.close(), [run(1)]);
    desk.started(run(2), Runtime::real().instant());
    assert!(take(&desk, 1).await.is_none());
    desk.emptied().await;
}

#[tokio::test]
async fn run_in_hand_is_not_given_to_another_committer() {
    let desk = Desk::default();
    desk.ring([run(1)]);
    let first = take(&desk, 10).await.expect("open");
    assert_eq!(first.len(), 1);
    desk.ring([run(1), run(2)]);
    let second = take(&desk, 10).await.expect("open");
    assert_eq!(
        second.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
        [run(2)]
    );
    desk.put_down([(run(1), true)]);
    let third = take(&desk, 10).await.expect("open");
    assert_eq!(
        third.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
        [run(1)]
    );
}

#[tokio::test]
async fn rings_for_one_run_are_one_turn() {
    let desk = Desk::default();
    desk.ring([run(1), run(1), run(1)]);
    assert_eq!(take(&desk, 10).await.expect("open").len(), 1);
    assert_eq!(desk.len(), 1);
}

#[test]
fn overheard_ring_for_a_run_that_waits_for_its_turn_is_for_this_desk() {
    let desk = Desk::default();
    desk.ring([run(1)]);
    assert_eq!(desk.overheard([run(1)]), Overheard::AllAtHome);
}

#[test]
fn rings_are_remembered_only_while_a_claim_is_under_way() {
    let desk = Desk::default();
    let claim = desk.claim();
    assert_eq!(desk.overheard([run(1)]), Overheard::SomeStrange);
    let meanwhile = desk.state.lock().rung_meanwhile.clone();
    assert_eq!(meanwhile, Some(HashSet::from([run(1)])));
    drop(claim);
    desk.overheard([run(2)]);
    assert_eq!(desk.state.lock().rung_meanwhile, None);
}

#[tokio::test]
async fn overheard_ring_for_a_strange_run_is_passed_over() {
    let desk = Desk::default();
    assert_eq!(desk.overheard([run(1)]), Overheard::SomeStrange);
    assert_eq!(desk.len(), 0);
}

#[tokio::test]
async fn ring_at_a_closed_desk_does_not_keep_it_from_being_emptied() {
    let desk = Desk::default();
    desk.close();
    assert!(take(&desk, 1).await.is_none());
    desk.ring([run(1)]);
    desk.emptied().await;
}

#[tokio::test]
async fn closed_desk_ends_when_all_is_put_down() {
    let desk = Desk::default();
    desk.ring([run(1)]);
    desk.close();
    assert!(take(&desk, 1).await.is_some());
    desk.put_down([(run(1), false)]);
    assert!(take(&desk, 1).await.is_none());
}

/// A run as a claim finds it, after so many events.
fn claimed(n: u128, sequence: i64) -> ClaimedTurn {
    let start = StartRun::new(run(n), "w", durable_core::Payload::null());
    let mut record = RunRecord::new(&start, None, durable_core::Timestamp::UNIX_EPOCH);
    record.sequence = sequence;
    ClaimedTurn::new(record, Vec::new(), None)
}

#[tokio::test]
async fn claimed_runs_begin_when_there_are_slots_and_more_are_asked_for_then() {
    let (desk, slots) = (Desk::default(), Slots::new(1));
    let runtime = Runtime::real();
    let room = |origin| match origin {
        Origin::Claimed => slots.try_take().map_or(Room::None, Room::Slot),
        Origin::Started => Room::Ample,
    };
    let turns = vec![claimed(1, 0), claimed(2, 0), claimed(3, 7)];
    desk.claim().brings(turns, runtime.instant());
    desk.started(run(4), runtime.instant());
    let set = desk.take(10, &runtime, room).await.expect("open");
    // What is under way goes on; one has the slot; what was started here leaves its tasks to others.
    assert_eq!(ids(&set.runs), [run(3), run(4), run(1)]);
    assert!(set.runs[2].1.claimed.is_some(), "as it was found");
    assert!(desk.holds_new());
    assert!(desk.all_begun().now_or_never().is_none());
    drop(set);
    let set = desk.take(10, &runtime, room).await.expect("open");
    assert_eq!(ids(&set.runs), [run(2)]);
    assert!(!desk.holds_new());
    assert!(desk.all_begun().now_or_never().is_some());
}
