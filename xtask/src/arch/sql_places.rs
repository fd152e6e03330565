//! SQL lives in the two SQL stores and nowhere else.

use super::{Violation, rust_source, sources::Sources};

/// The product's code. The testkit audits databases and the benchmark writes bare statements to compare with: both
/// may speak SQL, and so may integration tests.
const CHECKED: &[&str] = &[
    "crates/core/src/",
    "crates/durable/src/",
    "crates/macros/src/",
    "crates/proto/src/",
    "crates/server/src/",
    "crates/cli/src/",
];

/// Where statements belong.
pub(super) const SQL_FOLDERS: &[&str] = &[
    "crates/durable/src/persistence/postgres/",
    "crates/durable/src/persistence/sqlite/",
    "crates/durable/src/persistence/migrations/",
];

/// Upper case and unmistakable; prose says "delete from" too.
const STATEMENTS: &[&str] = &[
    "INSERT INTO ",
    "DELETE FROM ",
    "CREATE TABLE ",
    "CREATE INDEX ",
    "CREATE UNIQUE INDEX ",
    "ALTER TABLE ",
    "DROP TABLE ",
    "FOR UPDATE SKIP LOCKED",
];

/// In any case, in front of one of our tables.
const BEFORE_TABLES: &[&str] = &["FROM", "JOIN", "INTO", "UPDATE"];

/// Checks the string literals of every file outside the SQL stores.
pub(super) fn check(sources: &Sources) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in sources.ending(".rs") {
        let product = CHECKED.iter().any(|prefix| path.starts_with(prefix));
        if !product || SQL_FOLDERS.iter().any(|folder| path.starts_with(folder)) {
            continue;
        }
        for literal in rust_source::literals(text) {
            if let Some(sign) = sign_of_sql(&literal.text) {
                violations.push(Violation::new(
                    format!("{path}:{}", literal.line),
                    format!("SQL (`{sign}`) outside persistence/{{postgres,sqlite,migrations}}"),
                ));
            }
        }
    }
    violations
}

/// What gives a text away as a statement.
fn sign_of_sql(text: &str) -> Option<String> {
    let words: Vec<&str> = text
        .split_whitespace()
        .filter(|word| *word != "\\")
        .collect();
    let flat = format!("{} ", words.join(" "));
    if let Some(statement) = STATEMENTS
        .iter()
        .find(|statement| flat.contains(**statement))
    {
        return Some(statement.trim_end().to_owned());
    }
    words.windows(2).find_map(|pair| {
        let keyword = pair[0].to_ascii_uppercase();
        let table = pair[1]
            .rsplit(['.', '"', '}'])
            .find(|part| !part.is_empty())?;
        let before_table = BEFORE_TABLES.contains(&keyword.as_str());
        (before_table && table.starts_with("durable_")).then(|| format!("{} {}", pair[0], pair[1]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, literal: &str) -> Vec<String> {
        let source = format!("// INSERT INTO durable_x\nfn f() {{\n    g({literal:?});\n}}\n");
        check(&Sources::of(&[(path, &source)]))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn statements_outside_the_stores_are_found_with_their_place() {
        assert_eq!(
            found(
                "crates/durable/src/engine/mod.rs",
                "INSERT INTO durable_tasks VALUES ($1)"
            ),
            [
                "crates/durable/src/engine/mod.rs:3: SQL (`INSERT INTO`) outside persistence/{postgres,sqlite,migrations}"
            ]
        );
        for statement in [
            "select id from durable_tasks",
            "UPDATE {schema}.durable_tasks SET x = 1",
            "SELECT 1 FROM \"durable\".durable_events",
            "delete from   durable_timers",
            "CREATE TABLE t (id int)",
        ] {
            assert_eq!(
                found("crates/core/src/a.rs", statement).len(),
                1,
                "{statement}"
            );
        }
    }

    #[test]
    fn the_stores_tests_and_the_benchmark_may_speak_sql() {
        for path in [
            "crates/durable/src/persistence/postgres/sql.rs",
            "crates/durable/src/persistence/sqlite/claim.rs",
            "crates/durable/tests/explain.rs",
            "crates/bench/src/bare.rs",
            "crates/testkit/src/audit.rs",
        ] {
            assert_eq!(found(path, "DELETE FROM durable_tasks"), [""; 0], "{path}");
        }
    }

    #[test]
    fn prose_is_not_sql() {
        for prose in [
            "cannot delete from an empty set",
            "select a store from the list",
            "the table durable_tasks is missing",
            "update failed",
            "metrics from durable-core",
        ] {
            assert_eq!(found("crates/cli/src/main.rs", prose), [""; 0], "{prose}");
        }
    }
}
