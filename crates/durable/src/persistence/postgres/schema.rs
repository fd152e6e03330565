//! The schema's name, checked and quoted.

use crate::persistence::StoreError;

/// Longest name that PostgreSQL keeps whole.
const NAME_BYTES_MAX: usize = 63;

/// Where the tables are. The name is written into every statement: a transaction pooler would lose a
/// `search_path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Schema {
    name: String,
}

impl Schema {
    /// Takes a name of letters, digits and underscores.
    pub(super) fn new(name: &str) -> Result<Self, StoreError> {
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !plain || !starts_well || name.len() > NAME_BYTES_MAX || name.starts_with("pg_") {
            return Err(StoreError::open(format!(
                "schema name {name:?} is not allowed: use up to {NAME_BYTES_MAX} letters, digits and \
                 underscores, not starting with a digit or pg_"
            )));
        }
        Ok(Self {
            name: name.to_owned(),
        })
    }

    /// The name as PostgreSQL's catalogue has it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A text of statements with the name in its places, which are marked `{s}`.
    pub(super) fn render(&self, sql: &str) -> String {
        sql.replace("{s}", &format!("\"{}\"", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_quoted_in_every_place() {
        let schema = Schema::new("My_app2").unwrap();
        assert_eq!(schema.render("{s}.a {s}.b"), r#""My_app2".a "My_app2".b"#);
    }

    #[test]
    fn names_that_could_break_out_of_their_quotes_are_refused() {
        for name in ["", "a\"b", "a b", "a;b", "1a", "pg_x", "ü", &"a".repeat(64)] {
            assert!(Schema::new(name).is_err(), "{name:?}");
        }
    }
}
