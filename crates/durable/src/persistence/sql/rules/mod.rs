//! The rules of the contract, as changes to a unit of work. Pure: no database, no clock.

pub(crate) mod end;
mod facts;
mod frame;
pub(crate) mod start;
pub(crate) mod tasks;
mod totals;
pub(crate) mod turn;
pub(crate) mod work;
