//! A connection as the tables see it: statements, prepared once, and where rows are placed.

use std::ops::ControlFlow;

use rusqlite::{CachedStatement, Connection, Params, ToSql, params_from_iter};
use uuid::Uuid;

use super::cells::Cells;
use crate::persistence::limits::PAGE_BYTES_MAX;
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

    /// Prepares a statement, or takes it from those that are prepared.
    fn prepare(&self, sql: &str) -> StoreResult<CachedStatement<'_>> {
        #[cfg(test)]
        sent::keep(sql);
        Ok(self.conn.prepare_cached(sql)?)
    }

    /// Runs a statement that answers nothing but how many rows it touched.
    pub(super) fn run(self, sql: &str, params: impl Params) -> StoreResult<usize> {
        Ok(self.prepare(sql)?.execute(params)?)
    }

    /// The first row, if any.
    pub(super) fn first<T>(
        self,
        sql: &str,
        params: impl Params,
        read: Read<T>,
    ) -> StoreResult<Option<T>> {
        let mut statement = self.prepare(sql)?;
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

    /// The first rows, each with its size: at most so many, and none that takes the page over its
    /// limit of bytes but the first; and whether there is another row.
    pub(super) fn page<T>(
        self,
        sql: &str,
        params: impl Params,
        most: usize,
        read: Read<(T, usize)>,
    ) -> StoreResult<(Vec<T>, bool)> {
        let mut statement = self.prepare(sql)?;
        let mut rows = statement.query(params)?;
        let (mut found, mut bytes) = (Vec::new(), 0_usize);
        while let Some(row) = rows.next()? {
            if found.len() == most {
                return Ok((found, true));
            }
            let (item, size) = read(&mut Cells::of(row))?;
            bytes = bytes.saturating_add(size);
            if !found.is_empty() && bytes > PAGE_BYTES_MAX {
                return Ok((found, true));
            }
            found.push(item);
        }
        Ok((found, false))
    }

    /// All rows, in the statement's order.
    pub(super) fn all<T>(
        self,
        sql: &str,
        params: impl Params,
        read: Read<T>,
    ) -> StoreResult<Vec<T>> {
        let mut statement = self.prepare(sql)?;
        let mut rows = statement.query(params)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(read(&mut Cells::of(row))?);
        }
        Ok(found)
    }

    /// Rows in the statement's order, until one breaks off. What is behind that one is not read.
    pub(super) fn each(
        self,
        sql: &str,
        params: impl Params,
        mut read: impl FnMut(&mut Cells<'_, '_>) -> StoreResult<ControlFlow<()>>,
    ) -> StoreResult<()> {
        let mut statement = self.prepare(sql)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            if read(&mut Cells::of(row))?.is_break() {
                break;
            }
        }
        Ok(())
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

/// The texts of statements that a test's thread sends, for the tests that explain them.
#[cfg(test)]
pub(super) mod sent {
    use std::cell::RefCell;

    thread_local! {
        static SENT: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    /// Keeps a text.
    pub(in crate::persistence::sqlite) fn keep(sql: &str) {
        SENT.with_borrow_mut(|sent| sent.push(sql.to_owned()));
    }

    /// Answers the texts sent since the last call.
    pub(in crate::persistence::sqlite) fn take() -> Vec<String> {
        SENT.take()
    }
}
