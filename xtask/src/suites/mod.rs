//! What `cargo xtask test` runs. To add a suite, add an entry to [`SUITES`].

mod cargo;
mod libtest;
mod proof;
mod python;
mod ratchet;
pub(crate) mod table;

use std::ops::AddAssign;

use crate::{postgres::Servers, workspace::Workspace};

/// Every suite, in the order in which they run: cheap and telling first.
pub(crate) const SUITES: &[Suite] = &[
    Suite {
        name: "tests",
        about: "unit and integration tests, conformance of every store",
        takes_cargo_args: true,
        run: cargo::tests,
    },
    Suite {
        name: "docs",
        about: "examples in the documentation",
        takes_cargo_args: true,
        run: cargo::docs,
    },
    Suite {
        name: "python",
        about: "a Python worker and the gRPC contract, by pytest",
        takes_cargo_args: false,
        run: python::suite,
    },
    Suite {
        name: "ratchet",
        about: "the instructions of a replay, where valgrind is installed",
        takes_cargo_args: false,
        run: ratchet::suite,
    },
    Suite {
        name: "differential",
        about: "a bounded share of `cargo xtask differential`",
        takes_cargo_args: false,
        run: proof::differential,
    },
    Suite {
        name: "prove",
        about: "a bounded share of `cargo xtask prove`",
        takes_cargo_args: false,
        run: proof::prove,
    },
];

/// One thing that the test command runs.
pub(crate) struct Suite {
    /// What `--only` and the table call it.
    pub(crate) name: &'static str,
    /// One line for the reader of the output.
    pub(crate) about: &'static str,
    /// Whether arguments behind `--` are meant for it.
    pub(crate) takes_cargo_args: bool,
    /// Runs it; an error counts as one failure.
    pub(crate) run: fn(&Context<'_>) -> anyhow::Result<Vec<Row>>,
}

/// What a suite runs with.
pub(crate) struct Context<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) servers: &'a Servers,
    /// What stood behind `--` on the command line.
    pub(crate) cargo_args: &'a [String],
}

/// How many tests ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

/// One line of the table: a test binary, a documented crate, a run of the testkit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) target: String,
    pub(crate) counts: Counts,
}

impl Row {
    /// A row for something that could not even run.
    pub(crate) fn failed(target: String) -> Self {
        let counts = Counts {
            failed: 1,
            ..Counts::default()
        };
        Self { target, counts }
    }
}

/// A suite's rows.
pub(crate) struct Outcome {
    pub(crate) suite: &'static str,
    pub(crate) rows: Vec<Row>,
}

impl Outcome {
    /// The sum of the rows.
    pub(crate) fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for row in &self.rows {
            sum += row.counts;
        }
        sum
    }
}
