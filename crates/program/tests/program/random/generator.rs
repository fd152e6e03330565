//! Random programs that never wait: mostly of fitting types, so that they get somewhere, and now and then not.

use fastrand::Rng;
use serde_json::{Value, json};

/// Variables, each mostly of its own kind (see [`home`]).
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const TEXTS: [&str; 6] = ["", "x", "xy", "Zoë", "\u{1F600}z", "10"];
const NUMBERS: [i64; 7] = [0, 1, 2, 3, -1, 7, 1000];
const FLOATS: [f64; 4] = [0.5, 1.0, -1.5, 2.25];
/// Rare, since what is computed with them mostly overflows.
const EXTREMES: [i64; 2] = [i64::MAX, i64::MIN];

/// What an expression is meant to come to.
#[derive(Clone, Copy)]
enum Kind {
    Number,
    Boolean,
    Text,
    List,
    Object,
}

const KINDS: [Kind; 5] = [
    Kind::Number,
    Kind::Boolean,
    Kind::Text,
    Kind::List,
    Kind::Object,
];

/// What a variable mostly is.
const fn home(name: &str) -> Kind {
    match name.as_bytes()[0] {
        b'a' | b'b' => Kind::Number,
        b'c' => Kind::Text,
        b'd' => Kind::List,
        b'e' => Kind::Boolean,
        _ => Kind::Object,
    }
}

/// The variables that mostly are of a kind.
const fn homes(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Number => &["a", "b", "f.k", "d.0"],
        Kind::Text => &["c", "f.0.0", "d.1"],
        Kind::List => &["d", "f.0"],
        Kind::Boolean => &["e"],
        Kind::Object => &["f"],
    }
}

pub(crate) struct Generator {
    rng: Rng,
    /// Patches are named once each.
    patches: usize,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            patches: 0,
        }
    }

    pub(crate) fn program(&mut self) -> Value {
        let mut vars = serde_json::Map::new();
        for name in NAMES {
            if !self.one_in(20) {
                vars.insert(name.to_owned(), self.constant(home(name)));
            }
        }
        let length = self.rng.usize(2..7);
        let mut steps = self.list(length, 3);
        if self.one_in(2) {
            let all = NAMES.map(|name| json!({"$": name}));
            steps.push(json!({"do": "return", "value": all}));
        }
        json!({"vars": vars, "steps": steps})
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.rng.u32(0..n) == 0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.usize(0..of.len())]
    }

    fn kind(&mut self) -> Kind {
        self.pick(&KINDS)
    }

    fn list(&mut self, length: usize, depth: usize) -> Vec<Value> {
        (0..length).map(|_| self.step(depth)).collect()
    }

    fn block(&mut self, depth: usize) -> Vec<Value> {
        let length = self.rng.usize(0..4);
        self.list(length, depth - 1)
    }

    fn step(&mut self, depth: usize) -> Value {
        let choices = if depth == 0 { 9 } else { 26 };
        match self.rng.u32(0..choices) {
            0..=6 => self.set(),
            7 if self.one_in(2) => {
                json!({"do": "fail", "type": self.pick(&["Red", "Blue"]), "message": self.field(Kind::Text)})
            }
            8 if self.one_in(2) => {
                let kind = self.kind();
                json!({"do": "return", "value": self.value(kind, 2)})
            }
            7..=9 => self.set(),
            10..=12 => {
                let mut step = json!({"do": "if", "cond": self.field(Kind::Boolean), "then": self.block(depth)});
                if self.one_in(2) {
                    step["else"] = json!(self.block(depth));
                }
                step
            }
            13..=14 => {
                json!({"do": "repeat", "times": self.count(), "steps": self.block(depth)})
            }
            15..=16 => self.loop_while(depth),
            17..=20 => self.attempt(depth),
            21..=22 => self.branches("parallel", 0, depth),
            23 => self.branches("race", 1, depth),
            24 => json!({"do": "compensate", "steps": self.undo()}),
            _ => {
                self.patches += 1;
                json!({"do": "patched", "id": format!("p{}", self.patches), "then": self.block(depth), "else": self.block(depth)})
            }
        }
    }

    fn set(&mut self) -> Value {
        let name = self.pick(&NAMES);
        json!({"do": "set", "var": name, "value": self.value(home(name), 3)})
    }

    /// A loop that counts a variable down; or with a condition that may hold for ever, which `max` ends.
    fn loop_while(&mut self, depth: usize) -> Value {
        let max = self.rng.u32(0..5);
        let name = self.pick(&["a", "b"]);
        let mut steps = self.block(depth);
        if self.one_in(2) {
            steps.push(json!({"do": "set", "var": name, "value": {"$sub": [{"$": name}, 1]}}));
            return json!({"do": "while", "cond": {"$lt": [0, {"$": name}]}, "max": max, "steps": steps});
        }
        json!({"do": "while", "cond": self.field(Kind::Boolean), "max": max, "steps": steps})
    }

    fn attempt(&mut self, depth: usize) -> Value {
        let mut step = json!({"do": "try", "steps": self.block(depth)});
        if !self.one_in(4) {
            step["catch"] = json!(self.block(depth));
            if self.one_in(2) {
                step["save_error"] = json!("error");
            }
        }
        if self.one_in(2) || step.get("catch").is_none() {
            step["finally"] = json!(self.block(depth));
        }
        step
    }

    fn branches(&mut self, what: &str, at_least: usize, depth: usize) -> Value {
        let count = self.rng.usize(at_least..4);
        let branches: Vec<_> = (0..count).map(|_| self.block(depth)).collect();
        let mut step = json!({"do": what, "branches": branches});
        if !self.one_in(3) {
            step["save"] = json!(if what == "race" { "f" } else { "d" });
        }
        step
    }

    /// Steps that undo: they neither return nor register more.
    fn undo(&mut self) -> Vec<Value> {
        let mut steps: Vec<_> = (0..self.rng.usize(0..3)).map(|_| self.set()).collect();
        if self.one_in(4) {
            steps.push(json!({"do": "fail", "type": "Undone", "message": ""}));
            steps.push(self.set());
        }
        steps
    }

    fn count(&mut self) -> Value {
        if self.one_in(8) {
            return json!({"$len": self.value(Kind::List, 1)});
        }
        json!(self.rng.u32(0..4))
    }

    fn constant(&mut self, kind: Kind) -> Value {
        match kind {
            Kind::Number if self.one_in(30) => json!(self.pick(&EXTREMES)),
            Kind::Number if self.one_in(60) => json!(1e300),
            Kind::Number if self.one_in(3) => json!(self.pick(&FLOATS)),
            Kind::Number => json!(self.pick(&NUMBERS)),
            Kind::Boolean => json!(self.rng.bool()),
            Kind::Text => json!(self.pick(&TEXTS)),
            Kind::List => json!([self.pick(&NUMBERS), self.pick(&TEXTS)]),
            Kind::Object => json!({"k": self.pick(&NUMBERS), "0": [self.pick(&TEXTS)]}),
        }
    }

    fn read(&mut self, kind: Kind) -> Value {
        if !self.one_in(12) {
            return json!({"$": self.pick(homes(kind))});
        }
        let name = self.pick(&["a", "c", "d", "e", "f", "error.type", "missing"]);
        let path = match self.rng.u32(0..6) {
            0 if name != "error.type" => format!("{name}.0"),
            1 => format!("{name}.k"),
            2 if name != "error.type" => format!("{name}.0.1"),
            _ => name.to_owned(),
        };
        json!({"$": path})
    }

    /// A field of one kind: what is written out has to fit, or the program is refused at its start.
    fn field(&mut self, kind: Kind) -> Value {
        let value = self.value(kind, 2);
        match (kind, &value) {
            (Kind::Boolean, Value::Bool(_)) | (Kind::Text, Value::String(_)) => value,
            (_, Value::Object(fields))
                if fields
                    .keys()
                    .any(|key| key.starts_with('$') && key != "$lit") =>
            {
                value
            }
            _ => self.read(kind),
        }
    }

    fn value(&mut self, kind: Kind, depth: usize) -> Value {
        let kind = if self.one_in(60) { self.kind() } else { kind };
        if depth == 0 || self.one_in(3) {
            return if self.one_in(2) {
                self.constant(kind)
            } else {
                self.read(kind)
            };
        }
        let depth = depth - 1;
        match kind {
            Kind::Number => match self.rng.u32(0..5) {
                0 => {
                    let of = self.pick(&[Kind::Text, Kind::List]);
                    json!({"$len": self.value(of, depth)})
                }
                _ => {
                    let operator = self.pick(&["$add", "$sub", "$mul"]);
                    json!({operator: [self.value(Kind::Number, depth), self.value(Kind::Number, depth)]})
                }
            },
            Kind::Boolean => self.boolean(depth),
            Kind::Text => self.joined(Kind::Text, depth),
            Kind::List => match self.rng.u32(0..3) {
                0 => {
                    let kind = self.kind();
                    json!([self.value(kind, depth), self.value(Kind::Number, depth)])
                }
                _ => self.joined(Kind::List, depth),
            },
            Kind::Object => match self.rng.u32(0..4) {
                0 => json!({"$lit": [{"$": "a", "$add": 1}, {"k": {"$lit": 1}}]}),
                1 => {
                    json!({"$get": [self.value(Kind::List, depth), self.rng.u32(0..3)]})
                }
                2 => {
                    json!({"$get": [self.value(Kind::Object, depth), self.pick(&["k", "0", "no"])]})
                }
                _ => {
                    json!({"k": self.value(Kind::Number, depth), "0": self.value(Kind::List, depth)})
                }
            },
        }
    }

    fn boolean(&mut self, depth: usize) -> Value {
        match self.rng.u32(0..5) {
            0 => json!({"$not": self.value(Kind::Boolean, depth)}),
            1 => {
                let kind = self.pick(&[Kind::Number, Kind::Text]);
                json!({"$lt": [self.value(kind, depth), self.value(kind, depth)]})
            }
            2 => {
                let kind = self.kind();
                json!({"$eq": [self.value(kind, depth), self.value(kind, depth)]})
            }
            _ => {
                let operator = self.pick(&["$and", "$or"]);
                let count = self.rng.usize(1..4);
                let operands: Vec<_> = (0..count)
                    .map(|_| self.value(Kind::Boolean, depth))
                    .collect();
                json!({operator: operands})
            }
        }
    }

    fn joined(&mut self, kind: Kind, depth: usize) -> Value {
        let count = self.rng.usize(1..4);
        let parts: Vec<_> = (0..count).map(|_| self.value(kind, depth)).collect();
        json!({"$concat": parts})
    }
}
