//! Tasks and timers.

use std::collections::BTreeMap;

use everruns_durable::persistence::model::TaskStatus;
use everruns_durable::persistence::sql::rows::{Changes, Load};

use super::{at, two_runs};
use crate::intents::{load, write};
use crate::samples::{bare_task, full_task, id, t, timer};

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
        ((first, id(10)), tasks[0].clone()),
        ((second, id(12)), tasks[2].clone()),
    ]);
    assert_eq!(loaded.tasks, expected);
    let loaded = load(
        &store,
        Load {
            tasks_of: vec![first],
            ..Load::default()
        },
    )
    .await;
    assert_eq!(loaded.tasks.into_values().collect::<Vec<_>>(), {
        let mut both = tasks[..2].to_vec();
        both.sort_by_key(|task| task.id);
        both
    });
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
    let updates = vec![filled.clone(), emptied.clone()];
    write(
        &store,
        Changes {
            update_tasks: updates,
            ..at(2)
        },
    )
    .await;
    let loaded = load(
        &store,
        Load {
            tasks_of: vec![first],
            ..Load::default()
        },
    )
    .await;
    assert_eq!(loaded.tasks[&(first, id(10))], emptied);
    assert_eq!(loaded.tasks[&(first, id(11))], filled);
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
            tasks_of: vec![first, second],
            ..Load::default()
        },
    )
    .await;
    assert_eq!(
        loaded.tasks.keys().collect::<Vec<_>>(),
        [&(first, id(11)), &(second, id(12))]
    );
    assert_eq!(loaded.tasks[&(second, id(12))], full_task(second, 12));
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
            release_lines: runs.clone(),
            ..at(7)
        },
    )
    .await;
    let loaded = load(
        &store,
        Load {
            tasks_of: runs,
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
