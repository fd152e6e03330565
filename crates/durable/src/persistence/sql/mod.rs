//! What the SQL stores share: the rules of the contract, once, between two sets of statements.
//!
//! Every write is *load, decide, apply*: the database locks and reads what an intent asks for
//! ([`rows::Load`]), a pure rule decides and says what to write ([`rows::Changes`]), the database
//! writes it as sets and commits. So acceptance is decided in one place, in Rust, under row locks;
//! SQLite and PostgreSQL only hold statements. The memory store has rules of its own: it is the
//! oracle that these are compared with.
//!
//! Architecture invariant: no SQL in this folder, and no rule in the folders of the databases.

pub(in crate::persistence) mod intents;
pub mod rows;
mod rules;
pub mod run_lists;
mod store;
pub mod tx;

pub use store::SqlStore;
