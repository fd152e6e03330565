//! Counts from what `cargo test` prints.

use super::{Counts, Row};

/// Reads a log line by line.
#[derive(Default)]
pub(super) struct Log {
    targets: Vec<Target>,
}

struct Target {
    name: String,
    /// None until a `test result:` line came: a target that crashes has none.
    counts: Option<Counts>,
}

impl Log {
    /// Takes the next line.
    pub(super) fn read(&mut self, line: &str) {
        let line = without_colours(line);
        if let Some(name) = started(&line) {
            self.targets.push(Target { name, counts: None });
        } else if let (Some(result), Some(target)) = (result(&line), self.targets.last_mut()) {
            // More than one for a crate's documentation: merged examples and those that stand alone.
            *target.counts.get_or_insert_default() += result;
        }
    }

    /// One row per target. If cargo failed, a target without a result crashed; without any sign of a failed test
    /// it was the build that failed.
    pub(super) fn rows(self, cargo_succeeded: bool) -> Vec<Row> {
        let mut rows: Vec<Row> = self
            .targets
            .into_iter()
            .map(|Target { name, counts }| match counts {
                None if !cargo_succeeded => Row::failed(format!("{name} did not finish")),
                counts => Row {
                    target: name,
                    counts: counts.unwrap_or_default(),
                },
            })
            .collect();
        if !cargo_succeeded && rows.iter().all(|row| row.counts.failed == 0) {
            rows.push(Row::failed("cargo test failed, see above".to_owned()));
        }
        rows
    }
}

/// The target that cargo says it starts now. Cargo indents these lines, a test's own output rarely is.
fn started(line: &str) -> Option<String> {
    let text = line.strip_prefix("  ")?.trim_start();
    if let Some(krate) = text.strip_prefix("Doc-tests ") {
        return Some(krate.to_owned());
    }
    let (what, binary) = text
        .strip_prefix("Running ")?
        .strip_suffix(')')?
        .rsplit_once(" (")?;
    let file = binary.rsplit('/').next()?;
    let krate = file.rsplit_once('-').map_or(file, |(name, _hash)| name);
    Some(match what.strip_prefix("unittests ") {
        Some("src/lib.rs") => format!("{krate} (unit)"),
        Some(source) => format!("{krate} ({source})"),
        None => what.to_owned(),
    })
}

/// The counts of `test result: ok. 5 passed; 0 failed; 0 ignored; …`.
fn result(line: &str) -> Option<Counts> {
    let numbers = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let count = |word: &str| {
        numbers
            .split("; ")
            .find_map(|part| part.strip_suffix(word)?.trim_end().parse().ok())
    };
    Some(Counts {
        passed: count("passed")?,
        failed: count("failed")?,
        ignored: count("ignored")?,
    })
}

/// The line without terminal escape sequences.
fn without_colours(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        text.push_str(before);
        rest = after
            .split_once(|c: char| c.is_ascii_alphabetic())
            .map_or("", |(_parameters, rest)| rest);
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSED: &str = "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s";
    const FAILED: &str = "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";
    const UNIT: &str = "     Running unittests src/lib.rs (target/debug/deps/durable_core-0a1b2c)";
    const INTEGRATION: &str = "     Running tests/golden.rs (target/debug/deps/golden-0a1b2c)";

    fn rows(lines: &[&str], cargo_succeeded: bool) -> Vec<(String, u64, u64, u64)> {
        let mut log = Log::default();
        for line in lines {
            log.read(line);
        }
        log.rows(cargo_succeeded)
            .into_iter()
            .map(|row| {
                let Counts {
                    passed,
                    failed,
                    ignored,
                } = row.counts;
                (row.target, passed, failed, ignored)
            })
            .collect()
    }

    #[test]
    fn each_binary_gets_its_counts() {
        assert_eq!(
            rows(
                &[UNIT, "running 6 tests", PASSED, INTEGRATION, FAILED],
                false
            ),
            [
                ("durable_core (unit)".to_owned(), 5, 0, 1),
                ("tests/golden.rs".to_owned(), 1, 2, 0)
            ]
        );
    }

    #[test]
    fn results_of_one_crates_documentation_add_up() {
        assert_eq!(
            rows(&["   Doc-tests durable_core", PASSED, PASSED], true),
            [("durable_core".to_owned(), 10, 0, 2)]
        );
    }

    #[test]
    fn a_binary_that_crashed_counts_as_a_failure() {
        assert_eq!(
            rows(&[UNIT, "running 6 tests", INTEGRATION, PASSED], false),
            [
                ("durable_core (unit) did not finish".to_owned(), 0, 1, 0),
                ("tests/golden.rs".to_owned(), 5, 0, 1)
            ]
        );
    }

    #[test]
    fn a_build_that_failed_counts_as_a_failure() {
        assert_eq!(
            rows(&["error[E0425]: cannot find value"], false),
            [("cargo test failed, see above".to_owned(), 0, 1, 0)]
        );
    }

    #[test]
    fn a_binary_without_libtest_is_no_failure_when_cargo_is_content() {
        assert_eq!(
            rows(
                &["     Running benches/store.rs (target/debug/deps/store-1)"],
                true
            ),
            [("benches/store.rs".to_owned(), 0, 0, 0)]
        );
    }

    #[test]
    fn colours_do_not_hide_a_line() {
        let coloured = format!("\u{1b}[1m\u{1b}[92m     Running\u{1b}[0m {}", &UNIT[13..]);
        assert_eq!(
            rows(&[&coloured, PASSED], true),
            [("durable_core (unit)".to_owned(), 5, 0, 1)]
        );
    }

    #[test]
    fn what_a_test_prints_is_not_taken_for_cargo() {
        assert_eq!(rows(&["Running away (from it all)"], true), []);
    }
}
