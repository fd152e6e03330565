//! The update `set_var`, and who waits for one.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::value::Value;

/// Input of the update `set_var`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetVar {
    /// Which variable.
    pub(crate) name: String,
    /// Its new value.
    pub(crate) value: Value,
}

impl SetVar {
    /// Name of the update.
    pub(crate) const UPDATE: &'static str = "set_var";
}

/// Those who wait for the next update.
#[derive(Debug, Default)]
pub(crate) struct Updates {
    last: u64,
    waiting: BTreeMap<u64, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    name: Option<String>,
    given: Option<Value>,
}

impl Updates {
    /// An update was applied: everybody who waits for it is told.
    pub(crate) fn applied(&mut self, update: &SetVar) {
        for waiting in self.waiting.values_mut() {
            let wanted = waiting.name.as_deref();
            let wanted = wanted.is_none_or(|name| name == update.name || name == SetVar::UPDATE);
            if wanted && waiting.given.is_none() {
                waiting.given = Some(Value::object([
                    ("name", update.name.as_str().into()),
                    ("value", update.value.clone()),
                ]));
            }
        }
    }

    pub(super) fn wait(&mut self, name: Option<String>) -> u64 {
        self.last += 1;
        let waiting = Waiting { name, given: None };
        self.waiting.insert(self.last, waiting);
        self.last
    }

    pub(super) fn has_come(&self, key: u64) -> bool {
        let waiting = self.waiting.get(&key);
        waiting.is_some_and(|waiting| waiting.given.is_some())
    }

    pub(super) fn stop(&mut self, key: u64) -> Option<Value> {
        self.waiting.remove(&key)?.given
    }
}
