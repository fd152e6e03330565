//! The core knows no runtime, no SQL, no clock and no randomness.

use serde_json::Value;

use super::{Violation, rust_source, sources::Sources};

const CORE: &str = "durable-core";
const CORE_SOURCES: &str = "crates/core/src/";

/// Crates that bring what the core must not know.
const FORBIDDEN_CRATES: &[(&str, &[&str])] = &[
    (
        "a runtime",
        &[
            "tokio",
            "tokio-util",
            "async-std",
            "async-executor",
            "async-io",
            "smol",
            "futures-executor",
            "mio",
            "polling",
            "rayon",
        ],
    ),
    (
        "SQL",
        &[
            "rusqlite",
            "libsqlite3-sys",
            "tokio-postgres",
            "postgres",
            "postgres-types",
            "deadpool-postgres",
            "sqlx",
            "sqlx-core",
            "diesel",
            "sea-orm",
        ],
    ),
    (
        "a clock",
        &[
            "chrono",
            "time",
            "coarsetime",
            "quanta",
            "web-time",
            "iana-time-zone",
            "jiff-tzdb-platform",
        ],
    ),
    (
        "randomness",
        &[
            "rand",
            "rand_core",
            "getrandom",
            "fastrand",
            "oorandom",
            "nanorand",
            "ahash",
        ],
    ),
];

/// Features of pure crates that make them impure.
const FORBIDDEN_FEATURES: &[(&str, &[&str])] = &[
    (
        "jiff",
        &["default", "std", "tz-system", "tzdb-zoneinfo", "js"],
    ),
    (
        "uuid",
        &[
            "v1",
            "v4",
            "v6",
            "v7",
            "rng-getrandom",
            "rng-rand",
            "fast-rng",
        ],
    ),
];

/// Words of the standard library that read a clock, run something beside the caller or reach outside the process. Which thread one is on
/// (`thread::current`) may be asked: it is how a wake from outside is told from one of the workflow's own.
const FORBIDDEN_WORDS: &[&str] = &[
    "SystemTime",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
    "thread::spawn",
    "thread::scope",
    "thread::Builder",
    "thread::sleep",
    "thread::park",
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "RandomState",
];

/// Checks the names in what `cargo tree --prefix none` prints.
pub(super) fn check_tree(tree: &str) -> Vec<Violation> {
    let mut names: Vec<&str> = tree
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    names.sort_unstable();
    names.dedup();
    if !names.contains(&CORE) {
        return vec![Violation::new("cargo tree", format!("shows no `{CORE}`"))];
    }
    let forbidden = |name: &&str| {
        FORBIDDEN_CRATES
            .iter()
            .find(|(_, crates)| crates.contains(name))
            .map(|(what, _)| *what)
    };
    names
        .iter()
        .filter_map(|name| Some((name, forbidden(name)?)))
        .map(|(name, what)| {
            Violation::new(
                "crates/core/Cargo.toml",
                format!("the core's dependency tree contains `{name}`, which is {what}"),
            )
        })
        .collect()
}

/// Checks the features that the core's own manifest asks for.
pub(super) fn check_features(metadata: &Value) -> Vec<Violation> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut violations = Vec::new();
    for package in list(&metadata["packages"]) {
        if package["name"] != CORE {
            continue;
        }
        for dependency in list(&package["dependencies"]) {
            if dependency["kind"] == "dev" {
                continue;
            }
            let name = dependency["name"].as_str().unwrap_or_default();
            let mut features: Vec<String> = list(&dependency["features"])
                .iter()
                .filter_map(|feature| feature.as_str().map(str::to_owned))
                .collect();
            if dependency["uses_default_features"] == true {
                features.push("default".to_owned());
            }
            let forbidden = FORBIDDEN_FEATURES
                .iter()
                .find(|(krate, _)| *krate == name)
                .map_or(&[][..], |(_, forbidden)| forbidden);
            for feature in features.iter().filter(|f| forbidden.contains(&f.as_str())) {
                violations.push(Violation::new(
                    "crates/core/Cargo.toml",
                    format!("the core must not ask for the feature `{feature}` of `{name}`"),
                ));
            }
        }
    }
    violations
}

/// Checks the core's code, its tests left out.
pub(super) fn check_sources(sources: &Sources) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in sources.rust_below(CORE_SOURCES) {
        let code = rust_source::without_comments_and_literals(rust_source::without_tests(text));
        for (number, line) in code.lines().enumerate() {
            for word in FORBIDDEN_WORDS.iter().filter(|word| line.contains(**word)) {
                violations.push(Violation::new(
                    format!("{path}:{}", number + 1),
                    format!("the core must not use `{word}`: time, randomness and input come in as arguments"),
                ));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_runtime_deep_in_the_tree_is_found() {
        let tree = "durable-core v0.1.0 (/x)\nserde v1.0.1\nitoa v1.0.0\n";
        assert_eq!(check_tree(tree), []);
        let violations = check_tree(&format!("{tree}getrandom v0.3.1 (*)\ntokio v1.54.0\n"));
        assert_eq!(violations.len(), 2);
        assert!(
            violations[0]
                .to_string()
                .contains("`getrandom`, which is randomness")
        );
    }

    #[test]
    fn an_empty_tree_proves_nothing() {
        assert_eq!(check_tree("").len(), 1);
    }

    fn asks_for(name: &str, features: &[&str], default: bool, kind: Option<&str>) -> usize {
        let metadata = json!({"packages": [{"name": CORE, "dependencies": [
            {"name": name, "features": features, "uses_default_features": default, "kind": kind}
        ]}]});
        check_features(&metadata).len()
    }

    #[test]
    fn features_with_a_clock_or_randomness_are_found() {
        assert_eq!(asks_for("jiff", &["alloc", "serde"], false, None), 0);
        assert_eq!(asks_for("jiff", &["std"], false, None), 1);
        assert_eq!(asks_for("jiff", &[], true, None), 1);
        assert_eq!(asks_for("uuid", &["v5", "v7"], false, None), 1);
        assert_eq!(asks_for("uuid", &["v7"], false, Some("dev")), 0);
    }

    #[test]
    fn a_clock_in_the_code_is_found_but_not_in_comments_or_tests() {
        let source = "\
// SystemTime is not read here
fn f() -> &'static str { \"SystemTime\" }
fn g() { let t = std::time::SystemTime::now(); }
#[cfg(test)]
mod tests { fn h() { std::fs::read(\"x\"); } }
";
        let sources = Sources::of(&[("crates/core/src/a.rs", source)]);
        let found: Vec<_> = check_sources(&sources)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("crates/core/src/a.rs:3: "),
            "{found:?}"
        );
    }
}
