//! Transactions under a codec: no payload is stored as it was given.

use std::sync::Arc;

use durable_core::Payload;
use everruns_durable::codec::{CodecError, PayloadCodec, envelope};
use everruns_durable::postgres;
use everruns_durable::prelude::*;
use tokio_postgres::Client as Connection;

use crate::server::{connect, fresh_database};

const NAME: &str = "masked";

/// Masks every byte. Starts are known under its first number, and under the others it had before.
#[derive(Clone)]
struct Masked(Vec<i64>);

#[async_trait]
impl PayloadCodec for Masked {
    fn name(&self) -> String {
        NAME.to_owned()
    }

    async fn encode(&self, payload: Payload) -> Result<Payload, CodecError> {
        let masked: Vec<u8> = payload.as_bytes().iter().map(|byte| byte ^ 0xa5).collect();
        envelope::seal(NAME, &masked)
    }

    async fn decode(&self, payload: Payload) -> Result<Payload, CodecError> {
        Ok(match envelope::open(NAME, &payload) {
            Some(masked) => {
                let plain: Vec<u8> = masked.iter().map(|byte| byte ^ 0xa5).collect();
                Payload::from_json_text(plain)
                    .map_err(|error| CodecError::Damaged(error.to_string()))?
            }
            None => payload,
        })
    }

    fn fingerprints(&self, plain: i64) -> Vec<i64> {
        self.0.iter().map(|number| plain ^ number).collect()
    }
}

#[activity(transactional)]
async fn keep(ctx: ActivityContext, text: String) -> ActivityResult<String> {
    let transaction = ctx.transaction().await?;
    transaction
        .execute("INSERT INTO own VALUES ($1)", &[&text.len().to_string()])
        .await?;
    Ok(format!("{text}, kept"))
}

#[workflow]
async fn keep_what_is_told(ctx: WorkflowContext, before: String) -> WorkflowResult<String> {
    let told: String = ctx.signal("told").await?;
    ctx.activity::<keep>(format!("{before} and {told}")).await
}

/// Columns of the engine's in which the bytes occur.
async fn places_of(client: &Connection, bytes: &str) -> Vec<String> {
    let columns = "SELECT c.table_name, c.column_name FROM information_schema.columns AS c
        JOIN information_schema.tables AS t USING (table_schema, table_name)
        WHERE c.table_schema = 'durable' AND t.table_type = 'BASE TABLE' AND c.data_type = 'bytea'";
    let mut places = Vec::new();
    for row in client.query(columns, &[]).await.unwrap() {
        let (table, column): (String, String) = (row.get(0), row.get(1));
        let search = format!(
            "SELECT count(*) FROM durable.{table} WHERE position($1::BYTEA IN {column}) > 0"
        );
        let found = client
            .query_one(&search, &[&bytes.as_bytes()])
            .await
            .unwrap();
        if found.get::<_, i64>(0) > 0 {
            places.push(format!("{table}.{column}"));
        }
    }
    places
}

#[tokio::test]
async fn what_is_started_signalled_and_answered_inside_transactions_is_encoded() {
    let url = fresh_database().await;
    let mut client = connect(&url).await;
    let codec = Masked(vec![7]);
    let engine = Engine::postgres(&url)
        .codec(codec.clone())
        .workflow::<keep_what_is_told>()
        .activity(keep)
        .start()
        .await
        .unwrap();
    client
        .batch_execute("CREATE TABLE own (length TEXT)")
        .await
        .unwrap();
    let codec: Arc<dyn PayloadCodec> = Arc::new(codec);
    let transaction = client.transaction().await.unwrap();
    let run_id = postgres::start_in::<keep_what_is_told>(&transaction, "Secret one".into())
        .memo(&"Secret memo")
        .codec(Arc::clone(&codec))
        .await
        .unwrap();
    postgres::signal_in(&transaction, run_id, "told", "Secret two")
        .codec(codec)
        .await
        .unwrap();
    transaction.commit().await.unwrap();
    let run = engine.client().run::<keep_what_is_told>(run_id);
    let answer = run.result().await.unwrap();
    assert_eq!(answer, "Secret one and Secret two, kept");
    engine.shutdown().await.unwrap();
    let none: [String; 0] = [];
    assert_eq!(places_of(&client, "Secret").await, none);
    let masked: String = NAME.to_owned();
    assert!(!places_of(&client, &masked).await.is_empty(), "it looks");
}

#[tokio::test]
async fn a_key_means_the_same_run_after_the_codecs_key_was_replaced() {
    let url = fresh_database().await;
    let engine = Engine::postgres(&url).start().await.unwrap();
    let mut client = connect(&url).await;
    let transaction = client.transaction().await.unwrap();
    let start = |input: &str, codec| {
        postgres::start_in::<keep_what_is_told>(&transaction, input.to_owned())
            .idempotency_key("key-1")
            .codec(Arc::new(codec))
    };
    let first = start("a", Masked(vec![1])).await.unwrap();
    let again = start("a", Masked(vec![2, 1])).await.unwrap();
    assert_eq!(again, first);
    let refused = start("b", Masked(vec![2, 1])).await.unwrap_err();
    assert!(refused.is_conflict(), "{refused}");
    drop(transaction);
    engine.shutdown().await.unwrap();
}
