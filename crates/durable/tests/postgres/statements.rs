//! Every statement can be prepared on a migrated database.

use everruns_durable::persistence::postgres::SentStatement;
use tokio_postgres::types::Type;

use crate::server::{connect, open};

#[tokio::test]
async fn every_statement_prepares_on_a_migrated_database() {
    let (store, url) = open(1).await;
    let client = connect(&url).await;
    let mut refused = Vec::new();
    for statement in store.statements() {
        let prepare = preparation(statement.name, &statement);
        if let Err(error) = client.batch_execute(&prepare).await {
            refused.push(format!("{}: {:?}", statement.name, error.as_db_error()));
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// The text that prepares a statement under a name.
pub(crate) fn preparation(name: &str, statement: &SentStatement) -> String {
    let types: Vec<&str> = statement.types.iter().map(Type::name).collect();
    let types = match types.is_empty() {
        true => String::new(),
        false => format!("({})", types.join(", ")),
    };
    format!("PREPARE {name} {types} AS {}", statement.sql)
}
