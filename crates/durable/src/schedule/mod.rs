//! When schedules fire, and what a tick does. Pure: no store, no clock.

mod cron;
mod tick;

pub(crate) use cron::Cron;
pub(crate) use tick::{Decision, LastRun, Stop, decide, run_id_of, start_of};
