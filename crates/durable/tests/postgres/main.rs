//! The PostgreSQL store from below: schema, statements, rows. What it has in common with the other stores is in the
//! conformance suite.

#![cfg(feature = "postgres")]

mod bell;
mod changes;
mod checkup;
mod claims;
mod counting;
mod deleting;
mod encoded;
mod explain;
mod filled;
mod intents;
mod migrations;
mod opening;
mod operators;
mod part;
mod plans;
mod pooled;
mod reads;
mod samples;
mod server;
mod sql_functions;
mod statements;
#[cfg(feature = "postgres-tls")]
mod tls;
mod transactional;
mod transactions;
mod views;
