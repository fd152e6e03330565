//! `durable workflow watch`: follows a run live.

use std::time::Duration;

use super::again::{Again, pause};
use super::{Named, end, look};
use crate::exit::{Exit, Failure, Result};
use crate::session::Session;

/// Follows a run to its end. A stream that breaks, as when its server is restarted, is taken up where it was.
pub(crate) async fn run(named: &Named, session: &Session) -> Result<()> {
    let id = session.run(&named.run).await?;
    let mut last: Option<String> = None;
    let mut again = Again::default();
    loop {
        match follow(&id, &mut last, &mut again, session).await {
            Ok(true) => break,
            Ok(false) => pause().await,
            Err(failure) => again.after(failure).await?,
        }
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
    again: &mut Again,
    session: &Session,
) -> Result<bool> {
    let path = ["workflows", id, "events", "stream"];
    let mut events = session.api.events(&path, last.as_deref()).await?;
    again.well();
    while let Some(event) = events.next().await? {
        if event.id.is_some() {
            last.clone_from(&event.id);
        }
        match event.name.as_str() {
            "end" => return Ok(true),
            // This server stops: another one, or its successor, goes on. Or the token counts no more: coming again tells why.
            "goaway" | "denied" => return Ok(false),
            "error" => return Err(Failure::new(Exit::Failure, event.data.plain())),
            _ if event.data.is_object() => session
                .output
                .event(&event.data, || look::line(&event.data))?,
            _ => {}
        }
    }
    Ok(false)
}
