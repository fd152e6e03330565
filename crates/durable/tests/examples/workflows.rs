//! What workflows do.

use crate::stage::{assert_mentions, assert_tells, story};

#[test]
fn hello_world_greets() {
    assert_eq!(story("hello_world"), ["Hello, World!"]);
}

#[test]
fn an_activity_resumes_from_its_heartbeat_and_each_timeout_is_seen() {
    let story = story("activities");
    assert_tells(
        &story,
        &[
            "import, attempt 1: begins after page 0",
            "import, attempt 1: stuck at page 3",
            "import, attempt 2: begins after page 3",
            "all 5 pages are imported",
            "charge, attempt 1: the provider is away",
            "charge, attempt 2: the provider is away",
            "paid: receipt of attempt 3",
            "not paid, and not tried again: run ",
            "hang, attempt 1",
            "hang, attempt 2",
            "start_to_close: the workflow sees ActivityFailed: StartToCloseTimeout",
            "schedule_to_close: the workflow sees ActivityFailed: ScheduleToCloseTimeout",
            "schedule_to_start: the workflow sees ActivityFailed: ScheduleToStartTimeout",
            "execution_timeout: run ",
        ],
    );
}

#[test]
fn a_timer_outlives_the_engine() {
    let story = story("timers");
    assert_tells(
        &story,
        &[
            "Ann, please pay (reminder 1)",
            "Ann, please pay (reminder 2)",
            "nothing runs while the last timer does",
            "another engine: Ann never paid",
            "run ",
        ],
    );
    let last = story.last().expect("it told something");
    assert!(last.contains("write PT10M for ten minutes"), "{last}");
}

#[test]
fn signals_wait_are_late_or_come_with_the_start() {
    let told = [
        "order 1 is approved by Ann: the signal was there first",
        "order 2: nobody has decided yet, sending a reminder",
        "order 2 is rejected by Bob",
        "one cart: true",
        "Cleo buys tea and a pot and two cups",
        "too late, and said so: true",
    ];
    assert_eq!(story("signals"), told);
}

#[test]
fn an_account_is_asked_and_changed() {
    assert_tells(
        &story("queries_and_updates"),
        &[
            "a new account holds 0",
            "  booked: Ann +100",
            "after the deposit it holds 100",
            "70 can be spent: true",
            "a bad deposit: update ",
            "  booked: Ann +20",
            "transfer-7 was answered with 120",
            "  booked: Bob +5",
            "Bob begins with 5",
            "closed with 120",
            "a run that has ended answers, too: 120",
            "no such query: true",
            "nobody runs this workflow now: true",
        ],
    );
}

#[test]
fn a_side_effect_runs_once_however_often_the_code_does() {
    let told = [
        "raffle 1.0.0, attempt 1, iteration 0, started by a client, memo Some(\"ticket OPS-42\")",
        "the side effect runs",
        "Ann won; same draw: true; time has passed: true",
    ];
    assert_eq!(story("side_effects"), told);
}

#[test]
fn local_activities_are_recorded_and_have_no_queue() {
    let told = [
        "fetch order 7, on some worker",
        "normalise \" Order 7: TEA \", in the workflow's own process",
        "look up \"order 7: tea\", attempt 1",
        "look up \"order 7: tea\", attempt 2",
        "look up \"order 7: tea\", attempt 3",
        "order 7: tea, size 12; out of time: true",
        "recorded: workflow.started, activity.scheduled, activity.started, activity.completed, local_activity.completed, local_activity.completed, local_activity.failed, workflow.completed",
    ];
    assert_eq!(story("local_activities"), told);
}

#[test]
fn branches_run_at_once_and_fail_fast() {
    let story = story("gather");
    assert_tells(
        &story,
        &[
            "three asked at once, answers in order: [5, 4, 9]",
            "failed fast: run ",
            "a child beside a timer: [5, 4, 9] after a pause",
        ],
    );
    assert_mentions(&story, &["the label is no longer wanted"]);
}

#[test]
fn the_first_of_a_race_wins_and_the_others_are_told_to_stop() {
    let story = story("select");
    assert_tells(
        &story,
        &[
            "activity: charged",
            "child: reviewed",
            "signal: called off: too dear",
            "timer: the window has closed",
        ],
    );
    assert_mentions(&story, &["  the bank is told to stop"]);
}

#[test]
fn what_is_cancelled_cleans_up() {
    let story = story("cancellation");
    assert_tells(
        &story,
        &[
            "encoding Metropolis",
            "half a film of Metropolis deleted",
            "completed with \"Metropolis: aborted\"",
            "encoding Nosferatu",
            "half a film of Nosferatu deleted",
            "run ",
        ],
    );
    assert_mentions(
        &story,
        &[
            "encoding of Metropolis stopped",
            "encoding of Nosferatu stopped",
        ],
    );
}

#[test]
fn a_saga_undoes_in_reverse_order() {
    let story = story("sagas");
    assert_tells(
        &story,
        &[
            "everything works:",
            "  flight-1 and hotel-1",
            "the third step fails:",
            "  flight booked",
            "  hotel booked",
            "  hotel-1 cancelled",
            "  flight-1 cancelled",
            "  run ",
            "the customer calls it off:",
            "  train booked",
            "  hotel booked",
            "  what a pity",
            "  hotel-1 cancelled",
            "  train-1 cancelled",
            "  the run is cancelled",
        ],
    );
}

#[test]
fn an_endless_run_keeps_its_signals_and_forgets_its_history() {
    let told = [
        "iteration 0 hands on 2 readings, 4 in all",
        "iteration 1 hands on 4 readings, 9 in all",
        "iteration 2 hands on 6 readings, 23 in all",
        "the sum is 23",
        "one run, iteration 3; its code saw 3 of 33 events",
    ];
    assert_eq!(story("continue_as_new"), told);
}

#[test]
fn a_child_and_its_parent_hear_of_each_other() {
    let told = [
        "a teapot: waits for its stamp",
        "result: a teapot left with a red stamp",
        "failure: not shipped: ChildWorkflowFailed",
        "a kettle: waits for its stamp",
        "a kettle: sent back",
        "parent stopped, so the child is cancelled",
        "and the parent is cancelled",
        "a lamp: waits for its stamp",
        "a lamp: sent back",
        "child stopped, and the parent answers: not shipped: ChildWorkflowFailed",
        "a chair: waits for its stamp",
        "the parent has ended, the child has not",
        "abandoned: a chair left with a blue stamp",
    ];
    assert_eq!(story("child_workflows"), told);
}

#[test]
fn names_that_are_data_are_taken_by_the_catch_all() {
    let told = [
        "onboard-acme: invite for onboard-acme, a real mail to onboard-acme",
        "bill-initech: count for bill-initech, invoice for bill-initech",
    ];
    assert_eq!(story("dynamic_handlers"), told);
}

#[test]
fn a_card_is_charged_once_in_two_attempts() {
    let told = [
        "attempt 1 of charge_and_mail",
        "  charging 499 cents",
        "  charged under the same key: true",
        "  the mail server is away",
        "attempt 2 of charge_and_mail",
        "  charged under the same key: true",
        "  receipt for 499 cents mailed",
        "done: receipt for 499 cents",
    ];
    assert_eq!(story("run_once"), told);
}

#[test]
fn a_patch_carries_old_runs_on_and_a_careless_change_does_not() {
    let story = story("versioning");
    assert_tells(
        &story,
        &[
            "order 1: charged",
            "tuesday's build is refused: the code is not the one that made this history",
            "wednesday, an old run: order 1: a receipt by mail",
            "wednesday, a new run: order 2: a receipt on the phone",
            "thursday, a new run: order 4: free of charge",
            "thursday, a run pinned before: order 3: a receipt on the phone",
        ],
    );
    let refusal = story
        .iter()
        .find(|line| line.starts_with("tuesday"))
        .expect("told");
    for part in ["\"mail_receipt\"", "versioning.rs:", "ctx.patched("] {
        assert!(refusal.contains(part), "{part} is missing: {refusal}");
    }
}
