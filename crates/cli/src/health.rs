//! `durable health`: how the system stands.

use crate::exit::Result;
use crate::output::{Cell, plain};
use crate::session::Session;

/// Shows it.
pub(crate) async fn run(session: &Session) -> Result<()> {
    let health = session.api.get(&["health"], &[]).await?;
    session.output.fields(&health, || {
        let object = health.as_object().into_iter().flatten();
        let cells = object.map(|(name, value)| {
            let cell = if name == "status" {
                Cell::status(plain(value))
            } else {
                plain(value).into()
            };
            (name.clone(), cell)
        });
        cells.collect()
    })
}
