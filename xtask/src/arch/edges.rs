//! Which workspace crate may depend on which.

use serde_json::Value;

use super::Violation;

/// The layers of DESIGN.md: a crate and what it may be built on. A crate that is not here is an error, so that a new
/// one gets its place by decision.
const LAYERS: &[(&str, &[&str])] = &[
    ("durable-core", &[]),
    ("durable-macros", &[]),
    ("durable-proto", &["durable-core"]),
    (
        "everruns-durable",
        &["durable-core", "durable-macros", "durable-proto"],
    ),
    ("durable-program", &["everruns-durable"]),
    (
        "durable-server",
        &["everruns-durable", "durable-program", "durable-proto"],
    ),
    (
        "durable",
        &[
            "everruns-durable",
            "durable-program",
            "durable-server",
            "durable-proto",
        ],
    ),
    (
        "durable-testkit",
        &["durable-core", "everruns-durable", "durable-proto"],
    ),
    (
        "durable-bench",
        &[
            "durable-core",
            "everruns-durable",
            "durable-server",
            "durable-proto",
        ],
    ),
    ("durable-codegen", &[]),
    ("xtask", &[]),
];

/// Checks every dependency between members, as `cargo metadata` lists them.
pub(super) fn check(metadata: &Value) -> Vec<Violation> {
    let packages = metadata["packages"].as_array().map_or(&[][..], |list| list);
    let members: Vec<&str> = packages
        .iter()
        .filter_map(|package| package["name"].as_str())
        .collect();
    let mut violations = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = package["manifest_path"].as_str().unwrap_or(name);
        let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
            violations.push(Violation::new(
                manifest,
                format!("`{name}` has no place in the layers of xtask/src/arch/edges.rs"),
            ));
            continue;
        };
        let dependencies = package["dependencies"]
            .as_array()
            .map_or(&[][..], |list| list);
        for dependency in dependencies {
            let to = dependency["name"].as_str().unwrap_or_default();
            let for_tests = dependency["kind"] == "dev";
            if members.contains(&to) && !allows(name, allowed, to, for_tests) {
                let kind = if for_tests { " for its tests" } else { "" };
                violations.push(Violation::new(
                    manifest,
                    format!("`{name}` must not depend on `{to}`{kind}"),
                ));
            }
        }
    }
    violations
}

fn allows(from: &str, allowed: &[&str], to: &str, for_tests: bool) -> bool {
    // Tests may use the testkit, and their own crate with other features; the core stands alone even there.
    allowed.contains(&to)
        || (for_tests && from != "durable-core" && (to == "durable-testkit" || to == from))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn edge(from: &str, to: &str, kind: Option<&str>) -> Vec<String> {
        let metadata = json!({"packages": [
            {"name": from, "manifest_path": "from/Cargo.toml", "dependencies": [
                {"name": to, "kind": kind},
                {"name": "serde", "kind": null},
            ]},
            {"name": to, "manifest_path": "to/Cargo.toml", "dependencies": []},
        ]});
        check(&metadata).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn layers_may_look_down() {
        assert_eq!(edge("everruns-durable", "durable-core", None), [""; 0]);
        assert_eq!(edge("durable-server", "everruns-durable", None), [""; 0]);
    }

    #[test]
    fn layers_must_not_look_up() {
        assert_eq!(
            edge("durable-core", "everruns-durable", None),
            ["from/Cargo.toml: `durable-core` must not depend on `everruns-durable`"]
        );
        assert_eq!(edge("everruns-durable", "durable-server", None).len(), 1);
        assert_eq!(
            edge("durable-core", "durable-macros", Some("build")).len(),
            1
        );
    }

    #[test]
    fn the_testkit_is_for_tests_only() {
        assert_eq!(
            edge("everruns-durable", "durable-testkit", Some("dev")),
            [""; 0]
        );
        assert_eq!(edge("everruns-durable", "durable-testkit", None).len(), 1);
        assert_eq!(
            edge("everruns-durable", "everruns-durable", Some("dev")),
            [""; 0]
        );
        assert_eq!(
            edge("durable-core", "durable-testkit", Some("dev")).len(),
            1
        );
    }

    #[test]
    fn nothing_depends_on_the_programs_not_even_tests() {
        for program in ["durable", "durable-bench", "xtask"] {
            assert_eq!(edge("durable-testkit", program, None).len(), 1, "{program}");
            assert_eq!(
                edge("durable-testkit", program, Some("dev")).len(),
                1,
                "{program}"
            );
        }
    }

    #[test]
    fn a_new_crate_needs_a_place() {
        let messages = edge("durable-new", "durable-core", None);
        assert!(messages[0].contains("has no place"), "{messages:?}");
    }

    #[test]
    fn layers_name_only_each_other() {
        for (_, allowed) in LAYERS {
            for name in *allowed {
                assert!(LAYERS.iter().any(|(layer, _)| layer == name), "{name}");
            }
        }
    }
}
