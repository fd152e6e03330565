//! Records as columns on the way in, and rows as records on the way out; by noun, beside `sql`.

pub(super) mod attributes;
pub(super) mod audit;
pub(super) mod events;
pub(super) mod inbox;
pub(super) mod keys;
pub(super) mod letters;
pub(super) mod logs;
pub(super) mod messages;
pub(super) mod outbox;
pub(super) mod purges;
pub(super) mod registry;
pub(super) mod rollups;
pub(super) mod runs;
pub(super) mod schedules;
pub(super) mod signals;
pub(super) mod tasks;
pub(super) mod timers;
pub(super) mod updates;
