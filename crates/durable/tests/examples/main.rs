//! The examples run to their end and tell their stories.

mod engines;
mod operators;
mod stage;
mod state_machines;
mod workflows;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Names of the examples.
fn examples() -> BTreeSet<String> {
    let folder = Path::new(HERE).join("examples");
    let files = fs::read_dir(folder).expect("the examples are there");
    let names = files.map(|file| file.expect("can be listed").path());
    names
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect()
}

fn text(path: impl AsRef<Path>) -> String {
    let path = Path::new(HERE).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_example_is_run_by_a_test_and_named_in_the_guide() {
    let tests: String = ["engines", "operators", "state_machines", "workflows"]
        .map(|file| text(format!("tests/examples/{file}.rs")))
        .concat();
    let guide = text("../../docs/guide/README.md");
    for example in examples() {
        let run = tests.contains(&format!("(\"{example}\""));
        assert!(run, "no test runs {example}");
        let named = guide.contains(&format!("`{example}`"));
        assert!(named, "the guide does not name {example}");
    }
}

#[test]
fn every_page_of_the_guide_is_listed_and_its_programs_are_compiled() {
    let guide = text("../../docs/guide/README.md");
    let library = text("src/lib.rs");
    let pages = fs::read_dir(Path::new(HERE).join("../../docs/guide")).expect("the guide is there");
    for page in pages {
        let page = page.expect("can be listed").file_name();
        let page = page.to_str().expect("names are text");
        if page == "README.md" || !page.ends_with(".md") {
            continue;
        }
        assert!(
            guide.contains(&format!("]({page})")),
            "{page} is not listed"
        );
        let has_programs = text(format!("../../docs/guide/{page}")).contains("```rust");
        let compiled = library.contains(&format!("/docs/guide/{page}\""));
        assert!(compiled || !has_programs, "{page} is not compiled");
    }
}
