//! Sizes: the limit is for what is stored.

use everruns_durable::codec::ZstdCodec;
use everruns_durable::persistence::limits::PAYLOAD_BYTES_MAX;
use everruns_durable::prelude::*;
use serde_json::Value;

/// Runs one activity and answers how long its result is.
struct Measure {
    dense: bool,
    end: Option<Result<usize, WorkflowError>>,
}

impl Workflow for Measure {
    const TYPE: &'static str = "measure";
    type Input = bool;
    type Output = usize;

    fn new(dense: bool) -> Self {
        Self { dense, end: None }
    }

    fn on_start(&mut self) -> Vec<WorkflowAction> {
        let dense = Payload::from_value(&self.dense).expect("it is JSON");
        vec![WorkflowAction::schedule_activity("text", "text", dense)]
    }

    fn on_activity_completed(&mut self, _id: &str, result: Value) -> Vec<WorkflowAction> {
        self.end = result.as_str().map(|text| Ok(text.len()));
        vec![]
    }

    fn on_activity_failed(&mut self, _id: &str, error: &ActivityError) -> Vec<WorkflowAction> {
        self.end = Some(Err(error.clone().into_failure().into()));
        vec![]
    }

    fn on_timer_fired(&mut self, _id: &str) -> Vec<WorkflowAction> {
        vec![]
    }

    fn on_signal(&mut self, _signal: &WorkflowSignal) -> Vec<WorkflowAction> {
        vec![]
    }

    fn is_completed(&self) -> bool {
        self.end.is_some()
    }

    fn result(&self) -> Option<Result<usize, WorkflowError>> {
        self.end.clone()
    }
}

/// A text that is twice the limit; dense, it does not get smaller than that by much.
fn text(dense: bool) -> String {
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let printable = u8::try_from((state >> 33) % 64).expect("less than 64");
        char::from(b'0' + printable)
    };
    let length = 2 * PAYLOAD_BYTES_MAX;
    if dense {
        (0..length)
            .map(|_| next())
            .filter(|letter| *letter != '\\')
            .collect()
    } else {
        "a".repeat(length)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_result_is_stored_if_its_codec_makes_it_fit_and_fails_its_activity_if_not() {
    let engine = Engine::in_memory()
        .codec(ZstdCodec::default())
        .workflow::<Measure>()
        .activity_fn("text", |_ctx, dense: bool| async move { Ok(text(dense)) })
        .start()
        .await
        .expect("it starts");
    let length = engine.run::<Measure>(false).await.expect("it fits");
    assert_eq!(length, 2 * PAYLOAD_BYTES_MAX);
    let error = engine.run::<Measure>(true).await.unwrap_err();
    let failure = error.failure().expect("the run failed");
    assert_eq!(failure.error_type, "InvalidOutput", "{failure}");
    engine.shutdown().await.expect("it stops");
}
