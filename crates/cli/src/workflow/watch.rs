//! `durable workflow watch`: follows a run live.

use std::time::Duration;

use serde_json::Value;

use super::{Named, end, look};
use crate::exit::{Exit, Failure, Result};
use crate::session::Session;

/// Pause before a broken stream is taken up again.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// Failures in a row, without one event in between, after which it is given up.
const FAILURES_MAX: u32 = 10;

/// Follows a run to its end. A stream that breaks, as when its server is restarted, is taken up where it was.
pub(crate) async fn run(named: &Named, session: &Session) -> Result<()> {
    let id = session.run(&named.run).await?;
    let mut last: Option<String> = None;
    let mut failures = 0;
    loop {
        match follow(&id, &mut last, &mut failures, session).await {
            Ok(true) => break,
            Ok(false) => {}
            Err(failure) if failure.exit() == Exit::Unreachable && failures < FAILURES_MAX => {
                failures += 1;
            }
            Err(failure) => return Err(failure),
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
    let (_, answer) = session
        .api
        .get_within(&["workflows", &id, "result"], Duration::ZERO)
        .await?;
    end::conclude(&id, &answer, session)
}

/// Shows events until the stream ends; answers whether the run has.
async fn follow(
    id: &str,
    last: &mut Option<String>,
    failures: &mut u32,
    session: &Session,
) -> Result<bool> {
    let mut events = session
        .api
        .events(&["workflows", id, "events", "stream"], last.as_deref())
        .await?;
    while let Some(event) = events.next().await? {
        *failures = 0;
        if event.id.is_some() {
            last.clone_from(&event.id);
        }
        match event.name.as_str() {
            "end" => return Ok(true),
            // This server stops; another one, or its successor, goes on.
            "goaway" => return Ok(false),
            "error" => return Err(Failure::new(Exit::Failure, event.data)),
            _ if matches!(event.data, Value::Object(_)) => session
                .output
                .event(&event.data, || look::line(&event.data))?,
            _ => {}
        }
    }
    Ok(false)
}
