//! What happened, in lines to read.

use parking_lot::Mutex;

/// The lines of one seed; keeps none unless it is asked to.
#[derive(Default)]
pub(super) struct Trace {
    on: bool,
    lines: Mutex<Vec<String>>,
}

impl Trace {
    pub(super) fn new(on: bool) -> Self {
        Self {
            on,
            lines: Mutex::default(),
        }
    }

    pub(super) const fn is_on(&self) -> bool {
        self.on
    }

    pub(super) fn add(&self, line: String) {
        self.lines.lock().push(line);
    }

    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock())
    }
}

/// Longest text of one argument or answer.
const SHOWN_MAX: usize = 240;

/// A debug text made short: ids by their last four digits, and cut.
pub(super) fn short(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(SHOWN_MAX));
    let mut rest = text;
    while let Some(at) = rest.find('-') {
        let start = at.wrapping_sub(8);
        let id = rest
            .get(start..start.saturating_add(36))
            .filter(|id| is_uuid(id));
        if at >= 8
            && let Some(id) = id
        {
            out.push_str(&rest[..start]);
            out.push_str(&id[32..]);
            rest = &rest[start + 36..];
        } else {
            out.push_str(&rest[..=at]);
            rest = &rest[at + 1..];
        }
    }
    out.push_str(rest);
    if out.chars().count() > SHOWN_MAX {
        out = out.chars().take(SHOWN_MAX).collect();
        out.push('…');
    }
    out
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn ids_are_shown_by_their_last_digits() {
        let text = "run 0195b6a0-0000-7000-8000-00000000beef is a-b";
        assert_eq!(short(text), "run beef is a-b");
    }
}
