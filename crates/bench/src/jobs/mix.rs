//! Mixes: J1's work as it is found in the field: most runs asleep, large payloads, many activity types, priorities.

use std::time::{Duration, Instant};

use everruns_durable::core::ActivityOptions;
use everruns_durable::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bench::Bench;
use crate::database::Database;
use crate::figures::{Figures, per_second};
use crate::options::Mode;
use crate::output::Bar;
use crate::work::STEPS;

/// Activity types of the case `types`.
const TYPES: u32 = 200;
/// Bytes of every input and result of the case `payloads`.
const PAYLOAD_BYTES: usize = 64 << 10;
/// So many fewer runs have large payloads.
const FEWER_WITH_PAYLOADS: usize = 20;
/// Of so many runs one is awake in the case `sleeping`.
const ONE_AWAKE_OF: usize = 5;
/// How long the others sleep.
const SLEEP: Duration = Duration::from_secs(3600);

/// What a run is like.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Shape {
    number: u32,
    types: u32,
    payload_bytes: usize,
    priorities: bool,
    sleeps: bool,
}

/// Five sequential activities of a shape.
struct Mixed {
    shape: Shape,
    done: u32,
}

impl Mixed {
    fn step(&self) -> Vec<WorkflowAction> {
        let Shape {
            number,
            types,
            payload_bytes,
            priorities,
            ..
        } = self.shape;
        let turn = number.wrapping_add(self.done);
        let priority = if priorities { turn % 7 } else { 0 };
        vec![WorkflowAction::ScheduleActivity {
            activity_id: format!("step-{}", self.done),
            activity_type: name(turn % types.max(1)),
            input: payload(turn, payload_bytes),
            options: ActivityOptions {
                priority: i32::try_from(priority).unwrap_or(0),
                ..ActivityOptions::default()
            },
        }]
    }
}

impl Workflow for Mixed {
    const TYPE: &'static str = "mixed";
    type Input = Shape;
    type Output = ();

    fn new(shape: Shape) -> Self {
        Self { shape, done: 0 }
    }
    fn on_start(&mut self) -> Vec<WorkflowAction> {
        if !self.shape.sleeps {
            return self.step();
        }
        vec![WorkflowAction::StartTimer {
            timer_id: "sleep".to_owned(),
            duration: SLEEP,
        }]
    }
    fn on_activity_completed(&mut self, _id: &str, _result: Value) -> Vec<WorkflowAction> {
        self.done += 1;
        if self.is_completed() {
            vec![]
        } else {
            self.step()
        }
    }
    fn on_activity_failed(&mut self, _id: &str, error: &ActivityError) -> Vec<WorkflowAction> {
        let error = WorkflowError::from(error.clone().into_failure());
        vec![WorkflowAction::FailWorkflow { error }]
    }
    fn on_timer_fired(&mut self, _id: &str) -> Vec<WorkflowAction> {
        self.step()
    }
    fn on_signal(&mut self, _signal: &WorkflowSignal) -> Vec<WorkflowAction> {
        vec![]
    }
    fn is_completed(&self) -> bool {
        usize::try_from(self.done).is_ok_and(|done| done == STEPS)
    }
}

fn name(number: u32) -> String {
    format!("echo-{number}")
}

/// A text that hardly compresses, the same for the same number.
fn payload(number: u32, bytes: usize) -> Payload {
    let mut state = u64::from(number) | 1 << 40;
    let letters = (0..bytes).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef"[usize::try_from(state >> 59).unwrap_or(0)]
    });
    let text: Vec<u8> = [b'"'].into_iter().chain(letters).chain([b'"']).collect();
    Payload::from_stored(text)
}

/// A case: its name, how many runs of it there are, and what each is like.
type Case = (&'static str, usize, fn(usize) -> Shape);

/// Each mix, and the same work without it.
pub(crate) async fn run(bench: &Bench) -> anyhow::Result<()> {
    let runs = bench.options.comparison_runs();
    let few = runs.div_ceil(FEWER_WITH_PAYLOADS);
    let cases: [Case; 5] = [
        ("plain", runs, |_| Shape::default()),
        ("types", runs, |_| Shape {
            types: TYPES,
            ..Shape::default()
        }),
        ("priorities", runs, |_| Shape {
            priorities: true,
            ..Shape::default()
        }),
        ("sleeping", runs, |number| Shape {
            sleeps: number % ONE_AWAKE_OF != 0,
            ..Shape::default()
        }),
        ("payloads", few, |_| Shape {
            payload_bytes: PAYLOAD_BYTES,
            ..Shape::default()
        }),
    ];
    for (case, runs, shape) in cases {
        bench
            .case(async |database| measure(database, case, runs, shape).await)
            .await?;
    }
    Ok(())
}

async fn measure(
    database: &Database,
    case: &str,
    runs: usize,
    shape: fn(usize) -> Shape,
) -> anyhow::Result<Figures> {
    let mut builder = Engine::open(&database.url).workflow::<Mixed>();
    for number in 0..TYPES {
        builder = builder.activity_fn(name(number), |_ctx, text: String| async move { Ok(text) });
    }
    let engine = builder.start().await?;
    engine.run::<Mixed>(Shape::default()).await?;
    let bar = Bar::new(format!("mix {case}, {runs} runs"), runs);
    let client = engine.client();
    let began = Instant::now();
    let shapes = (0..runs).map(|run| Shape {
        number: u32::try_from(run).unwrap_or(0),
        ..shape(run)
    });
    let works = shapes.map(|shape| {
        let start = client.start::<Mixed>(shape);
        async move {
            let run = start.await?;
            if shape.sleeps {
                return Ok(0);
            }
            run.result().await?;
            anyhow::Ok(STEPS)
        }
    });
    let activities: usize = try_join_all(works).await?.into_iter().sum();
    let took = began.elapsed();
    bar.set(runs);
    engine.shutdown().await?;
    let rate = per_second(activities, took);
    let mut figures = Figures::rate("mix", Mode::Embedded, "activities_per_s", rate)
        .with("case", case)
        .with("runs", runs);
    figures.add("seconds", took.as_secs_f64());
    figures.add("starts_per_s", per_second(runs, took));
    Ok(figures)
}
