//! What a generated run must come to.

use serde_json::Value;

/// What a run must come to if nobody interferes.
#[derive(Debug, Clone)]
pub(super) struct Expected {
    /// What each step adds to the result.
    pub(super) parts: Vec<Part>,
    pub(super) end: End,
}

/// How a run must end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Completed,
    Failed { error_type: String, message: String },
}

/// What a step adds to the result.
#[derive(Debug, Clone)]
pub(super) enum Part {
    /// Just this.
    Exactly(Value),
    /// These, in any order.
    InAnyOrder(Vec<Value>),
    /// One of these.
    OneOf(Vec<Value>),
    /// A list for each of several branches.
    Branches(Vec<Vec<Part>>),
    /// What a child comes to.
    Child(Expected),
}

impl Expected {
    /// Whether a child has a part in it.
    pub(super) fn has_children(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Child(_)))
    }

    /// Why a result is not the expected one, if it is not.
    pub(super) fn differs(&self, result: &Value) -> Option<String> {
        let Value::Array(mut found) = result.clone() else {
            return Some(format!("the result {result} is no list"));
        };
        found.reverse();
        for (step, part) in self.parts.iter().enumerate() {
            if let Some(problem) = part.differs(&mut found) {
                return Some(format!("step {step}: {problem}"));
            }
        }
        (!found.is_empty()).then(|| format!("{} results too many", found.len()))
    }
}

impl Part {
    /// Takes what belongs to the part off the end of `found`.
    fn differs(&self, found: &mut Vec<Value>) -> Option<String> {
        let mut next = || found.pop().unwrap_or(Value::Null);
        match self {
            Self::Exactly(value) => {
                let found = next();
                (found != *value).then(|| format!("{found} instead of {value}"))
            }
            Self::OneOf(values) => {
                let found = next();
                (!values.contains(&found)).then(|| format!("{found} is none of {values:?}"))
            }
            Self::InAnyOrder(values) => {
                let mut found: Vec<String> = values.iter().map(|_| next().to_string()).collect();
                let mut values: Vec<String> = values.iter().map(Value::to_string).collect();
                found.sort();
                values.sort();
                (found != values).then(|| format!("{found:?} instead of {values:?}"))
            }
            Self::Branches(branches) => match next() {
                Value::Array(found) if found.len() == branches.len() => {
                    branches.iter().zip(&found).find_map(|(parts, found)| {
                        let branch = Expected {
                            parts: parts.clone(),
                            end: End::Completed,
                        };
                        branch.differs(found)
                    })
                }
                found => Some(format!("{found} instead of {} lists", branches.len())),
            },
            Self::Child(expected) => {
                let found = next();
                match &expected.end {
                    End::Completed => expected.differs(&found),
                    End::Failed { message, .. } => {
                        let failed = serde_json::json!({ "child failed": message });
                        (found != failed).then(|| format!("{found} instead of {failed}"))
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn order_counts_only_where_it_must() {
        let expected = Expected {
            parts: vec![
                Part::Exactly(json!(1)),
                Part::InAnyOrder(vec![json!(2), json!(3)]),
            ],
            end: End::Completed,
        };
        assert_eq!(expected.differs(&json!([1, 3, 2])), None);
        assert!(expected.differs(&json!([3, 1, 2])).is_some());
        assert!(expected.differs(&json!([1, 2])).is_some());
        assert!(expected.differs(&json!([1, 2, 3, 4])).is_some());
    }
}
