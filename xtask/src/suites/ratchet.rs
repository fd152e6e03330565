//! The instructions of a replay, as one test.

use super::{Context, Counts, Row};
use crate::callgrind::{self, Verdict};

/// Passes while a replay costs about what it did; ignored where valgrind is not installed.
pub(super) fn suite(context: &Context<'_>) -> anyhow::Result<Vec<Row>> {
    if !callgrind::is_installed() {
        println!("valgrind is not installed: `apt-get install valgrind`");
        let counts = Counts {
            ignored: 1,
            ..Counts::default()
        };
        let target = "replay (valgrind is not installed)".to_owned();
        return Ok(vec![Row { target, counts }]);
    }
    let counted = callgrind::count(context.workspace)?;
    let verdict = callgrind::judge(counted, callgrind::committed(context.workspace)?);
    println!("{verdict}");
    let mut counts = Counts::default();
    match verdict {
        Verdict::Dearer { .. } => counts.failed = 1,
        Verdict::Same { .. } | Verdict::Cheaper { .. } => counts.passed = 1,
    }
    let target = "replay of 1,000 events".to_owned();
    Ok(vec![Row { target, counts }])
}
