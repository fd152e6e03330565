//! Connections of the bell: how they are made, and what is said on them.

use std::future::poll_fn;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client};

use crate::persistence::postgres::options::{PoolConfig, Route};
use crate::persistence::postgres::schema::Schema;
use crate::persistence::postgres::sql;

/// Longest name of a channel.
const CHANNEL_BYTES_MAX: usize = 63;
/// Longest that a statement may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Why a connection is given up.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("no answer within {0:?}")]
    NoAnswer(Duration),
    #[error("the connection was closed")]
    Closed,
    #[error("it does not hear its own rings; does a transaction pooler stand in between?")]
    Deaf,
    #[error(transparent)]
    Postgres(#[from] tokio_postgres::Error),
}

/// Where the bell's connections lead, and the channel they speak on.
#[derive(Clone)]
pub(super) struct Line {
    route: Route,
    channel: String,
    connect_timeout: Duration,
}

/// A connection of the bell. Closed when it is dropped.
pub(super) struct Call {
    client: Client,
    channel: String,
    /// Payloads that were heard; ends with the connection.
    pub(super) heard: mpsc::UnboundedReceiver<String>,
}

impl Line {
    pub(super) fn new(mut route: Route, schema: &Schema, pools: &PoolConfig) -> Self {
        // A hint that does not survive a crash of the server is no loss, so that nobody waits for the disk.
        let given = route.config.get_options().unwrap_or_default();
        let options = format!("-c synchronous_commit=off {given}");
        route.config.options(options.trim_end());
        Self {
            route,
            channel: channel(schema),
            connect_timeout: pools.connect_timeout,
        }
    }

    /// A new connection; operators see by its name what it is for.
    pub(super) async fn open(&self, purpose: &str) -> Result<Call, Trouble> {
        let Route { mut config, tls } = self.route.clone();
        let name = config.get_application_name().unwrap_or("durable");
        let name = format!("{name} {purpose}");
        config.application_name(name);
        let connecting = timeout(self.connect_timeout, config.connect(tls));
        let no_answer = |_| Trouble::NoAnswer(self.connect_timeout);
        let (client, mut connection) = connecting.await.map_err(no_answer)??;
        let (hear, heard) = mpsc::unbounded_channel();
        // Ends by itself when the client is dropped.
        tokio::spawn(async move {
            while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
                match message {
                    Ok(AsyncMessage::Notification(note)) => {
                        // Nobody hears it any more when the call is being closed.
                        let _ = hear.send(note.payload().to_owned());
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(%error, "a connection of the bell ended");
                        return;
                    }
                }
            }
        });
        Ok(Call {
            client,
            channel: self.channel.clone(),
            heard,
        })
    }
}

impl Call {
    /// Begins to listen.
    pub(super) async fn listen(&self) -> Result<(), Trouble> {
        let listen = format!("LISTEN \"{}\"", self.channel);
        in_time(self.client.batch_execute(&listen)).await
    }

    /// Sends a payload to all who listen.
    pub(super) async fn notify(&self, payload: &str) -> Result<(), Trouble> {
        let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
            [(&self.channel, Type::TEXT), (&payload, Type::TEXT)];
        let ring = self.client.query_typed(sql::bell::RING.sql, &params);
        in_time(ring).await.map(drop)
    }
}

async fn in_time<T>(
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Trouble> {
    match timeout(ANSWER_MAX, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Trouble::NoAnswer(ANSWER_MAX)),
    }
}

/// The channel of a schema: named after it, or by a hash of the name where that would be cut off.
pub(super) fn channel(schema: &Schema) -> String {
    let name = format!("durable_{}", schema.name());
    if name.len() <= CHANNEL_BYTES_MAX {
        return name;
    }
    let hash = Sha256::digest(schema.name());
    let hex: String = hash[..16].iter().map(|b| format!("{b:02x}")).collect();
    format!("durable_{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_has_a_channel_of_its_own_that_postgres_keeps_whole() {
        let of = |name: &str| channel(&Schema::new(name).unwrap());
        assert_eq!(of("My_app"), "durable_My_app");
        let (long, other) = (of(&"a".repeat(63)), of(&format!("{}b", "a".repeat(62))));
        assert_ne!(long, other);
        assert!(long.len() <= CHANNEL_BYTES_MAX && long.starts_with("durable_"));
    }
}
