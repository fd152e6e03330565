//! What a run wants done, as it came in.

use std::time::Duration;

use durable_core::{
    ActivityOptions, ChildOptions, ClosePolicy, ExhaustedPolicy, WorkflowAction, WorkflowError,
};
use uuid::Uuid;

use super::{Malformed, attributes, failure, named, payload, required, uuid};
use crate::v1;
use v1::action::Action;

/// The actions of a step, and the signals that one of them leaves unread.
///
/// # Errors
/// What the contract does not allow, by its place.
pub fn step_actions(
    place: &str,
    messages: Vec<v1::Action>,
) -> Result<(Vec<WorkflowAction>, Vec<Uuid>), Malformed> {
    let mut unread = Vec::new();
    let mut actions = Vec::with_capacity(messages.len());
    for (index, message) in messages.into_iter().enumerate() {
        let place = format!("{place}[{index}]");
        if let Some(Action::ContinueAsNew(next)) = &message.action {
            for id in &next.unread_signal_ids {
                unread.push(uuid(&format!("{place}.unread_signal_ids"), id)?);
            }
        }
        let kind = required(&place, message.action)?;
        actions.push(action(kind).map_err(|mistake| mistake.within(&place))?);
    }
    Ok((actions, unread))
}

fn action(message: Action) -> Result<WorkflowAction, Malformed> {
    use WorkflowAction as A;
    Ok(match message {
        Action::ScheduleActivity(asked) => A::ScheduleActivity {
            activity_id: named("activity_id", asked.activity_id)?,
            activity_type: named("activity_type", asked.activity_type)?,
            input: payload("input", asked.input)?,
            options: activity_options(asked.options.unwrap_or_default()),
        },
        Action::CancelActivity(asked) => A::CancelActivity {
            activity_id: named("activity_id", asked.activity_id)?,
        },
        Action::StartTimer(asked) => A::StartTimer {
            timer_id: named("timer_id", asked.timer_id)?,
            duration: Duration::from_millis(asked.duration_ms),
        },
        Action::CancelTimer(asked) => A::CancelTimer {
            timer_id: named("timer_id", asked.timer_id)?,
        },
        Action::StartChild(asked) => A::StartChildWorkflow {
            options: ChildOptions {
                close_policy: close_policy(asked.close_policy)?,
                execution_timeout: asked.execution_timeout_ms.map(Duration::from_millis),
                run_timeout: asked.run_timeout_ms.map(Duration::from_millis),
                workflow_id: Some(asked.workflow_id).filter(|id| !id.is_empty()),
                version: asked.version,
            },
            workflow_id: named("child_id", asked.child_id)?,
            workflow_type: named("workflow_type", asked.workflow_type)?,
            input: payload("input", asked.input)?,
        },
        Action::CancelChild(asked) => A::CancelChildWorkflow {
            workflow_id: named("child_id", asked.child_id)?,
        },
        Action::CompleteWorkflow(end) => A::CompleteWorkflow {
            result: payload("result", end.result)?,
        },
        Action::FailWorkflow(end) => {
            let mut error = failure("failure", required("failure", end.failure)?)?;
            // Nobody tries a run again by itself.
            error.retryable = false;
            A::FailWorkflow {
                error: WorkflowError::from(error),
            }
        }
        Action::CancelWorkflow(end) => A::CancelWorkflow { reason: end.reason },
        Action::ContinueAsNew(end) => A::ContinueAsNew {
            input: payload("input", end.input)?,
        },
        Action::CompleteUpdate(answer) => A::CompleteUpdate {
            update_id: named("update_id", answer.update_id)?,
            result: payload("result", answer.result)?,
        },
        Action::FailUpdate(answer) => A::FailUpdate {
            update_id: named("update_id", answer.update_id)?,
            error: failure("failure", required("failure", answer.failure)?)?,
        },
        Action::UpsertSearchAttributes(asked) => A::UpsertSearchAttributes {
            attributes: attributes("attributes", asked.attributes)?,
        },
        Action::OpenHumanTask(asked) => A::OpenHumanTask {
            task_id: named("task_id", asked.task_id)?,
            request: payload("request", asked.request)?,
        },
    })
}

/// Activities asked for over the wire go side by side unless said otherwise: code that waits for one before it asks for the next has its order anyway.
fn activity_options(asked: v1::ActivityOptions) -> ActivityOptions {
    let mut options = ActivityOptions::default();
    let retry = &mut options.retry_policy;
    let set = |place: &mut Duration, ms: Option<u64>| {
        if let Some(ms) = ms {
            *place = Duration::from_millis(ms);
        }
    };
    if let Some(attempts) = asked.max_attempts {
        retry.max_attempts = attempts;
    }
    set(&mut retry.initial_interval, asked.initial_interval_ms);
    set(&mut retry.max_interval, asked.max_interval_ms);
    if let Some(coefficient) = asked.backoff_coefficient {
        retry.backoff_coefficient = coefficient;
    }
    retry.non_retryable_errors = asked.non_retryable_errors;
    set(
        &mut options.schedule_to_start_timeout,
        asked.schedule_to_start_timeout_ms,
    );
    set(
        &mut options.start_to_close_timeout,
        asked.start_to_close_timeout_ms,
    );
    options.schedule_to_close_timeout = asked
        .schedule_to_close_timeout_ms
        .map(Duration::from_millis);
    options.heartbeat_timeout = asked.heartbeat_timeout_ms.map(Duration::from_millis);
    options.priority = asked.priority;
    options.sequential = asked.sequential;
    if asked.park_when_exhausted {
        options.on_exhausted = ExhaustedPolicy::Park;
    }
    options
}

fn close_policy(number: i32) -> Result<ClosePolicy, Malformed> {
    match v1::ClosePolicy::try_from(number) {
        Ok(v1::ClosePolicy::Unspecified | v1::ClosePolicy::Cancel) => Ok(ClosePolicy::Cancel),
        Ok(v1::ClosePolicy::Terminate) => Ok(ClosePolicy::Terminate),
        Ok(v1::ClosePolicy::Abandon) => Ok(ClosePolicy::Abandon),
        Err(_) => Err(Malformed::new(
            "close_policy",
            format!("{number} is no policy"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(action: Action) -> Result<(Vec<WorkflowAction>, Vec<Uuid>), Malformed> {
        let action = Some(action);
        step_actions("actions", vec![v1::Action { action }])
    }

    #[test]
    fn an_activity_without_options_has_the_defaults_and_waits_for_no_other() {
        let asked = v1::ScheduleActivity {
            activity_id: "1".to_owned(),
            activity_type: "greet".to_owned(),
            ..v1::ScheduleActivity::default()
        };
        let (actions, _) = read(Action::ScheduleActivity(asked)).expect("read");
        let [WorkflowAction::ScheduleActivity { options, input, .. }] = &actions[..] else {
            panic!("{actions:?}");
        };
        let expected = ActivityOptions {
            sequential: false,
            ..ActivityOptions::default()
        };
        assert_eq!(*options, expected);
        assert_eq!(input.as_bytes(), b"null");
    }

    #[test]
    fn a_mistake_is_named_by_its_place() {
        let asked = v1::CompleteWorkflow { result: "{".into() };
        let mistake = read(Action::CompleteWorkflow(asked)).expect_err("no JSON");
        assert_eq!(mistake.place, "actions[0].result");
        let nothing = step_actions("actions", vec![v1::Action { action: None }]);
        assert_eq!(nothing.expect_err("nothing").place, "actions[0]");
    }
}
