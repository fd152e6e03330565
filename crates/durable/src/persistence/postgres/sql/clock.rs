//! The instant of a transaction.

use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// The database's clock, read once per transaction: after the locks of its first flight, so that it is not older
    /// than what those ahead of it wrote.
    CLOCK [] = "SELECT clock_timestamp()";
}
