//! Lists with filters: a text put together of fixed fragments; what the caller gives is bound, never written into it.

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use crate::persistence::Shards;
use crate::persistence::postgres::bind::{Param, value};
use crate::persistence::postgres::wire::Wire;

/// A statement in the making.
pub(in crate::persistence::postgres) struct Query<'a> {
    sql: String,
    params: Vec<(Param<'a>, Type)>,
}

impl<'a> Query<'a> {
    pub(in crate::persistence::postgres) fn new(start: &str) -> Self {
        Self {
            sql: start.to_owned(),
            params: Vec::new(),
        }
    }

    /// The same, to be explained instead of carried out.
    pub(in crate::persistence::postgres) fn explained(mut self) -> Self {
        self.sql.insert_str(0, "EXPLAIN ");
        self
    }

    /// Adds a fixed text.
    pub(in crate::persistence::postgres) fn text(&mut self, fragment: &'static str) -> &mut Self {
        self.sql.push_str(fragment);
        self
    }

    /// Adds a fixed text with one value, in the place marked `$?`.
    pub(in crate::persistence::postgres) fn with(
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
    pub(in crate::persistence::postgres) fn with_some(
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

    /// Narrows it to what belongs to one run, if one is given; the table is `t`.
    pub(in crate::persistence::postgres) fn of_run(
        &mut self,
        shards: Shards,
        run_id: Option<Uuid>,
    ) -> &mut Self {
        let shard = run_id.map(|run_id| shards.of_run(run_id));
        self.with_some(" AND t.partition_key = $?", shard, Type::INT4)
            .with_some(" AND t.workflow_id = $?", run_id, Type::UUID)
    }

    /// Sends it between two plain statements, in one round trip.
    pub(in crate::persistence::postgres) async fn send_within(
        &self,
        wire: &Wire<'_>,
        before: &str,
        after: &str,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let sql = wire.shared().catalog.schema().render(&self.sql);
        wire.ad_hoc_within(before, &sql, &self.params(), after)
            .await
    }

    /// Sends it.
    pub(in crate::persistence::postgres) async fn send(
        &self,
        wire: &Wire<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let sql = wire.shared().catalog.schema().render(&self.sql);
        wire.ad_hoc(&sql, &self.params()).await
    }

    fn params(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        let params = self.params.iter();
        params
            .map(|(param, type_)| (&**param as _, type_.clone()))
            .collect()
    }
}
