//! What PostgreSQL's errors mean here; the only place that knows SQLSTATE codes.

use tokio_postgres::error::{DbError, SqlState};

use crate::persistence::StoreError;

/// What to do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing was written and the same may succeed at once: serialisation failure, deadlock.
    Again,
    /// Nothing was written: somebody else was first with a key, and whoever plans again finds it there.
    Taken,
    /// Nothing was written: another transaction has had something locked for as long as is waited
    /// for a lock.
    Locked,
    /// The connection is gone; what it was doing may or may not have been carried out.
    Lost,
    /// Trying again does not help.
    Final,
}

/// Judges an error.
pub(super) fn verdict(error: &tokio_postgres::Error) -> Verdict {
    let Some(state) = error.code() else {
        let gone = error.is_closed() || io_source(error);
        return if gone { Verdict::Lost } else { Verdict::Final };
    };
    match *state {
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => Verdict::Again,
        SqlState::UNIQUE_VIOLATION => Verdict::Taken,
        SqlState::LOCK_NOT_AVAILABLE => Verdict::Locked,
        // A statement that was cut off has had all the time there is: not once more, or the bound would be none.
        SqlState::QUERY_CANCELED => Verdict::Final,
        _ if is_lost(state) => Verdict::Lost,
        _ => Verdict::Final,
    }
}

/// The store's error for what happened in a statement.
pub(super) fn store_error(error: tokio_postgres::Error) -> StoreError {
    match verdict(&error) {
        Verdict::Again | Verdict::Taken => StoreError::Conflict(describe(&error)),
        Verdict::Locked => StoreError::Busy { runs: Vec::new() },
        Verdict::Lost => StoreError::unavailable("the connection to PostgreSQL was lost", error),
        Verdict::Final => final_error(error),
    }
}

/// The store's error when a connection could not be opened later on, after the store itself was opened.
pub(super) fn pool_error(error: deadpool_postgres::PoolError) -> StoreError {
    StoreError::unavailable("no connection to PostgreSQL could be had", error)
}

/// The store's error when no connection for an operator's read could be had in time.
pub(super) fn operators_pool_error(error: deadpool_postgres::PoolError) -> StoreError {
    let message = match &error {
        deadpool_postgres::PoolError::Timeout(deadpool_postgres::TimeoutType::Wait) => {
            "as many lists and counts as the store allows at once are under way"
        }
        _ => "no connection to PostgreSQL could be had",
    };
    StoreError::unavailable(message, error)
}

/// The store's error when it cannot be opened; `place` says where without saying the password.
pub(super) fn open_error(error: tokio_postgres::Error, place: &str) -> StoreError {
    let message = match error.code() {
        Some(&SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
            format!(
                "{place} refused the user or its password: {}",
                describe(&error)
            )
        }
        Some(&SqlState::INVALID_CATALOG_NAME) => {
            format!("{place}: the database does not exist; create it first")
        }
        Some(_) => format!("{place}: {}", describe(&error)),
        None => format!("{place} cannot be reached: {}", describe(&error)),
    };
    StoreError::Open {
        message,
        source: Some(Box::new(error)),
    }
}

fn final_error(error: tokio_postgres::Error) -> StoreError {
    let Some(state) = error.code() else {
        return StoreError::corrupt("a row or parameter does not fit its statement", error);
    };
    let code = state.code();
    match state {
        &SqlState::UNDEFINED_TABLE
        | &SqlState::UNDEFINED_COLUMN
        | &SqlState::INVALID_SCHEMA_NAME
        | &SqlState::UNDEFINED_FUNCTION => StoreError::Schema(format!(
            "{}; the schema is not the one this build works with: run the migrations",
            describe(&error)
        )),
        // Data exceptions and broken constraints: what was asked for cannot be stored.
        _ if code.starts_with("22") || code.starts_with("23") => {
            StoreError::Invalid(describe(&error))
        }
        _ => StoreError::unavailable(describe(&error), error),
    }
}

/// Shut down, out of connections or memory, failed over to a standby: the server will be back, or another one.
fn is_lost(state: &SqlState) -> bool {
    let code = state.code();
    ["08", "53", "57", "58", "25006"]
        .iter()
        .any(|class| code.starts_with(class))
}

/// Whether the connection failed. The driver says invalid input of what it cannot encode, which never got as far as that.
fn io_source(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<std::io::Error>())
        .is_some_and(|io| {
            io.raw_os_error().is_some() || io.kind() != std::io::ErrorKind::InvalidInput
        })
}

/// The server's words, with the code; the driver's own otherwise.
fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(db) = error.as_db_error() {
        return server_words(db);
    }
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn server_words(db: &DbError) -> String {
    format!("{} (SQLSTATE {})", db.message(), db.code().code())
}
