//! Real worker processes: killed in the middle of their work, competing for it, sharing it.

mod ground;
mod killing;
mod reliability;
mod sharing;
mod upgrade;
mod walking;
