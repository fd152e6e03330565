//! What queries saw was the state after whole turns, and never went back.

use everruns_durable::persistence::model::WorkflowStatus;
use serde_json::Value;

use super::Scene;
use crate::sim::requests::View;

pub(super) fn check(scene: &Scene<'_>) {
    for told in scene.told {
        let Some(run) = scene.run(told.run.id).filter(|run| run.run.epoch == 0) else {
            continue;
        };
        let mut seen: Option<&View> = None;
        for view in &told.views {
            let goes_back = seen.is_some_and(|seen| {
                view.0 < seen.0 || (view.0 == seen.0 && !view.1.starts_with(&seen.1))
            });
            if goes_back {
                scene.violated(run, format!("a query saw {view:?} after {seen:?}"));
            }
            let last = run.run.status == WorkflowStatus::Completed && view.0 == run.run.iteration;
            let result = run.run.result.to_value::<Vec<Value>>();
            if last && !result.is_ok_and(|result| result.starts_with(&view.1)) {
                scene.violated(run, format!("a query saw {view:?}, which never came to be"));
            }
            seen = Some(view);
        }
    }
}
