//! Tasks and timers.

use std::collections::BTreeMap;

use everruns_durable::persistence::model::{TaskRecord, TaskStatus};
use everruns_durable::persistence::sql::rows::{Changes, Load, StandingTask, TaskUpdate};

use super::{at, two_runs};
use crate::intents::{load, ruled, whole_tasks, write};
use crate::samples::{bare_task, full_task, id, letter, t, timer};

#[tokio::test]
async fn tasks_come_back_one_by_one_and_by_run() {
    let (store, first, second) = two_runs(4).await;
    let tasks = [
        full_task(first, 10),
        bare_task(first, 11),
        bare_task(second, 12),
    ];
    write(
        &store,
        Changes {
            insert_tasks: tasks.to_vec(),
            ..at(1)
        },
    )
    .await;
    let wanted = Load {
        tasks: vec![(first, id(10)), (second, id(12)), (second, id(10))],
        ..Load::default()
    };
    let loaded = load(&store, wanted).await;
    let expected = BTreeMap::from([
        ((first, id(10)), ruled(&tasks[0])),
        ((second, id(12)), ruled(&tasks[2])),
    ]);
    assert_eq!(loaded.tasks, expected);
    let whole = tasks
        .iter()
        .map(|task| ((task.run_id, task.id), task.clone()));
    assert_eq!(whole_tasks(&store).await, whole.collect());
    let leases = Load {
        leases: vec![(first, id(10))],
        ..Load::default()
    };
    let leased = load(&store, leases).await.tasks;
    let without_attempts = TaskRecord {
        attempts: Vec::new(),
        ..ruled(&tasks[0])
    };
    assert_eq!(leased[&(first, id(10))], without_attempts);
    let by_run = Load {
        queued_of: vec![first],
        activities: vec![
            (first, tasks[0].activity_id.clone()),
            (second, "not there".to_owned()),
        ],
        lines_of: vec![first, second],
        ..Load::default()
    };
    let loaded = load(&store, by_run).await;
    assert!(loaded.tasks.is_empty(), "nothing that may be large");
    let queued = tasks[..2]
        .iter()
        .map(|task| ((first, task.id), task.activity_id.clone()));
    assert_eq!(loaded.queued, queued.collect());
    let standing = StandingTask {
        activity_id: tasks[0].activity_id.clone(),
        status: tasks[0].status,
        sequential: tasks[0].options.sequential,
    };
    assert_eq!(
        loaded.standing,
        BTreeMap::from([((first, id(10)), standing)])
    );
    let in_line = |run_id| {
        let of_run = tasks.iter().filter(move |task| task.run_id == run_id);
        let in_line = of_run.filter(|task| task.options.sequential);
        in_line.map(|task| task.line).min()
    };
    for run_id in [first, second] {
        assert_eq!(loaded.lines.get(&run_id).copied(), in_line(run_id));
    }
}

#[tokio::test]
async fn a_task_update_changes_all_but_what_is_fixed() {
    let (store, first, _) = two_runs(1).await;
    write(
        &store,
        Changes {
            insert_tasks: vec![full_task(first, 10), bare_task(first, 11)],
            ..at(1)
        },
    )
    .await;
    let mut emptied = bare_task(first, 10);
    let mut filled = full_task(first, 11);
    for (changed, stored) in [
        (&mut emptied, full_task(first, 10)),
        (&mut filled, bare_task(first, 11)),
    ] {
        changed.input = stored.input;
        changed.options = stored.options;
        changed.line = stored.line;
        changed.epoch = stored.epoch;
        changed.scheduled_at = stored.scheduled_at;
        changed.trace = stored.trace;
    }
    let updates = [&filled, &emptied].map(|task| TaskUpdate {
        task: task.clone(),
        heartbeat: true,
        attempts: true,
    });
    write(
        &store,
        Changes {
            update_tasks: updates.to_vec(),
            ..at(2)
        },
    )
    .await;
    let stored = whole_tasks(&store).await;
    assert_eq!(stored[&(first, id(10))], emptied);
    assert_eq!(stored[&(first, id(11))], filled);

    // What an update does not say to write stays, whatever stands in its record.
    let kept = TaskUpdate {
        task: ruled(&TaskRecord {
            attempts: Vec::new(),
            ..filled.clone()
        }),
        heartbeat: false,
        attempts: false,
    };
    write(
        &store,
        Changes {
            update_tasks: vec![kept],
            ..at(3)
        },
    )
    .await;
    assert_eq!(whole_tasks(&store).await[&(first, id(11))], filled);
}

#[tokio::test]
async fn the_letter_of_a_task_gets_its_input_from_the_queue_in_the_commit_in_which_the_task_leaves()
{
    let (store, first, _) = two_runs(1).await;
    let task = full_task(first, 10);
    write(
        &store,
        Changes {
            insert_tasks: vec![task.clone()],
            ..at(1)
        },
    )
    .await;
    let mut buried = letter(first, 10);
    buried.input = durable_core::Payload::ABSENT;
    write(
        &store,
        Changes {
            bury_tasks: vec![buried.clone()],
            delete_tasks: vec![(first, id(10))],
            ..at(2)
        },
    )
    .await;
    let wanted = Load {
        letters: vec![(first, id(10))],
        ..Load::default()
    };
    let letters = load(&store, wanted).await.letters;
    buried.input = task.input;
    assert_eq!(letters[&(first, id(10))], buried);
    assert!(whole_tasks(&store).await.is_empty());
}

#[tokio::test]
async fn tasks_leave_one_by_one_and_by_run_and_may_come_back_in_the_same_commit() {
    let (store, first, second) = two_runs(4).await;
    let tasks = vec![
        bare_task(first, 10),
        bare_task(first, 11),
        bare_task(second, 12),
    ];
    write(
        &store,
        Changes {
            insert_tasks: tasks,
            ..at(1)
        },
    )
    .await;
    let again = Changes {
        delete_tasks: vec![(first, id(10)), (second, id(10))],
        delete_tasks_of: vec![second],
        insert_tasks: vec![full_task(second, 12)],
        ..at(2)
    };
    write(&store, again).await;
    let loaded = load(
        &store,
        Load {
            tasks: vec![(first, id(10)), (first, id(11)), (second, id(12))],
            queued_of: vec![first, second],
            ..Load::default()
        },
    )
    .await;
    assert_eq!(
        loaded.queued.keys().collect::<Vec<_>>(),
        [&(first, id(11)), &(second, id(12))]
    );
    let there = full_task(second, 12);
    assert_eq!(loaded.tasks[&(second, id(12))], ruled(&there));
    assert_eq!(whole_tasks(&store).await[&(second, id(12))], there);
}

#[tokio::test]
async fn a_line_moves_up_only_if_its_first_task_stands_in_it() {
    let (store, first, second) = two_runs(4).await;
    let task = |run_id, n, line, status, sequential| {
        let mut task = bare_task(run_id, n);
        task.line = line;
        task.status = status;
        task.options.sequential = sequential;
        task
    };
    let mut later = task(id(3), 30, 1, TaskStatus::InLine, true);
    later.visible_at = t(60);
    let tasks = vec![
        task(first, 10, 1, TaskStatus::Claimed, false),
        task(first, 11, 2, TaskStatus::InLine, true),
        task(first, 12, 3, TaskStatus::InLine, true),
        task(second, 20, 1, TaskStatus::Claimed, true),
        task(second, 21, 2, TaskStatus::InLine, true),
        later,
    ];
    write(
        &store,
        Changes {
            insert_tasks: tasks,
            ..at(1)
        },
    )
    .await;
    let runs = vec![first, second, id(3)];
    write(
        &store,
        Changes {
            release_lines: runs,
            ..at(7)
        },
    )
    .await;
    let loaded = load(
        &store,
        Load {
            tasks: vec![
                (first, id(11)),
                (first, id(12)),
                (second, id(21)),
                (id(3), id(30)),
            ],
            ..Load::default()
        },
    )
    .await
    .tasks;
    let status = |run_id, n| {
        let task = &loaded[&(run_id, id(n))];
        (task.status, task.visible_at)
    };
    assert_eq!(status(first, 11), (TaskStatus::Pending, t(7)));
    assert_eq!(status(first, 12), (TaskStatus::InLine, t(0)));
    assert_eq!(status(second, 21), (TaskStatus::InLine, t(0)));
    assert_eq!(status(id(3), 30), (TaskStatus::Delayed, t(60)));
}

#[tokio::test]
async fn timers_are_set_read_and_forgotten() {
    let (store, first, second) = two_runs(4).await;
    let timers = vec![
        timer(first, "a", t(9)),
        timer(first, "b'", t(8)),
        timer(second, "a", t(7)),
    ];
    write(
        &store,
        Changes {
            insert_timers: timers.clone(),
            ..at(1)
        },
    )
    .await;
    let all = vec![
        (first, "a".to_owned()),
        (first, "b'".into()),
        (second, "a".into()),
        (second, "b'".into()),
    ];
    let loaded = load(
        &store,
        Load {
            timers: all.clone(),
            ..Load::default()
        },
    )
    .await;
    let mut found: Vec<_> = loaded.timers.into_values().collect();
    found.sort_by_key(|timer| std::cmp::Reverse(timer.fire_at));
    assert_eq!(found, timers);
    let gone = Changes {
        delete_timers: vec![(first, "b'".into())],
        delete_timers_of: vec![second],
        ..at(2)
    };
    write(&store, gone).await;
    let loaded = load(
        &store,
        Load {
            timers: all,
            ..Load::default()
        },
    )
    .await;
    assert_eq!(
        loaded.timers.into_keys().collect::<Vec<_>>(),
        [(first, "a".into())]
    );
}
