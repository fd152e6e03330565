//! Runs for operators: walks along an index, bounded in the runs that are examined.

use std::cmp::Reverse;

use durable_core::AttributeValue;
use uuid::Uuid;

use super::{attributes, run_rows};
use crate::persistence::StoreResult;
use crate::persistence::limits::{COUNT_MAX, LIST_EXAMINED_MAX};
use crate::persistence::model::{
    CountLimit, Page, RunCount, RunFilter, RunPage, RunSummary, WorkflowStatus,
};
use crate::persistence::sql::run_lists::{Driver, Step, Walk, page_of};
use crate::persistence::sqlite::db::{Db, Filtered};
use crate::persistence::sqlite::sql::run_lists as sql;
use crate::persistence::sqlite::value::{Id, Json, Until, rows};

/// Runs by id, those that exist.
pub(crate) fn summaries(db: Db<'_>, ids: &[Uuid]) -> StoreResult<Vec<RunSummary>> {
    let mut found = Vec::new();
    for id in ids {
        found.extend(db.first(sql::SUMMARY, [Id(*id)], run_rows::summary)?);
    }
    Ok(found)
}

/// Newest first. A narrow range of starts is read as a whole; anything else is a walk along one
/// index.
pub(crate) fn list(db: Db<'_>, filter: &RunFilter, page: Page) -> StoreResult<RunPage> {
    let by_start = match Walk::by_start(filter) {
        Some(walk) => started_within(db, filter, &walk)?,
        None => None,
    };
    let steps = match by_start {
        Some(steps) => steps,
        None => {
            let walk = Walk::new(filter);
            let lists = walk.statuses().map_or(1, <[_]>::len);
            walked(db, filter, &walk, walk.examined_of_each(page, lists))?
        }
    };
    let found = page_of(steps, page);
    let ids: Vec<Uuid> = found.runs;
    Ok(RunPage {
        runs: summaries(db, &ids)?,
        next: found.next,
        partial: found.partial,
    })
}

pub(crate) fn count(db: Db<'_>, filter: &RunFilter, limit: CountLimit) -> StoreResult<RunCount> {
    if limit == CountLimit::Exact {
        let mut query = Filtered::new(sql::COUNT);
        add_conditions(&mut query, filter);
        query.and(sql::BEFORE, filter.before.map(Id));
        let counts: Vec<u64> = query.all(db, |row| row.int())?;
        let count = counts.into_iter().sum();
        return Ok(RunCount { count, exact: true });
    }
    let walk = Walk::by_start(filter).unwrap_or_else(|| Walk::new(filter));
    let most = if walk.is_answered() {
        COUNT_MAX + 1
    } else {
        LIST_EXAMINED_MAX
    };
    let steps = walked(db, filter, &walk, most)?;
    let hits = steps.iter().filter(|step| step.hit).count();
    Ok(RunCount {
        count: hits.min(COUNT_MAX) as u64,
        exact: steps.len() < most && hits <= COUNT_MAX,
    })
}

/// All runs that were started within the filter's range, from the largest id on; none if there are
/// too many to look at.
fn started_within(
    db: Db<'_>,
    filter: &RunFilter,
    walk: &Walk,
) -> StoreResult<Option<Vec<Step<Uuid>>>> {
    let most = LIST_EXAMINED_MAX + 1;
    let all = RunFilter {
        before: None,
        ..filter.clone()
    };
    let mut steps = walked(db, &all, walk, most)?;
    if steps.len() >= most {
        return Ok(None);
    }
    steps.retain(|step| filter.before.is_none_or(|before| step.id < before));
    Ok(Some(steps))
}

/// What each list of the index has, up to so many runs, from the largest id on.
fn walked(
    db: Db<'_>,
    filter: &RunFilter,
    walk: &Walk,
    most: usize,
) -> StoreResult<Vec<Step<Uuid>>> {
    let mut steps = Vec::new();
    let lists: Vec<Option<WorkflowStatus>> = match walk.statuses() {
        Some(statuses) => statuses.iter().copied().map(Some).collect(),
        None => vec![None],
    };
    for status in lists {
        let mut query = keys(filter, walk, status);
        query.bind(rows(most));
        let found: Vec<(Uuid, bool)> = query.all(db, |row| Ok((row.id()?, row.flag()?)))?;
        let places = found.into_iter().zip(1..);
        steps.extend(places.map(|((id, hit), place)| Step {
            id,
            run: id,
            hit,
            stop: place == most,
        }));
    }
    steps.sort_unstable_by_key(|step| Reverse(step.id));
    Ok(steps)
}

/// The ids of one list, and whether each matches.
fn keys<'a>(filter: &'a RunFilter, walk: &'a Walk, status: Option<WorkflowStatus>) -> Filtered<'a> {
    let select = match &walk.driver {
        Driver::Attribute(..) if walk.is_answered() => sql::ATTRIBUTE_KEYS,
        Driver::Attribute(..) => sql::ATTRIBUTE_KEYS_WHERE,
        _ => sql::KEYS,
    };
    let mut query = Filtered::new(select);
    add_conditions(&mut query, &walk.rest);
    let status = status.map(WorkflowStatus::as_str);
    match &walk.driver {
        Driver::Attribute(name, value) => {
            query.text(sql::OF_ATTRIBUTES);
            let (value_type, value) = attributes::stored(value);
            query.bind(name);
            query.bind(value_type);
            query.bind(value);
            query.and(sql::BEFORE_ATTRIBUTE, filter.before.map(Id));
            query.text(sql::ATTRIBUTE_ORDER);
            return query;
        }
        Driver::Business(id) => {
            query.text(sql::BY_BUSINESS_ID);
            query.bind(id);
        }
        Driver::Parent(id) => {
            query.text(sql::BY_PARENT);
            query.bind(Id(*id));
        }
        Driver::Blocked => query.text(sql::BY_BLOCKED),
        Driver::Type(workflow_type, _) => {
            query.text(sql::BY_TYPE);
            query.bind(workflow_type);
            query.and(sql::IN_STATUS, status);
        }
        Driver::Status(_) => {
            query.text(sql::BY_STATUS);
            query.and(sql::IN_STATUS, status);
        }
        Driver::Created => {
            query.text(sql::BY_START);
            query.and(sql::CREATED_FROM, filter.created_from.map(Until));
            query.and(sql::CREATED_UNTIL, filter.created_until.map(Until));
            query.and(sql::BEFORE, filter.before.map(Id));
            query.text(sql::START_ORDER);
            return query;
        }
        Driver::All => query.text(sql::BY_ID),
    }
    query.and(sql::BEFORE, filter.before.map(Id));
    query.text(sql::ID_ORDER);
    query
}

/// What a filter says of a run, its cursor apart.
fn add_conditions<'a>(query: &mut Filtered<'a>, filter: &'a RunFilter) {
    let statuses = Some(&filter.statuses).filter(|statuses| !statuses.is_empty());
    query.and(sql::STATUS_IN, statuses.map(Json));
    query.and(sql::OF_TYPE, filter.workflow_type.as_ref());
    query.and(sql::OF_BUSINESS_ID, filter.business_id.as_ref());
    query.and(sql::OF_PARENT, filter.parent.map(Id));
    query.and(sql::CREATED_FROM, filter.created_from.map(Until));
    query.and(sql::CREATED_UNTIL, filter.created_until.map(Until));
    if filter.blocked {
        query.text(sql::BLOCKED);
    }
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
