//! The PostgreSQL store from below: schema, statements, rows. What it has in common with the other stores is in the
//! conformance suite.

#![cfg(feature = "postgres")]

mod bell;
mod changes;
mod claims;
mod explain;
mod intents;
mod migrations;
mod opening;
mod pooled;
mod reads;
mod samples;
mod server;
mod statements;
mod transactions;
mod views;
