//! Lists with filters: a text put together of fixed fragments; what the caller gives is bound, never written into it.

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::persistence::StoreResult;
use crate::persistence::postgres::Postgres;
use crate::persistence::postgres::bind::{Param, value};
use crate::persistence::postgres::sqlstate::store_error;
use crate::persistence::sql::tx::Concern;

/// A statement in the making.
pub(super) struct Query<'a> {
    sql: String,
    params: Vec<(Param<'a>, Type)>,
}

impl<'a> Query<'a> {
    pub(super) fn new(start: &str) -> Self {
        Self {
            sql: start.to_owned(),
            params: Vec::new(),
        }
    }

    /// Adds a fixed text.
    pub(super) fn text(&mut self, fragment: &'static str) -> &mut Self {
        self.sql.push_str(fragment);
        self
    }

    /// Adds a fixed text with one value, in the place marked `$?`.
    pub(super) fn with(
        &mut self,
        fragment: &'static str,
        param: impl ToSql + Sync + Send + 'a,
        type_: Type,
    ) -> &mut Self {
        self.params.push((value(param), type_));
        let place = format!("${}", self.params.len());
        self.sql.push_str(&fragment.replace("$?", &place));
        self
    }

    /// The same, if there is a value.
    pub(super) fn with_some(
        &mut self,
        fragment: &'static str,
        param: Option<impl ToSql + Sync + Send + 'a>,
        type_: Type,
    ) -> &mut Self {
        match param {
            Some(param) => self.with(fragment, param, type_),
            None => self,
        }
    }
}

impl Postgres {
    /// Sends it.
    pub(super) async fn list(&self, query: &Query<'_>) -> StoreResult<Vec<Row>> {
        let sql = self.shared.catalog.schema().render(&query.sql);
        let params: Vec<(&(dyn ToSql + Sync), Type)> = query
            .params
            .iter()
            .map(|(param, type_)| (&**param as _, type_.clone()))
            .collect();
        let wire = self.wire(Concern::Registry).await?;
        wire.ad_hoc(&sql, &params).await.map_err(store_error)
    }
}
