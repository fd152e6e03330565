//! Differential test: the same random intents to two stores; every answer and all they hold must be equal.
//!
//! A run is cut into episodes, each on fresh stores with a seed of its own, so that content stays small and a
//! difference can be replayed from its episode's first step. Everything follows from the seed: intents, ids, instants.

mod coverage;
mod difference;
mod generate;
mod intent;
mod pair;
mod play;
mod random;
mod request;
mod session;
mod shrink;
mod universe;

pub use coverage::Coverage;
pub use difference::Difference;
pub use pair::{Pair, Subject};
pub use random::Random;
pub(crate) use session::events_of;
pub use shrink::Minimal;

use std::time::Duration;

use durable_core::Payload;
use everruns_durable::persistence::limits::INBOX_FACTS_MAX;
use everruns_durable::persistence::model::{NewUpdate, SendUpdate, StartRun, TerminateRun};
use generate::Generator;
use intent::{Intent, Step};
use play::{Found, Play};
use request::Request;

/// Steps of one episode.
const EPISODE_STEPS: usize = 4_000;
/// Steps between two comparisons of the whole content.
const STEPS_BETWEEN_DUMPS: usize = 50;
/// Steps between two looks of the generator at the runs.
const STEPS_BETWEEN_LOOKS: usize = 4;
/// From this many steps on, everything listed has to have happened.
pub const STEPS_FOR_COVERAGE: usize = 20_000;

/// What to compare, and how long.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Intents sent to each store.
    pub steps: usize,
    /// Where chance begins.
    pub seed: u64,
}

/// What a run found.
#[derive(Debug)]
pub struct Report {
    /// Intents sent to each store.
    pub steps: usize,
    /// What happened, and how often.
    pub coverage: Coverage,
    /// The first difference, if there is one, made as small as possible.
    pub difference: Option<Minimal>,
    /// The command that repeats the run.
    pub repeat: String,
}

impl Report {
    /// What should have happened and never did; empty for runs that are too short to tell.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        if self.steps >= STEPS_FOR_COVERAGE && self.difference.is_none() {
            self.coverage.missing()
        } else {
            Vec::new()
        }
    }

    /// Whether the stores were equal and everything was tried.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.difference.is_none() && self.missing().is_empty()
    }
}

/// Sends the same random intents to both stores until they differ.
///
/// # Errors
/// When a store cannot be opened or dumped.
pub async fn run(pair: &Pair, options: Options) -> anyhow::Result<Report> {
    let mut report = Report {
        steps: 0,
        coverage: Coverage::default(),
        difference: None,
        repeat: format!(
            "durable-testkit differential --stores {} --steps {} --seed {}",
            pair.names(),
            options.steps,
            options.seed
        ),
    };
    let mut random = Random::new(options.seed);
    if options.steps >= STEPS_FOR_COVERAGE {
        let steps = overfull_inbox();
        episode(pair, 1, Script::Written(steps), &mut report).await?;
    }
    while report.steps < options.steps && report.difference.is_none() {
        let shards = if random.one_in(2) { 1 } else { 4 };
        let count = EPISODE_STEPS.min(options.steps - report.steps);
        let generator = Generator::new(random.bits());
        episode(pair, shards, Script::Random(generator, count), &mut report).await?;
    }
    Ok(report)
}

/// Where an episode's steps come from.
enum Script {
    Random(Generator, usize),
    Written(Vec<Step>),
}

/// One episode on fresh stores.
async fn episode(
    pair: &Pair,
    shards: u16,
    mut script: Script,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut play = Play::open(pair, shards).await?;
    std::mem::swap(&mut play.coverage, &mut report.coverage);
    let count = match &script {
        Script::Random(_, count) => *count,
        Script::Written(steps) => steps.len(),
    };
    let mut steps: Vec<Step> = Vec::with_capacity(count);
    let mut found = None;
    for at in 0..count {
        steps.push(match &mut script {
            Script::Written(written) => written[at].clone(),
            Script::Random(generator, _) => {
                if at % STEPS_BETWEEN_LOOKS == 0 {
                    generator.look(play.first().load_turns(generator.slots()).await?);
                }
                generator.next(&play.session)
            }
        });
        report.steps += 1;
        let (_, difference) = play.step(&steps[at]).await;
        let mut in_dump = false;
        let mut difference = difference;
        if difference.is_none() && ((at + 1) % STEPS_BETWEEN_DUMPS == 0 || at + 1 == count) {
            difference = play.compare().await?;
            in_dump = true;
        }
        if let Some(difference) = difference {
            found = Some(Found {
                at,
                in_dump,
                difference,
            });
            break;
        }
    }
    std::mem::swap(&mut play.coverage, &mut report.coverage);
    drop(play);
    if let Some(found) = found {
        let equal_until = found.at / STEPS_BETWEEN_DUMPS * STEPS_BETWEEN_DUMPS;
        let minimal = shrink::shrink(pair, shards, steps, found, equal_until).await?;
        report.difference = Some(minimal);
    }
    Ok(())
}

/// An inbox filled to its limit, which chance would not do: senders are refused, a turn takes all of it, and the run ends.
fn overfull_inbox() -> Vec<Step> {
    let run = universe::id(1, 1);
    let start = StartRun::new(run, universe::WORKFLOWS[0], Payload::null());
    let batch = 10_000;
    let limit = u64::try_from(INBOX_FACTS_MAX).expect("positive");
    let mut intents = vec![Intent::Plain(Request::StartRuns {
        starts: vec![start],
    })];
    intents.extend((0..limit / batch).map(|n| Intent::Flood {
        run,
        first: n * batch,
        count: batch,
    }));
    intents.push(Intent::Flood {
        run,
        first: limit - 1,
        count: 2,
    });
    intents.push(Intent::Plain(Request::SendUpdates {
        updates: vec![SendUpdate {
            run_id: run,
            update: NewUpdate {
                update_id: "u".into(),
                name: "rename".into(),
                input: Payload::null(),
            },
        }],
    }));
    intents.push(Intent::Plain(Request::TerminateRuns {
        runs: vec![TerminateRun {
            run_id: run,
            reason: "overrun".into(),
        }],
    }));
    let now = durable_core::Timestamp::from_second(1_800_000_000).expect("an instant in 2027");
    intents
        .into_iter()
        .enumerate()
        .map(|(number, intent)| Step {
            number,
            now: now
                .checked_add(Duration::from_secs(number as u64))
                .expect("a few seconds later"),
            intent,
        })
        .collect()
}
