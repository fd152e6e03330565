//! Signals and cancellation: one trip is confirmed, another is called off and undoes what it has booked.
//!
//! ```sh
//! cargo run --example signal_cancellation
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;

use everruns_durable::prelude::*;
use serde_json::Value;
use tokio::sync::Notify;

/// Books a hotel, then watches prices until the traveller confirms or calls it off.
struct Trip {
    traveller: String,
    called_off: bool,
    ticket: Option<String>,
}

impl Trip {
    fn step(&self, activity: &str) -> WorkflowAction {
        let input = Payload::from_value(&self.traveller).expect("a string is JSON");
        WorkflowAction::schedule_activity(activity, activity, input)
    }

    /// The watching never ends by itself: it is given up, and the activity is told so.
    fn stop_watching() -> WorkflowAction {
        WorkflowAction::CancelActivity {
            activity_id: "watch_prices".to_owned(),
        }
    }
}

impl Workflow for Trip {
    const TYPE: &'static str = "trip";
    type Input = String;
    type Output = String;

    fn new(traveller: String) -> Self {
        Self {
            traveller,
            called_off: false,
            ticket: None,
        }
    }

    fn on_start(&mut self) -> Vec<WorkflowAction> {
        vec![self.step("book_hotel")]
    }

    fn on_activity_completed(&mut self, activity_id: &str, result: Value) -> Vec<WorkflowAction> {
        match activity_id {
            "book_hotel" => vec![self.step("watch_prices")],
            "book_flight" => {
                self.ticket = result.as_str().map(str::to_owned);
                vec![]
            }
            // The hotel is given back and nothing else is outstanding: the run ends as cancelled by itself.
            _ => vec![],
        }
    }

    fn on_activity_failed(
        &mut self,
        activity_id: &str,
        error: &ActivityError,
    ) -> Vec<WorkflowAction> {
        if activity_id == "watch_prices" {
            return vec![];
        }
        let error = error.clone().into_failure().into();
        vec![WorkflowAction::FailWorkflow { error }]
    }

    fn on_timer_fired(&mut self, _id: &str) -> Vec<WorkflowAction> {
        vec![]
    }

    fn on_signal(&mut self, signal: &WorkflowSignal) -> Vec<WorkflowAction> {
        match signal.signal_type.as_str() {
            "confirm" if !self.called_off => vec![Self::stop_watching(), self.step("book_flight")],
            signal_types::CANCEL => {
                self.called_off = true;
                vec![Self::stop_watching(), self.step("cancel_hotel")]
            }
            _ => vec![],
        }
    }

    fn is_completed(&self) -> bool {
        self.ticket.is_some()
    }

    fn result(&self) -> Option<Result<String, WorkflowError>> {
        self.ticket.clone().map(Ok)
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "memory:".to_owned());
    let watching = Arc::new(Notify::new());
    let begun = Arc::clone(&watching);
    let engine = Engine::open(url)
        .workflow::<Trip>()
        .activity_fn("book_hotel", |_ctx, who: String| async move {
            println!("{who}: the hotel is booked");
            Ok(())
        })
        .activity_fn("watch_prices", move |ctx: ActivityContext, who: String| {
            let begun = Arc::clone(&begun);
            async move {
                println!("{who}: watching prices");
                begun.notify_one();
                ctx.cancelled().await;
                println!("{who}: no longer watching prices");
                Err::<(), _>(ActivityError::new("Stopped", "asked to stop"))
            }
        })
        .activity_fn("book_flight", |_ctx, who: String| async move {
            println!("{who}: the flight is booked");
            Ok(format!("ticket for {who}"))
        })
        .activity_fn("cancel_hotel", |_ctx, who: String| async move {
            println!("{who}: the hotel is given back");
            Ok(())
        })
        .start()
        .await?;
    let client = engine.client();

    let trip = client.start::<Trip>("Ada".to_owned()).await?;
    watching.notified().await;
    trip.signal("confirm", &()).await?;
    println!("Ada's trip is complete: {}", trip.result().await?);

    let trip = client.start::<Trip>("Ben".to_owned()).await?;
    watching.notified().await;
    trip.cancel("fell ill").await?;
    match trip.result().await {
        Err(error) if error.is_cancelled() => println!("Ben's trip was called off: {error}"),
        Err(error) => return Err(error),
        Ok(ticket) => println!("Ben's trip is complete: {ticket}"),
    }

    match trip.signal("confirm", &()).await {
        Err(error) if error.is_run_finished() => {
            println!("a signal that comes too late is refused");
        }
        other => other?,
    }

    engine.shutdown().await
}
