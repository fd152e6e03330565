//! Texts that are JSON, almost JSON, or meant to hurt whoever thinks they are.

/// So many hostile texts, the same for the same seed.
#[must_use]
pub fn hostile_texts(seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut random = Random(seed);
    (0..count).map(|_| random.hostile_text()).collect()
}

/// SplitMix64: small, seeded, good enough to choose texts.
struct Random(u64);

const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "-0.0",
    "1",
    "0.1",
    "1e400",
    "-1E+400",
    "1e-400",
    "5e-324",
    "1.7976931348623157e308",
    "9007199254740991",
    "9007199254740993",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "123456789012345678901234567890.123456789012345678901234567890",
    "1E5",
    "1.0",
    "1.10",
];

const NOT_QUITE_NUMBERS: &[&str] = &[
    "01", "+1", ".5", "1.", "--1", "1e", "0x10", "NaN", "Infinity", "1_000", "١",
];

const PIECES: &[&str] = &[
    "a",
    "key",
    "é",
    "e\u{301}",
    "😀",
    "\u{2028}",
    "\u{feff}",
    "\u{7f}",
    "\u{10ffff}",
    "'",
    "--",
    "; DROP TABLE x",
    "$1",
    "%s",
    "{{",
    "</script>",
    r"\u0000",
    r"\u001f",
    r"\u00e9",
    r"\ud83d\ude00",
    r"\uD83D\uDE00",
    r"\/",
    r"\\",
    r#"\""#,
    r"\b\f\n\r\t",
    r"\\u0000",
    r"\\ud800",
    " ",
];

const NOT_QUITE_PIECES: &[&str] = &[
    r"\ud800",
    r"\udc00",
    r"\ud800\u0041",
    r"\ud83d",
    r"\x41",
    r"\U0041",
    r"\u12",
    r"\'",
    "\t",
    "\n",
    "\0",
    "\u{1f}",
    "\"",
];

const SPACES: &[&str] = &["", "", "", "", " ", "\t", "\n", "\r\n", "  "];

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("a usize fits");
        usize::try_from(self.next() % bound).expect("below a usize")
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn hostile_text(&mut self) -> Vec<u8> {
        let mut text = String::new();
        match self.below(20) {
            0 => self.deep(&mut text),
            1 => self.long(&mut text),
            _ => self.value(&mut text, 4),
        }
        let mut bytes = text.into_bytes();
        if self.one_in(4) {
            self.mutate(&mut bytes);
        }
        bytes
    }

    fn space(&mut self, out: &mut String) {
        out.push_str(self.pick(SPACES));
    }

    fn value(&mut self, out: &mut String, depth: usize) {
        self.space(out);
        match self.below(if depth == 0 { 5 } else { 9 }) {
            0 => out.push_str(self.pick(&["null", "true", "false"])),
            1 | 2 => self.number(out),
            3 | 4 => self.string(out),
            5 | 6 => self.array(out, depth - 1),
            _ => self.object(out, depth - 1),
        }
        self.space(out);
    }

    fn number(&mut self, out: &mut String) {
        let odd = self.one_in(40);
        out.push_str(self.pick(if odd { NOT_QUITE_NUMBERS } else { NUMBERS }));
    }

    fn string(&mut self, out: &mut String) {
        out.push('"');
        for _ in 0..self.below(6) {
            let odd = self.one_in(60);
            out.push_str(self.pick(if odd { NOT_QUITE_PIECES } else { PIECES }));
        }
        out.push('"');
    }

    fn array(&mut self, out: &mut String, depth: usize) {
        out.push('[');
        for i in 0..self.below(4) {
            if i > 0 {
                out.push(',');
            }
            self.value(out, depth);
        }
        self.space(out);
        out.push(']');
    }

    /// Few different keys, so that many are there twice.
    fn object(&mut self, out: &mut String, depth: usize) {
        out.push('{');
        for i in 0..self.below(5) {
            if i > 0 {
                out.push(',');
            }
            self.space(out);
            let key = self.pick(&[
                "\"a\"",
                "\"b\"",
                "\"\"",
                "\"$ref\"",
                r#""\u0061""#,
                r#""\u0000""#,
            ]);
            out.push_str(key);
            self.space(out);
            out.push(':');
            self.value(out, depth);
        }
        self.space(out);
        out.push('}');
    }

    /// Around the deepest nesting that is allowed, and sometimes far below it.
    fn deep(&mut self, out: &mut String) {
        let depth = match self.below(10) {
            0 => 5_000,
            _ => 90 + self.below(20),
        };
        let object = self.one_in(2);
        let (open, close) = if object { ("{\"a\":", "}") } else { ("[", "]") };
        out.push_str(&open.repeat(depth));
        out.push('1');
        out.push_str(&close.repeat(depth));
    }

    fn long(&mut self, out: &mut String) {
        let piece = self.pick(PIECES);
        let times = 100 + self.below(2_000);
        out.push('"');
        out.push_str(&piece.repeat(times));
        out.push('"');
    }

    /// A byte changed, added, doubled or lost; also bytes that are no UTF-8.
    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len().max(1));
        let byte = [0, 0xff, 0xc0, b'"', b',', b'}', b'\\', b' '][self.below(8)];
        match self.below(4) {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            2 => bytes.truncate(at),
            _ => drop(bytes.remove(at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_texts_and_another_seed_others() {
        assert_eq!(hostile_texts(1, 50), hostile_texts(1, 50));
        assert_ne!(hostile_texts(1, 50), hostile_texts(2, 50));
    }
}
