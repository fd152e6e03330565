//! What a token may be used for.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a token was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Hosts workflows and activities, and nothing else.
    Worker,
    /// Looks, changes nothing.
    Reader,
    /// Starts runs, talks to them and mends what is broken.
    Operator,
    /// Everything.
    Admin,
}

/// One kind of thing that a route or a remote call does. Each has exactly one, and no call is served without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// Reads runs, tasks, statistics; asks runs by queries.
    Read,
    /// Starts runs.
    Start,
    /// Sends signals and updates to runs.
    Signal,
    /// Mends: cancels, terminates, retries, resets, decides about dead letters, changes schedules, drains workers.
    Operate,
    /// Claims and finishes work.
    RunTasks,
    /// Sees who may do what, and who did.
    Administer,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Worker, Self::Reader, Self::Operator, Self::Admin];

    /// The name in token files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Reader => "reader",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// Reads the name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }

    /// The one table of who may do what.
    #[must_use]
    pub const fn permits(self, permission: Permission) -> bool {
        match self {
            Self::Worker => matches!(permission, Permission::RunTasks),
            Self::Reader => matches!(permission, Permission::Read),
            Self::Operator => matches!(
                permission,
                Permission::Read | Permission::Start | Permission::Signal | Permission::Operate
            ),
            Self::Admin => true,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Permission {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Read,
        Self::Start,
        Self::Signal,
        Self::Operate,
        Self::RunTasks,
        Self::Administer,
    ];

    /// The name in errors and in the API's description.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Start => "start",
            Self::Signal => "signal",
            Self::Operate => "operate",
            Self::RunTasks => "run_tasks",
            Self::Administer => "administer",
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
