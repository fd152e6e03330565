//! The gRPC door, by a real client over a real socket.

mod activities;
mod cut;
mod doors;
mod guarding;
mod mistakes;
mod noting;
mod offers;
mod place;
mod remote;
mod scopes;
mod workflows;
mod workman;
