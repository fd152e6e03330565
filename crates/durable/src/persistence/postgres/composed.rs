//! Statements put together for one request, kept for the tests that explain them.

use std::sync::{Mutex, PoisonError};

use bytes::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type};

use super::statement::{Purpose, SentStatement};

/// A statement with its parameters in binary form; `None` is NULL.
pub(super) type ComposedStatement = (SentStatement, Vec<Option<Vec<u8>>>);

/// The statements that were put together and sent since the last look at them. Nothing is kept
/// before the first look, so that a store under test does not collect them without end.
#[derive(Debug, Default)]
pub(super) struct Composed(Mutex<Option<Vec<ComposedStatement>>>);

impl Composed {
    /// Answers the statements kept so far, and keeps those that follow.
    pub(super) fn take(&self) -> Vec<ComposedStatement> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.replace(Vec::new()).unwrap_or_default()
    }

    /// Keeps a statement if a test has asked for them, with what was sent before it in its
    /// transaction:
    /// the settings with which it is planned, or nothing where it has those of its connection.
    pub(super) fn keep(&self, before: &str, sql: &str, params: &[(&(dyn ToSql + Sync), Type)]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(kept) = kept.as_mut() else {
            return;
        };
        let statement = SentStatement {
            name: "",
            before: before.to_owned(),
            sql: sql.to_owned(),
            types: params.iter().map(|(_, type_)| type_.clone()).collect(),
            purpose: Purpose::Service,
        };
        let values = params.iter().map(|(param, type_)| encoded(*param, type_));
        kept.push((statement, values.collect()));
    }
}

/// A parameter as it is sent. One that cannot be encoded is refused when the statement is sent.
fn encoded(param: &(dyn ToSql + Sync), type_: &Type) -> Option<Vec<u8>> {
    let mut out = BytesMut::new();
    match param.to_sql_checked(type_, &mut out) {
        Ok(IsNull::No) => Some(out.to_vec()),
        Ok(IsNull::Yes) | Err(_) => None,
    }
}
