//! What is wrong with a program.

use std::fmt;

/// Why a program is refused, and where the mistake stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Where, such as `steps[2].branches[0][1].input.$add`; empty: the program as a whole.
    pub path: String,
    /// What is wrong, and how to mend it.
    pub problem: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => write!(f, "the program: {}", self.problem),
            path => write!(f, "{path}: {}", self.problem),
        }
    }
}

impl std::error::Error for Mistake {}
