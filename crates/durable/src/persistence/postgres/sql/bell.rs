//! The doorbell.

use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// Rings. A transaction of its own on a connection of its own: the commit of a notification waits for all others of the
    /// database, which no write of the store should do.
    RING [TEXT, TEXT] = "SELECT pg_notify($1, $2)";
}
