//! What fixes the shape of the database: `durable_meta`.

use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// How many shards it has. Primary key.
    SHARDS [] = "SELECT value FROM {s}.durable_meta WHERE key = 'shards'";
}
