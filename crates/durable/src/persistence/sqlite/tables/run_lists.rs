//! Runs for operators.

use durable_core::AttributeValue;

use super::{attributes, run_rows};
use crate::persistence::StoreResult;
use crate::persistence::model::{Page, RunFilter, RunRecord};
use crate::persistence::sqlite::db::{Db, Filtered};
use crate::persistence::sqlite::sql::run_lists as sql;
use crate::persistence::sqlite::value::{Id, Json, Until, rows};

pub(crate) fn list(db: Db<'_>, filter: &RunFilter, page: Page) -> StoreResult<Vec<RunRecord>> {
    let names = status_names(filter);
    let mut query = Filtered::new(sql::LIST);
    add_conditions(&mut query, filter, &names);
    query.text(sql::PAGE);
    query.bind(rows(page.rows()));
    query.bind(rows(page.offset));
    query.all(db, run_rows::record)
}

pub(crate) fn count(db: Db<'_>, filter: &RunFilter) -> StoreResult<u64> {
    let names = status_names(filter);
    let mut query = Filtered::new(sql::COUNT);
    add_conditions(&mut query, filter, &names);
    let counts: Vec<u64> = query.all(db, |row| row.int())?;
    Ok(counts.into_iter().sum())
}

fn status_names(filter: &RunFilter) -> Vec<&'static str> {
    filter
        .statuses
        .iter()
        .map(|status| status.as_str())
        .collect()
}

fn add_conditions<'a>(
    query: &mut Filtered<'a>,
    filter: &'a RunFilter,
    names: &'a Vec<&'static str>,
) {
    query.and(sql::STATUS_IN, (!names.is_empty()).then_some(Json(names)));
    query.and(sql::OF_TYPE, filter.workflow_type.as_ref());
    query.and(sql::OF_BUSINESS_ID, filter.business_id.as_ref());
    query.and(sql::OF_PARENT, filter.parent.map(Id));
    query.and(sql::CREATED_FROM, filter.created_from.map(Until));
    query.and(sql::CREATED_UNTIL, filter.created_until.map(Until));
    if filter.blocked {
        query.text(sql::BLOCKED);
    }
    query.and(sql::BEFORE, filter.before.map(Id));
    for (name, value) in &filter.attributes {
        add_attribute(query, name, value);
    }
}

fn add_attribute<'a>(query: &mut Filtered<'a>, name: &'a String, value: &'a AttributeValue) {
    let (value_type, value) = attributes::stored(value);
    query.text(sql::WITH_ATTRIBUTE);
    query.bind(name);
    query.bind(value_type);
    query.bind(value);
}
