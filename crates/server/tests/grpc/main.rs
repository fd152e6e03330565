//! The gRPC door, by a real client over a real socket.

mod activities;
mod guarding;
mod place;
mod workflows;
mod workman;
