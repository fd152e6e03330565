//! Programs, run by the shipped engine: one binary, so that it is linked once.

mod crashes;
mod digits;
mod endings;
mod expressions;
mod guide;
mod http;
mod inputs;
mod limits;
mod mistakes;
mod mistakes_of_children;
mod programs;
mod random;
mod relations;
mod why;
mod world;
