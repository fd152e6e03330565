//! Judges plans of PostgreSQL: what a plan reads and sorts is bounded, however large the tables
//! are.

use serde_json::Value;

use crate::filled::SMALL;

/// Rows that a plan may be expected to read or sort where nothing but the estimate bounds it: above
/// what one run or one set of a request has, and far below what a growing table has.
const ROWS_MAX: f64 = 20_000.0;

/// A node of a plan with what is above it, the parent last.
struct Node<'a> {
    node: &'a Value,
    above: Vec<&'a Value>,
}

impl Node<'_> {
    /// The nodes from the parent up to the statement, or to the part of it that is executed apart.
    fn stream(&self) -> impl Iterator<Item = (&Value, &Value)> {
        let mut child = self.node;
        let mut over = false;
        self.above.iter().rev().map_while(move |parent| {
            over |= !text(child, "Subplan Name").is_empty();
            let step = (child, *parent);
            child = *parent;
            (!over).then_some(step)
        })
    }

    /// Whether rows are read only until a limit is reached: between the limit and the node there is
    /// nothing that reads all of its input first.
    fn stops_at_a_limit(&self) -> bool {
        for (child, parent) in self.stream() {
            match text(parent, "Node Type") {
                "Limit" => return true,
                "LockRows" | "Result" | "Subquery Scan" | "Append" | "Merge Append"
                | "Incremental Sort" | "ProjectSet" => {}
                "Nested Loop" if text(child, "Parent Relationship") == "Outer" => {}
                // Groups come up one after the other in the order of the index.
                "Aggregate" if text(parent, "Strategy") == "Sorted" => {}
                _ => return false,
            }
        }
        false
    }

    /// Whether it is the whole of an `EXISTS`, which stops at the first row.
    fn is_an_exists(&self, sql: &str) -> bool {
        let subplan = text(self.node, "Subplan Name");
        let alone = subplan.starts_with("InitPlan") || subplan.starts_with("SubPlan");
        alone && sql.contains("EXISTS (SELECT") && !sql.replace(' ', "").contains("ARRAY(SELECT")
    }

    /// Whether a limit bounds what comes up to this node.
    fn is_fed_through_a_limit(&self) -> bool {
        let mut rest: Vec<&Value> = children(self.node).collect();
        let mut limited = false;
        while let Some(node) = rest.pop() {
            match text(node, "Node Type") {
                "Limit" => limited = true,
                "Nested Loop" | "Subquery Scan" | "Result" | "Append" | "LockRows"
                | "Materialize" | "Memoize" | "WindowAgg" => {
                    rest.extend(children(node));
                }
                _ => {}
            }
        }
        limited
    }
}

/// What is wrong with the plan of a statement, in `EXPLAIN`'s JSON.
pub(crate) fn complaints(sql: &str, plan: &Value) -> Vec<String> {
    let mut complaints = Vec::new();
    for found in nodes(plan) {
        let node = found.node;
        let kind = text(node, "Node Type");
        let table = text(node, "Relation Name");
        let rows = node["Plan Rows"].as_f64().unwrap_or_default();
        match kind {
            "Seq Scan" if grows(table) => complaints.push(format!("Seq Scan on {table}")),
            "Sort" if rows_below(node) > ROWS_MAX && !found.is_fed_through_a_limit() => {
                let keys = &node["Sort Key"];
                complaints.push(format!("Sort of {:.0} rows by {keys}", rows_below(node)));
            }
            "Index Scan" | "Index Only Scan" | "Bitmap Index Scan" => {
                let index = text(node, "Index Name");
                if !grows(index) {
                    continue;
                }
                let condition = text(node, "Index Cond");
                let filter = text(node, "Filter");
                let passes = filter.is_empty() || passes_over_a_set(filter);
                let whole = condition.is_empty() || is_whole_shard(condition);
                let stops = found.stops_at_a_limit() || found.is_an_exists(sql);
                if whole && !(stops && passes) {
                    complaints.push(format!(
                        "{kind} of all of {index} (condition: {condition}, filter: {filter})"
                    ));
                } else if rows > ROWS_MAX && !stops {
                    complaints.push(format!(
                        "{kind} of {rows:.0} rows of {index} (condition: {condition})"
                    ));
                }
            }
            _ => {}
        }
    }
    complaints
}

/// Every node of a plan.
pub(crate) fn kinds_and_indexes(plan: &Value) -> Vec<(String, String)> {
    let all = nodes(plan);
    let names = all.iter().map(|found| {
        let text = |field| text(found.node, field).to_owned();
        (text("Node Type"), text("Index Name"))
    });
    names.collect()
}

/// Whether each sort of a plan sorts no more than a limit lets through.
pub(crate) fn sorts_behind_limits(plan: &Value) -> Vec<bool> {
    let all = nodes(plan);
    let sorts = all
        .iter()
        .filter(|found| text(found.node, "Node Type").contains("Sort"));
    sorts.map(Node::is_fed_through_a_limit).collect()
}

fn nodes(plan: &Value) -> Vec<Node<'_>> {
    let mut found = Vec::new();
    let mut rest: Vec<Node<'_>> = plan
        .as_array()
        .into_iter()
        .flatten()
        .map(|item| Node {
            node: &item["Plan"],
            above: Vec::new(),
        })
        .collect();
    while let Some(next) = rest.pop() {
        for child in children(next.node) {
            let mut above = next.above.clone();
            above.push(next.node);
            rest.push(Node { node: child, above });
        }
        found.push(next);
    }
    found
}

fn children(node: &Value) -> impl Iterator<Item = &Value> {
    node["Plans"].as_array().into_iter().flatten()
}

/// The rows that come into a node, as the planner expects them.
fn rows_below(node: &Value) -> f64 {
    let rows = |child: &Value| child["Plan Rows"].as_f64().unwrap_or_default();
    children(node).map(rows).sum()
}

/// Whether a condition says no more than the shard.
fn is_whole_shard(condition: &str) -> bool {
    condition.contains("partition_key") && !condition.contains(" AND ")
}

/// Whether a filter discards no more rows than a set of the request has: `(id <> ALL ($4))`.
fn passes_over_a_set(filter: &str) -> bool {
    filter.split(" AND ").all(|part| part.contains("<> ALL ("))
}

/// Whether a table, or the table of an index, grows with what is done.
fn grows(name: &str) -> bool {
    name.starts_with("durable_") && !SMALL.iter().any(|small| name.starts_with(small))
}

fn text<'a>(node: &'a Value, field: &str) -> &'a str {
    node[field].as_str().unwrap_or_default()
}
