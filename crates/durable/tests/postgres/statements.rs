//! Every statement can be prepared on a migrated database.

use crate::server::{connect, open};

#[tokio::test]
async fn every_statement_prepares_on_a_migrated_database() {
    let (store, url) = open(1).await;
    let client = connect(&url).await;
    let mut refused = Vec::new();
    for (name, sql, types) in store.statements() {
        let types = if types.is_empty() {
            String::new()
        } else {
            format!("({})", types.join(", "))
        };
        let prepare = format!("PREPARE {name} {types} AS {sql}");
        if let Err(error) = client.batch_execute(&prepare).await {
            refused.push(format!("{name}: {:?}", error.as_db_error()));
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
