//! Statements as constants, and their texts with the schema's name in them.

use std::collections::HashMap;

use tokio_postgres::types::Type;

use super::schema::Schema;
use super::sql;

/// One statement: what it is called, its text (`{s}` stands for the schema), the types of its parameters.
#[derive(Debug)]
pub(super) struct Statement {
    /// Unique among all.
    pub(super) name: &'static str,
    /// The text.
    pub(super) sql: &'static str,
    /// Types, so that nothing has to be asked of the server.
    pub(super) params: &'static [Type],
}

/// Declares statements, and `ALL` of them for the test that prepares each one.
macro_rules! statements {
    ($($(#[doc = $doc:literal])* $name:ident [$($ty:ident),*] = $sql:expr;)+) => {
        $(
            $(#[doc = $doc])*
            pub(in crate::persistence::postgres) const $name: Statement = Statement {
                name: stringify!($name),
                sql: $sql,
                params: &[$(tokio_postgres::types::Type::$ty),*],
            };
        )+
        /// All statements of this file.
        pub(in crate::persistence::postgres) const ALL: &[&Statement] = &[$(&$name),+];
    };
}
pub(super) use statements;

/// The texts of all statements for one schema.
#[derive(Debug)]
pub(super) struct Catalog {
    texts: HashMap<&'static str, String>,
    schema: Schema,
}

impl Catalog {
    pub(super) fn new(schema: Schema) -> Self {
        let texts = sql::all()
            .map(|statement| (statement.name, schema.render(statement.sql)))
            .collect();
        Self { texts, schema }
    }

    /// A statement's text.
    pub(super) fn text(&self, statement: &Statement) -> &str {
        &self.texts[statement.name]
    }

    /// The schema.
    pub(super) fn schema(&self) -> &Schema {
        &self.schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_has_a_name_of_its_own() {
        let catalog = Catalog::new(Schema::new("durable").unwrap());
        assert_eq!(catalog.texts.len(), sql::all().count());
    }

    #[test]
    fn every_parameter_of_a_statement_is_used_and_declared() {
        for statement in sql::all() {
            let count = statement.params.len();
            for n in 1..=count {
                let place = format!("${n}");
                let used = statement.sql.match_indices(&place).any(|(at, _)| {
                    let rest = &statement.sql[at + place.len()..];
                    !rest.starts_with(|c: char| c.is_ascii_digit())
                });
                assert!(used, "{} does not use {place}", statement.name);
            }
            let beyond = format!("${}", count + 1);
            assert!(
                !statement.sql.contains(&beyond),
                "{} uses {beyond}",
                statement.name
            );
        }
    }
}
