//! Dead letters.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::filter::Query;
use crate::persistence::model::{DeadLetter, DeadLetterState, DlqFilter, LetterRank, Page};
use crate::persistence::postgres::Postgres;
use crate::persistence::postgres::bind::{at, limit, maybe_at};
use crate::persistence::postgres::reader::{read_all, read_first};
use crate::persistence::postgres::rows;
use crate::persistence::postgres::sql::letters::{letter_columns, listed_letter_columns};
use crate::persistence::{Shards, StoreResult};

impl Postgres {
    /// A letter by its id alone: by the index of ids.
    pub(in crate::persistence::postgres) async fn read_letter(
        &self,
        id: Uuid,
    ) -> StoreResult<Option<DeadLetter>> {
        let mut query = Query::new(concat!("SELECT ", letter_columns!()));
        query
            .text(" FROM {s}.durable_dead_letter_queue AS t")
            .with(" WHERE t.id = $?", id, Type::UUID)
            .text(" ORDER BY t.dead_at DESC, t.workflow_id LIMIT 1");
        read_first(&self.scan(&query).await?, rows::letters::record)
    }

    /// Of every shard and state, or of the one run, the letters that died last; of these the last.
    pub(in crate::persistence::postgres) async fn query_dlq(
        &self,
        filter: &DlqFilter,
        page: Page,
    ) -> StoreResult<Vec<DeadLetter>> {
        let looked_up = filter.id.is_some() || filter.run_id.is_some();
        // The states are those of the lists: named again, they would let the planner take the index
        // that retention uses.
        let rest = DlqFilter {
            state: filter.state.filter(|_| looked_up),
            ..filter.clone()
        };
        let mut query = Query::new(concat!("SELECT ", listed_letter_columns!()));
        query.text(" FROM (SELECT c.*");
        if looked_up {
            query.text(" FROM (");
        } else {
            let states = filter.state.map_or_else(
                || DeadLetterState::ALL.map(DeadLetterState::as_str).to_vec(),
                |state| vec![state.as_str()],
            );
            query
                .with(
                    " FROM generate_series(0, $? - 1) AS shard(n)",
                    i32::from(self.shards.count()),
                    Type::INT4,
                )
                .with(
                    " CROSS JOIN unnest($?) AS list(state)",
                    states,
                    Type::TEXT_ARRAY,
                )
                .text(" CROSS JOIN LATERAL (");
        }
        query
            .text("SELECT t.partition_key, t.dead_at, t.id, t.workflow_id")
            .text(" FROM {s}.durable_dead_letter_queue AS t WHERE TRUE");
        if !looked_up {
            query.text(" AND t.partition_key = shard.n AND t.state = list.state");
        }
        conditions(&mut query, self.shards, &rest);
        let reach = page.rows().saturating_add(page.offset);
        query
            .text(" ORDER BY t.dead_at DESC, t.id, t.workflow_id")
            .with(" LIMIT $?) AS c", limit(reach), Type::INT8)
            .text(" ORDER BY c.dead_at DESC, c.id, c.workflow_id")
            .with(" LIMIT $?", limit(page.rows()), Type::INT8)
            .with(" OFFSET $?) AS k", limit(page.offset), Type::INT8)
            .text(
                " CROSS JOIN LATERAL (SELECT * FROM {s}.durable_dead_letter_queue AS l \
                 WHERE l.partition_key = k.partition_key AND l.workflow_id = k.workflow_id \
                 AND l.id = k.id LIMIT 1) AS t ORDER BY t.dead_at DESC, t.id, t.workflow_id",
            );
        let rows = if looked_up {
            self.scan(&query).await?
        } else {
            self.list(&query).await?
        };
        read_all(&rows, rows::letters::listed)
    }
}

/// What a filter says.
pub(in crate::persistence::postgres) fn conditions<'a>(
    query: &mut Query<'a>,
    shards: Shards,
    filter: &'a DlqFilter,
) {
    query
        .with_some(" AND t.id = $?", filter.id, Type::UUID)
        .of_run(shards, filter.run_id)
        .with_some(
            " AND t.activity_type = $?",
            filter.activity_type.as_deref(),
            Type::TEXT,
        )
        .with_some(
            " AND t.state = $?",
            filter.state.map(DeadLetterState::as_str),
            Type::TEXT,
        )
        .with_some(
            " AND t.dead_at < $?",
            maybe_at(filter.dead_before),
            Type::TIMESTAMPTZ,
        );
    if let Some(LetterRank {
        dead_at,
        id,
        run_id,
    }) = filter.after
    {
        // The first condition alone is a range of the index.
        query
            .with(" AND t.dead_at <= $?", at(dead_at), Type::TIMESTAMPTZ)
            .with(" AND (t.dead_at < $?", at(dead_at), Type::TIMESTAMPTZ)
            .with(" OR (t.id, t.workflow_id) > ($?", id, Type::UUID)
            .with(", $?))", run_id, Type::UUID);
    }
}
