//! A connection as the tables see it: statements, prepared once, and where rows are placed.

use rusqlite::{Connection, Params, ToSql, params_from_iter};
use uuid::Uuid;

use super::cells::Cells;
use crate::persistence::{Shards, StoreResult};

/// How a row is read.
pub(super) type Read<T> = fn(&mut Cells<'_, '_>) -> StoreResult<T>;

/// A connection and the shards of its database.
#[derive(Clone, Copy)]
pub(super) struct Db<'c> {
    pub(super) conn: &'c Connection,
    pub(super) shards: Shards,
}

impl Db<'_> {
    /// The shard of a run's rows.
    pub(super) fn shard(self, run_id: Uuid) -> i32 {
        self.shards.of_run(run_id)
    }

    /// Runs a statement that answers nothing but how many rows it touched.
    pub(super) fn run(self, sql: &str, params: impl Params) -> StoreResult<usize> {
        Ok(self.conn.prepare_cached(sql)?.execute(params)?)
    }

    /// The first row, if any.
    pub(super) fn first<T>(
        self,
        sql: &str,
        params: impl Params,
        read: Read<T>,
    ) -> StoreResult<Option<T>> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        rows.next()?
            .map(|row| read(&mut Cells::of(row)))
            .transpose()
    }

    /// The row that the statement always has.
    pub(super) fn one<T>(self, sql: &str, params: impl Params, read: Read<T>) -> StoreResult<T> {
        self.first(sql, params, read)?
            .ok_or_else(|| rusqlite::Error::QueryReturnedNoRows.into())
    }

    /// All rows, in the statement's order.
    pub(super) fn all<T>(
        self,
        sql: &str,
        params: impl Params,
        read: Read<T>,
    ) -> StoreResult<Vec<T>> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(read(&mut Cells::of(row))?);
        }
        Ok(found)
    }
}

/// A list with the conditions asked for: fixed fragments, and a bind for each value.
pub(super) struct Filtered<'a> {
    sql: String,
    binds: Vec<Box<dyn ToSql + 'a>>,
}

impl<'a> Filtered<'a> {
    /// Begins with a statement that ends in its WHERE clause.
    pub(super) fn new(select: &'static str) -> Self {
        Self {
            sql: select.to_owned(),
            binds: Vec::new(),
        }
    }

    /// Adds a condition with one bind, if there is a value for it.
    pub(super) fn and(&mut self, condition: &'static str, value: Option<impl ToSql + 'a>) {
        if let Some(value) = value {
            self.sql.push_str(condition);
            self.binds.push(Box::new(value));
        }
    }

    /// Adds text that has no bind.
    pub(super) fn text(&mut self, text: &'static str) {
        self.sql.push_str(text);
    }

    /// Adds a bind for text that was added.
    pub(super) fn bind(&mut self, value: impl ToSql + 'a) {
        self.binds.push(Box::new(value));
    }

    /// All rows.
    pub(super) fn all<T>(&self, db: Db<'_>, read: Read<T>) -> StoreResult<Vec<T>> {
        db.all(&self.sql, params_from_iter(&self.binds), read)
    }
}
