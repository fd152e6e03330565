//! The table of routes: every one stands here, with the permission it takes. What is not here is not served.

use axum::routing::MethodRouter;
use utoipa_axum::router::UtoipaMethodRouter;
use utoipa_axum::routes;

use super::workflows::{batch, find, history, operate, result, start, stream, talk, why};
use super::{audit, breakers, dlq, health, metrics, schedules, set_aside, tasks, tokens, workers};
use crate::App;
use crate::auth::Permission::{self, Administer, Operate, Read, Signal, Start};

/// A route and the permission it takes.
pub(super) struct Route {
    pub(super) permission: Permission,
    pub(super) described: UtoipaMethodRouter<App>,
}

impl Route {
    pub(super) fn handler(self) -> (Permission, MethodRouter<App>) {
        (self.permission, self.described.2)
    }
}

const fn route(permission: Permission, described: UtoipaMethodRouter<App>) -> Route {
    Route {
        permission,
        described,
    }
}

/// All routes below `/v1/durable`.
pub(super) fn routes() -> Vec<Route> {
    vec![
        route(Read, routes!(find::list_workflows)),
        route(Start, routes!(start::start_workflow)),
        route(Read, routes!(find::count_workflows)),
        route(Start, routes!(start::signal_with_start)),
        route(Operate, routes!(batch::batch_workflows)),
        route(Read, routes!(find::get_workflow)),
        route(Read, routes!(history::list_events)),
        route(Read, routes!(stream::stream_events)),
        route(Read, routes!(history::export_history)),
        route(Read, routes!(history::list_logs)),
        route(Read, routes!(result::get_result)),
        route(Read, routes!(why::why_workflow)),
        route(Read, routes!(talk::query_workflow)),
        route(Signal, routes!(talk::signal_workflow)),
        route(Signal, routes!(talk::update_workflow)),
        route(Read, routes!(talk::get_update)),
        route(Signal, routes!(operate::approve_workflow)),
        route(Operate, routes!(operate::cancel_workflow)),
        route(Operate, routes!(operate::shutdown_workflow)),
        route(Operate, routes!(operate::terminate_workflow)),
        route(Operate, routes!(operate::retry_workflow)),
        route(Operate, routes!(operate::reset_workflow)),
        route(Operate, routes!(operate::delete_workflow)),
        route(Read, routes!(tasks::list_tasks)),
        route(Read, routes!(health::get_task_stats)),
        route(Read, routes!(dlq::list_dlq)),
        route(Operate, routes!(dlq::purge_dlq)),
        route(Read, routes!(dlq::get_dlq)),
        route(Operate, routes!(dlq::delete_dlq)),
        route(Operate, routes!(dlq::requeue_dlq)),
        route(Operate, routes!(dlq::complete_dlq)),
        route(Operate, routes!(dlq::discard_dlq)),
        route(Read, routes!(schedules::list_schedules)),
        route(Operate, routes!(schedules::create_schedule)),
        route(Read, routes!(schedules::get_schedule)),
        route(Operate, routes!(schedules::delete_schedule)),
        route(Operate, routes!(schedules::pause_schedule)),
        route(Operate, routes!(schedules::resume_schedule)),
        route(Start, routes!(schedules::trigger_schedule)),
        route(Operate, routes!(schedules::backfill_schedule)),
        route(Read, routes!(workers::list_workers)),
        route(Read, routes!(workers::get_worker)),
        route(Operate, routes!(workers::drain_worker)),
        route(Read, routes!(breakers::list_breakers)),
        route(Operate, routes!(breakers::reset_breaker)),
        route(Read, routes!(health::get_health)),
        route(Read, routes!(set_aside::list_set_aside)),
        route(Operate, routes!(set_aside::retry_set_aside)),
        route(Read, routes!(metrics::get_metrics)),
        route(Read, routes!(metrics::get_timeseries)),
        route(Read, routes!(metrics::stream_metrics)),
        route(Administer, routes!(tokens::list_tokens)),
        route(Administer, routes!(audit::list_audit)),
    ]
}
