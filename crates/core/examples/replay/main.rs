//! Replays a history of a thousand events so many times: what `cargo xtask ratchet` counts the instructions of.
//!
//! ```sh
//! cargo run --release -p durable-core --example replay -- 100
//! ```

mod long_run;

use std::error::Error;

use durable_core::{ReplayMode, TraitProgram, replay};
use long_run::LongRun;

/// Events of the history.
const EVENTS: usize = 1_000;

fn main() -> Result<(), Box<dyn Error>> {
    let times: usize = std::env::args()
        .nth(1)
        .map_or(Ok(1), |times| times.parse())?;
    let history = long_run::history(EVENTS)?;
    assert_eq!(history.len(), EVENTS, "two events a step");
    for _ in 0..times {
        let program = Box::new(TraitProgram::<LongRun>::new());
        let state = replay(
            long_run::identity(),
            program,
            history.iter().cloned(),
            ReplayMode::Normal,
        )?;
        std::hint::black_box(&state);
    }
    Ok(())
}
