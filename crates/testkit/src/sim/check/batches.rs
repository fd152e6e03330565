//! A batch touches the run that its filter selects, and a dry run names it; that no other was touched is told by how they ended.

use super::Scene;

pub(super) fn check(scene: &Scene<'_>) {
    for told in scene.told {
        for batch in &told.interfered.batches {
            let names_others = batch.runs.iter().any(|run_id| *run_id != told.run.id);
            if batch.affected + batch.passed_over > 1 || names_others {
                let key = &told.plan.key;
                scene
                    .world
                    .violated(format!("a batch that selects {key} came to {batch:?}"));
            }
        }
    }
}
