//! SQLite's errors as the store's.

use rusqlite::{Error, ErrorCode};

use crate::persistence::StoreError;

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        let message = "SQLite failed".to_owned();
        match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation) => Self::Conflict(error.to_string()),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::corrupt("the database file is damaged", error)
            }
            Some(_) => Self::unavailable(message, error),
            // No answer of the database: what it holds does not fit what was asked for.
            None => Self::corrupt(message, error),
        }
    }
}
