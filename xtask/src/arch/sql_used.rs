//! Every statement is used: a dead one is still read, migrated and believed in.

use std::path::{Component, Path, PathBuf};

use super::{Violation, rust_source, sources::Sources, sql_places::SQL_FOLDERS};

/// The one crate with SQL.
const CRATE: &str = "crates/durable/";

/// Checks the constants of `sql.rs` files and `sql/` folders, and every `.sql` file.
pub(super) fn check(sources: &Sources) -> Vec<Violation> {
    let mut violations = unused_constants(sources);
    violations.extend(unused_files(sources));
    violations
}

fn unused_constants(sources: &Sources) -> Vec<Violation> {
    let code: Vec<(&str, String)> = sources
        .rust_below("crates/durable/src/")
        .map(|(path, text)| (path, code_that_counts(text)))
        .collect();
    let mut violations = Vec::new();
    for (path, text) in &code {
        if !holds_statements(path) {
            continue;
        }
        for name in constants(text) {
            let uses: usize = code.iter().map(|(_, text)| occurrences(text, name)).sum();
            if uses <= 1 {
                violations.push(Violation::new(
                    *path,
                    format!("the statement `{name}` is never used (lists of statements and tests do not count)"),
                ));
            }
        }
    }
    violations
}

fn holds_statements(path: &str) -> bool {
    SQL_FOLDERS.iter().any(|folder| path.starts_with(folder))
        && (path.ends_with("/sql.rs") || path.contains("/sql/"))
}

/// Code without tests, and without lists such as `ALL: &[&str] = &[…]`, which name everything and use nothing.
fn code_that_counts(text: &str) -> String {
    let code = rust_source::without_comments_and_literals(rust_source::without_tests(text));
    let mut kept = String::new();
    for item in items(&code) {
        match list_start(item) {
            Some(start) => kept.push_str(&item[..start]),
            None => kept.push_str(item),
        }
    }
    kept
}

/// The code cut behind each `;`, except those in brackets as in `[&str; 3]`.
fn items(code: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    code.split_inclusive(|c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ';' && depth == 0
    })
    .collect()
}

/// Where a constant list starts in this item, if it is one.
fn list_start(item: &str) -> Option<usize> {
    ["const ", "static "].iter().find_map(|keyword| {
        let start = item.rfind(keyword)?;
        let kind = item[start..].split_once(':')?.1.trim_start();
        (kind.starts_with("&[") || kind.starts_with("&'static [") || kind.starts_with('['))
            .then_some(start)
    })
}

/// The names of string constants.
fn constants(code: &str) -> Vec<&str> {
    code.split("const ")
        .skip(1)
        .filter_map(|rest| {
            let (name, kind) = rest.split_once(':')?;
            let kind = kind.trim_start().trim_start_matches("&'static ");
            let is_text = kind.trim_start_matches('&').trim_start().starts_with("str");
            let name = name.trim();
            (is_text && rust_source::identifiers(name).count() == 1).then_some(name)
        })
        .collect()
}

fn occurrences(code: &str, name: &str) -> usize {
    rust_source::identifiers(code)
        .filter(|word| *word == name)
        .count()
}

fn unused_files(sources: &Sources) -> Vec<Violation> {
    let included: Vec<PathBuf> = sources
        .rust_below(CRATE)
        .flat_map(|(path, text)| {
            rust_source::literals(text)
                .into_iter()
                .filter(|literal| literal.text.ends_with(".sql"))
                .map(|literal| resolve(path, &literal.text))
                .collect::<Vec<_>>()
        })
        .collect();
    sources
        .ending(".sql")
        .filter(|(path, _)| path.starts_with(CRATE))
        .filter(|(path, _)| !included.contains(&PathBuf::from(path)))
        .map(|(path, _)| Violation::new(path, "no include_str! names this file"))
        .collect()
}

/// The file that an `include_str!` means: relative to its source, or, with a slash in front (behind
/// `env!("CARGO_MANIFEST_DIR")`), to the crate.
fn resolve(source: &str, literal: &str) -> PathBuf {
    let folder = Path::new(source).parent().unwrap_or(Path::new(""));
    let path = match literal.strip_prefix('/') {
        Some(below) => Path::new(CRATE).join(below),
        None => folder.join(literal),
    };
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQL: &str = "crates/durable/src/persistence/postgres/sql.rs";
    const STORE: &str = "crates/durable/src/persistence/postgres/store.rs";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Sources::of(files))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_statement_that_nobody_names_is_found() {
        let sql = "pub(super) const CLAIM: &str = \"SELECT 1\";\npub const DEAD: &'static str = r\"SELECT CLAIM\";";
        assert_eq!(
            found(&[(SQL, sql), (STORE, "fn f() { query(sql::CLAIM); } // DEAD")]),
            [format!(
                "{SQL}: the statement `DEAD` is never used (lists of statements and tests do not count)"
            )]
        );
    }

    #[test]
    fn a_use_in_a_function_beside_it_counts() {
        let sql = "const CLAIM: &str = \"SELECT 1\";\npub fn claim(schema: &str) -> String { CLAIM.replace(\"$\", schema) }";
        assert_eq!(found(&[(SQL, sql)]), [""; 0]);
    }

    #[test]
    fn lists_and_tests_do_not_count_as_use() {
        let sql = "const DEAD: &str = \"SELECT 1\";\npub const ALL: &[(&str, &str)] = &[(\"DEAD\", DEAD)];";
        let store = "fn f() {}\n#[cfg(test)]\nmod tests { fn t() { query(DEAD); } }";
        assert_eq!(found(&[(SQL, sql), (STORE, store)]).len(), 1);
        let sized = "const DEAD: &str = \"SELECT 1\";\npub const ALL: [&str; 1] = [DEAD];";
        assert_eq!(found(&[(SQL, sized)]).len(), 1);
    }

    #[test]
    fn a_name_inside_a_longer_one_is_no_use() {
        let files = [
            (SQL, "const CLAIM: &str = \"\";"),
            (STORE, "fn f() { CLAIM_TURNS; }"),
        ];
        assert_eq!(found(&files).len(), 1);
    }

    #[test]
    fn statements_in_a_sql_folder_are_checked_too() {
        let path = "crates/durable/src/persistence/sqlite/sql/claim.rs";
        assert_eq!(found(&[(path, "pub const DEAD: &str = \"x\";")]).len(), 1);
        let elsewhere = "crates/durable/src/persistence/sqlite/limits.rs";
        assert_eq!(
            found(&[(elsewhere, "pub const NAME: &str = \"x\";")]),
            [""; 0]
        );
    }

    #[test]
    fn a_sql_file_must_be_included_by_its_path() {
        let file = "crates/durable/src/persistence/migrations/sql/0001_init.sql";
        let source = "crates/durable/src/persistence/migrations/mod.rs";
        let include = |path: &str| format!("const M: &str = include_str!(\"{path}\");");
        for good in [
            "sql/0001_init.sql",
            "./sql/../sql/0001_init.sql",
            "/src/persistence/migrations/sql/0001_init.sql",
        ] {
            assert_eq!(
                found(&[(file, ""), (source, &include(good))]),
                [""; 0],
                "{good}"
            );
        }
        assert_eq!(
            found(&[(file, ""), (source, &include("sql/0002_more.sql"))]),
            [format!("{file}: no include_str! names this file")]
        );
    }
}
