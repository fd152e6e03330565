//! Statements as constants, and their texts with the schema's name in them.

use std::collections::HashMap;

use tokio_postgres::types::Type;

use super::schema::Schema;
use super::sql;

/// What a statement is sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A request, a chore or a claim sends the statement. Its plan is tested on tables of a million
    /// rows: it reads no growing table from end to end and sorts no unbounded set.
    Service,
    /// Only tests and the audit send the statement, to compare whole stores: it reads everything.
    Proof,
}

/// One statement: what it is called, its text (`{s}` stands for the schema), the types of its parameters.
#[derive(Debug)]
pub(super) struct Statement {
    /// Unique among all.
    pub(super) name: &'static str,
    /// The text.
    pub(super) sql: &'static str,
    /// Types, so that nothing has to be asked of the server.
    pub(super) params: &'static [Type],
    /// What the statement is sent for.
    pub(super) purpose: Purpose,
}

/// Declares statements, and `ALL` of them for the tests that prepare and explain each one. A
/// statement serves requests, chores and claims unless its declaration says `for Proof`.
macro_rules! statements {
    (@purpose) => { $crate::persistence::postgres::statement::Purpose::Service };
    (@purpose $purpose:ident) => { $crate::persistence::postgres::statement::Purpose::$purpose };
    ($($(#[doc = $doc:literal])* $name:ident [$($ty:ident),*] $(for $purpose:ident)? = $sql:expr;)+) => {
        $(
            $(#[doc = $doc])*
            pub(in crate::persistence::postgres) const $name: Statement = Statement {
                name: stringify!($name),
                sql: $sql,
                params: &[$(tokio_postgres::types::Type::$ty),*],
                purpose: statements!(@purpose $($purpose)?),
            };
        )+
        /// All statements of this file.
        pub(in crate::persistence::postgres) const ALL: &[&Statement] = &[$(&$name),+];
    };
}
pub(super) use statements;

/// A statement as the database gets it, for tests that prepare and explain every one of them.
#[derive(Debug, Clone)]
pub struct SentStatement {
    /// Unique among all; of a statement put together for one request, empty.
    pub name: &'static str,
    /// What was sent before it, to begin a transaction with settings of its own; empty where the
    /// statement has the settings of its connection.
    pub before: String,
    /// The text, with the schema's name in it.
    pub sql: String,
    /// The types of the parameters.
    pub types: Vec<Type>,
    /// What the statement is sent for.
    pub purpose: Purpose,
}

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
