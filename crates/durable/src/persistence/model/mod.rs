//! The nouns of the store contract.

pub mod admin;
pub mod audit;
pub mod dead_letter;
pub mod due;
pub mod dump;
pub mod fact;
pub mod outbox;
pub mod run;
pub mod schedule;
pub mod summary;
pub mod task;
pub mod time;
pub mod turn;
pub mod worker;

pub use admin::*;
pub use audit::*;
pub use dead_letter::*;
pub use due::*;
pub use dump::*;
pub use fact::*;
pub use outbox::*;
pub use run::*;
pub use schedule::*;
pub use summary::*;
pub use task::*;
pub use time::*;
pub use turn::*;
pub use worker::*;
