//! Single activities, each as a run of its own.

use durable_core::{ActivityOptions, Payload};

use super::{Client, Start, Untyped};
use crate::activity::Activity;
use crate::workflow::{ActivityRequest, ActivityRun};

impl Client {
    /// Runs one activity as a run of its own: `client.enqueue::<send_mail>(to).await?`, with the options of a start in between. The
    /// run's result is the activity's.
    pub fn enqueue<A: Activity>(&self, input: A::Input) -> Start<ActivityRun<A>> {
        self.start(ActivityRequest::of::<A>(input))
    }

    /// [`Client::enqueue`] with other options than the activity's own.
    pub fn enqueue_with<A: Activity>(
        &self,
        input: A::Input,
        options: ActivityOptions,
    ) -> Start<ActivityRun<A>> {
        let mut request = ActivityRequest::of::<A>(input);
        request.options = Some(options);
        self.start(request)
    }

    /// [`Client::enqueue`] of an activity known by name only.
    pub fn enqueue_named(
        &self,
        activity_type: impl Into<String>,
        input: Payload,
        options: Option<ActivityOptions>,
    ) -> Start<Untyped> {
        let request = ActivityRequest {
            activity_type: activity_type.into(),
            input,
            options,
        };
        self.start_named(ActivityRequest::<Payload>::WORKFLOW_TYPE, request.into())
    }
}
