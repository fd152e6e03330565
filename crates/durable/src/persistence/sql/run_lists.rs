//! Lists and counts of runs: which index is walked, and what is looked at on the way.
//!
//! Every filter alone, and a workflow type together with statuses, is answered by an index in the
//! order of the list. Of any other combination the most selective filter is walked and the rest is
//! looked at run by run, for so many runs and no more; a list then answers what it has found and
//! where to go on.

use durable_core::AttributeValue;
use uuid::Uuid;

use crate::persistence::limits::LIST_EXAMINED_MAX;
use crate::persistence::model::{Page, RunFilter, WorkflowStatus};

/// The index that is walked.
#[derive(Debug, Clone, PartialEq)]
pub enum Driver {
    /// Runs with this business id.
    Business(String),
    /// Children of this run.
    Parent(Uuid),
    /// Blocked runs.
    Blocked,
    /// Runs with this search attribute.
    Attribute(String, AttributeValue),
    /// Runs of this type in these statuses: one ordered list for each status.
    Type(String, Vec<WorkflowStatus>),
    /// Runs in these statuses: one ordered list for each.
    Status(Vec<WorkflowStatus>),
    /// Runs that were started within the filter's range, in the order of their start.
    Created,
    /// All runs.
    All,
}

/// A walk along an index.
#[derive(Debug, Clone, PartialEq)]
pub struct Walk {
    /// The index.
    pub driver: Driver,
    /// What the index does not answer; without a cursor.
    pub rest: RunFilter,
}

impl Walk {
    /// The walk for a filter.
    #[must_use]
    pub fn new(filter: &RunFilter) -> Self {
        let mut rest = filter.clone().before(None);
        let mut statuses = std::mem::take(&mut rest.statuses);
        statuses.sort_unstable();
        statuses.dedup();
        if statuses.len() == WorkflowStatus::ALL.len() {
            statuses.clear();
        }
        let selective = if let Some(id) = rest.business_id.take() {
            Some(Driver::Business(id))
        } else if let Some(parent) = rest.parent.take() {
            Some(Driver::Parent(parent))
        } else if std::mem::take(&mut rest.blocked) {
            Some(Driver::Blocked)
        } else {
            let attribute = rest.attributes.pop_first();
            attribute.map(|(name, value)| Driver::Attribute(name, value))
        };
        let driver = if let Some(driver) = selective {
            rest.statuses = statuses;
            driver
        } else if let Some(workflow_type) = rest.workflow_type.take() {
            if statuses.is_empty() {
                statuses = WorkflowStatus::ALL.to_vec();
            }
            Driver::Type(workflow_type, statuses)
        } else if statuses.is_empty() {
            Driver::All
        } else {
            Driver::Status(statuses)
        };
        Self { driver, rest }
    }

    /// The walk along the starts, for a filter with a range of them and nothing more selective.
    #[must_use]
    pub fn by_start(filter: &RunFilter) -> Option<Self> {
        let ranged = filter.created_from.is_some() || filter.created_until.is_some();
        let broad = matches!(
            Self::new(filter).driver,
            Driver::Type(..) | Driver::Status(_) | Driver::All
        );
        let mut rest = filter.clone().before(None);
        rest.created_from = None;
        rest.created_until = None;
        (ranged && broad).then_some(Self {
            driver: Driver::Created,
            rest,
        })
    }

    /// Whether the index answers everything.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.rest.selects_all()
    }

    /// The statuses that each have an ordered list of their own in the index; none: there is one
    /// list.
    #[must_use]
    pub fn statuses(&self) -> Option<&[WorkflowStatus]> {
        match &self.driver {
            Driver::Type(_, statuses) | Driver::Status(statuses) => Some(statuses),
            _ => None,
        }
    }

    /// Runs that are examined in each of `lists` ordered lists, for a page.
    #[must_use]
    pub fn examined_of_each(&self, page: Page, lists: usize) -> usize {
        let share = (LIST_EXAMINED_MAX / lists.max(1)).max(EXAMINED_MIN);
        if self.is_answered() {
            // One more than the page says whether it is the last, and one more ends the walk.
            share.min(page.rows().saturating_add(page.offset).saturating_add(2))
        } else {
            share
        }
    }
}

/// Fewest runs that are examined in each of many lists.
const EXAMINED_MIN: usize = 16;

/// What a walk came to at one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Step<T> {
    /// The run.
    pub id: Uuid,
    /// What was read of it.
    pub run: T,
    /// Whether it matches.
    pub hit: bool,
    /// Whether it is the last that was examined in its list.
    pub stop: bool,
}

/// A page of what a walk found.
#[derive(Debug, PartialEq)]
pub struct Found<T> {
    /// The runs of the page.
    pub runs: Vec<T>,
    /// Where the next page begins.
    pub next: Option<Uuid>,
    /// Whether the walk ended before the page was full.
    pub partial: bool,
}

/// Puts a page together from the steps of all lists, from the largest id on. Behind the first stop
/// nothing is certain: its list may have more runs there.
pub fn page_of<T>(steps: impl IntoIterator<Item = Step<T>>, page: Page) -> Found<T> {
    let mut found = Found {
        runs: Vec::new(),
        next: None,
        partial: false,
    };
    let mut passed_over = 0;
    let mut last = None;
    for step in steps {
        if step.hit {
            if passed_over < page.offset {
                passed_over += 1;
            } else if found.runs.len() == page.rows() {
                found.next = last;
                return found;
            } else {
                found.runs.push(step.run);
                last = Some(step.id);
            }
        }
        if step.stop {
            found.partial = found.runs.len() < page.rows();
            found.next = Some(step.id);
            return found;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_alone_is_answered_by_an_index() {
        let all = RunFilter::default;
        let id = Uuid::from_u128(1);
        let at = durable_core::Timestamp::UNIX_EPOCH;
        let alone = [
            all(),
            all().status(WorkflowStatus::Completed),
            all()
                .status(WorkflowStatus::Failed)
                .status(WorkflowStatus::Pending),
            all().workflow_type("t"),
            all().workflow_type("t").status(WorkflowStatus::Running),
            all().business_id("b"),
            all().attribute("n", 1_i64),
            RunFilter {
                parent: Some(id),
                ..all()
            },
            RunFilter {
                blocked: true,
                ..all()
            },
            all().business_id("b").before(Some(id)),
        ];
        for filter in alone {
            let walk = Walk::new(&filter);
            assert!(walk.is_answered(), "{filter:?}");
        }
        let ranged = all().created(Some(at), None);
        assert!(Walk::by_start(&ranged).unwrap().is_answered());
    }

    #[test]
    fn a_combination_walks_the_most_selective_filter_and_looks_at_the_rest() {
        let filter = RunFilter::default().workflow_type("t").business_id("b");
        let walk = Walk::new(&filter);
        assert_eq!(walk.driver, Driver::Business("b".to_owned()));
        assert_eq!(walk.rest, RunFilter::default().workflow_type("t"));
        assert_eq!(
            walk.examined_of_each(Page::first(10), 2),
            LIST_EXAMINED_MAX / 2
        );
    }

    fn step(id: u128, hit: bool, stop: bool) -> Step<u128> {
        let (run, id) = (id, Uuid::from_u128(id));
        Step { id, run, hit, stop }
    }

    #[test]
    fn a_page_ends_at_its_limit_or_where_a_list_was_left() {
        let page = Page::first(2);
        let steps = || {
            vec![
                step(9, true, false),
                step(8, true, false),
                step(7, true, false),
            ]
        };
        let full = page_of(steps(), page);
        assert_eq!(
            (full.runs, full.next),
            (vec![9, 8], Some(Uuid::from_u128(8)))
        );
        let last = page_of(steps(), Page::first(3));
        assert_eq!(
            (last.runs, last.next, last.partial),
            (vec![9, 8, 7], None, false)
        );
        let left = page_of(
            vec![
                step(9, true, false),
                step(8, false, true),
                step(7, true, false),
            ],
            page,
        );
        assert_eq!(
            (left.runs, left.next, left.partial),
            (vec![9], Some(Uuid::from_u128(8)), true)
        );
    }
}
