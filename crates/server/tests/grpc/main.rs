//! The gRPC door, by a real client over a real socket.

mod activities;
mod cut;
mod guarding;
mod mistakes;
mod noting;
mod offers;
mod place;
mod remote;
mod workflows;
mod workman;
