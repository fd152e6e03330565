//! A completed run has the search attributes that its code gave it, and the memo of its start.

use everruns_durable::persistence::model::{RunDump, WorkflowStatus};

use super::Scene;
use crate::sim::client::Told;
use crate::sim::interference::PLAN_ATTRIBUTE;

pub(super) fn check(scene: &Scene<'_>) {
    for told in scene.told {
        let Some(run) = scene.run(told.run.id) else {
            continue;
        };
        if run.run.memo.to_value::<String>().ok().as_deref() != Some(&told.plan.key) {
            scene.violated(run, "its memo is not the one it was started with");
        }
        if run.run.status == WorkflowStatus::Completed {
            check_values(scene, told, run);
        }
    }
}

fn check_values(scene: &Scene<'_>, told: &Told, run: &RunDump) {
    let mut expected = told.plan.program.attributes.clone();
    expected.insert("origin".to_owned(), "client".into());
    if scene.world.extras.batches {
        expected.insert(PLAN_ATTRIBUTE.to_owned(), told.plan.key.clone().into());
    }
    if run.attributes != expected {
        let found = &run.attributes;
        scene.violated(
            run,
            format!("its attributes are {found:?} instead of {expected:?}"),
        );
    }
}
