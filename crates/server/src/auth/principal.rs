//! Who is calling, and what they may touch.

use serde::{Deserialize, Serialize};

use super::{Denied, Permission, Role};

/// Whoever holds a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The token's name; what audit rows say.
    pub name: String,
    /// What the token was made for.
    pub role: Role,
    /// What it is limited to.
    pub scopes: Scopes,
}

/// What a token is limited to. A list that is absent limits nothing; an empty one allows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scopes {
    /// Queues, which are named by the activity type they hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Names>,
    /// Workflow types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_types: Option<Names>,
}

/// Names, each exact or with a `*` at its end: `billing.*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Names(Vec<String>);

impl Names {
    /// These names.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }

    /// Whether one of them covers the name.
    #[must_use]
    pub fn cover(&self, name: &str) -> bool {
        self.0.iter().any(|own| match own.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => own == name,
        })
    }
}

impl Principal {
    /// Refuses what the role does not permit.
    ///
    /// # Errors
    /// [`Denied::Forbidden`].
    pub fn require(&self, permission: Permission) -> Result<(), Denied> {
        if self.role.permits(permission) {
            return Ok(());
        }
        Err(Denied::Forbidden {
            name: self.name.clone(),
            role: self.role,
            permission,
        })
    }

    /// Refuses a workflow type that is out of scope.
    ///
    /// # Errors
    /// [`Denied::OutOfScope`].
    pub fn require_type(&self, workflow_type: &str) -> Result<(), Denied> {
        self.within(
            self.may_use_type(workflow_type),
            "workflow type",
            workflow_type,
        )
    }

    /// Refuses a queue that is out of scope.
    ///
    /// # Errors
    /// [`Denied::OutOfScope`].
    pub fn require_queue(&self, activity_type: &str) -> Result<(), Denied> {
        self.within(self.may_use_queue(activity_type), "queue", activity_type)
    }

    /// Whether runs of this type are in scope.
    #[must_use]
    pub fn may_use_type(&self, workflow_type: &str) -> bool {
        let types = self.scopes.workflow_types.as_ref();
        types.is_none_or(|types| types.cover(workflow_type))
    }

    /// Whether the queue of this activity type is in scope.
    #[must_use]
    pub fn may_use_queue(&self, activity_type: &str) -> bool {
        let queues = self.scopes.queues.as_ref();
        queues.is_none_or(|queues| queues.cover(activity_type))
    }

    /// Whether it may see everything there is: lists and counts over all types need not be cut down.
    #[must_use]
    pub fn is_unscoped(&self) -> bool {
        self.scopes == Scopes::default()
    }

    fn within(&self, inside: bool, kind: &'static str, what: &str) -> Result<(), Denied> {
        if inside {
            return Ok(());
        }
        Err(Denied::OutOfScope {
            name: self.name.clone(),
            kind,
            what: what.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_cover_by_name_and_by_beginning() {
        let names = Names::new(["billing.*", "mail"]);
        assert!(names.cover("billing.invoice") && names.cover("mail"));
        assert!(!names.cover("mailer") && !names.cover("bill"));
        assert!(!Names::new([""; 0]).cover("anything"));
        assert!(Names::new(["*"]).cover("anything"));
    }
}
