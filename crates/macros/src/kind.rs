//! Which of the two attributes is at work, in the words of its messages.

/// Which of the two attributes is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Activity,
    Workflow,
}

impl Kind {
    /// The noun with its article, as a sentence begins with it.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Activity => "an activity",
            Self::Workflow => "a workflow",
        }
    }

    /// The attribute as it is written.
    pub(crate) fn attribute(self) -> &'static str {
        match self {
            Self::Activity => "#[activity]",
            Self::Workflow => "#[workflow]",
        }
    }

    /// Name of the context's type.
    pub(crate) fn context(self) -> &'static str {
        match self {
            Self::Activity => "ActivityContext",
            Self::Workflow => "WorkflowContext",
        }
    }

    /// Name of the return type's alias.
    pub(crate) fn result(self) -> &'static str {
        match self {
            Self::Activity => "ActivityResult",
            Self::Workflow => "WorkflowResult",
        }
    }

    /// The kind whose context could be taken for this one's.
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Activity => Self::Workflow,
            Self::Workflow => Self::Activity,
        }
    }
}
