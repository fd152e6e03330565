//! Why somebody was turned away.

use super::{Permission, Role};

/// Why somebody was turned away. Says nothing that a stranger could use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// No token came along.
    #[error("a token is needed")]
    NoToken,
    /// The header is not `Bearer TOKEN`.
    #[error("the Authorization header is not of the form `Bearer TOKEN`")]
    Malformed,
    /// The token is nobody's, or was revoked.
    #[error("the token is not known here")]
    Unknown,
    /// The token's time is over.
    #[error("token {name:?} has expired")]
    Expired {
        /// Whose.
        name: String,
    },
    /// The token is another one than when the stream was opened: its role or its scopes have changed.
    #[error("token {name:?} has changed since this stream was opened")]
    Changed {
        /// Whose.
        name: String,
    },
    /// The role does not permit it.
    #[error("token {name:?} has the role {role}, which does not include {permission}")]
    Forbidden {
        /// Whose.
        name: String,
        /// The role.
        role: Role,
        /// What was needed.
        permission: Permission,
    },
    /// A key of the start belongs to a run of another type than those the token is limited to.
    #[error("the workflow id or idempotency key belongs to what token {name:?} may not use")]
    Taken {
        /// Whose.
        name: String,
    },
    /// The token is limited to other types or queues.
    #[error("token {name:?} may not use {kind} {what:?}")]
    OutOfScope {
        /// Whose.
        name: String,
        /// Of what.
        kind: &'static str,
        /// Its name.
        what: String,
    },
}

impl Denied {
    /// Whether it is not known who calls (401), as opposed to known and not allowed (403).
    #[must_use]
    pub const fn is_unauthenticated(&self) -> bool {
        matches!(
            self,
            Self::NoToken
                | Self::Malformed
                | Self::Unknown
                | Self::Expired { .. }
                | Self::Changed { .. }
        )
    }

    /// How to mend it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NoToken | Self::Malformed => {
                "send the header `Authorization: Bearer TOKEN`; `durable token create` makes one"
            }
            Self::Unknown => "check the token; `durable token list` shows those that are known",
            Self::Changed { .. } => "open it again: what the token may do now counts from then on",
            Self::Expired { .. } => "make a new one with `durable token create`",
            Self::Forbidden { .. } => "use a token with a role that includes it",
            Self::Taken { .. } => "choose another one",
            Self::OutOfScope { .. } => "use a token whose scopes include it",
        }
    }
}
