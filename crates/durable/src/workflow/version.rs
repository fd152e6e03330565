//! Which of two versions is the newer one.

use std::cmp::Ordering;

/// The order of semantic versions: numbers are compared as numbers (1.10.0 is newer than 1.9.0), a pre-release is older than its
/// release, build metadata counts for nothing. What is no semantic version is compared part by part in the same manner.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    // No version at all is older than any.
    if a.is_empty() || b.is_empty() {
        return a.len().cmp(&b.len());
    }
    let (core_a, pre_a) = split(a);
    let (core_b, pre_b) = split(b);
    parts(core_a, core_b).then_with(|| match (pre_a, pre_b) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(a), Some(b)) => parts(a, b),
    })
}

fn split(version: &str) -> (&str, Option<&str>) {
    let version = version.strip_prefix('v').unwrap_or(version);
    let version = version.split_once('+').map_or(version, |(it, _)| it);
    match version.split_once('-') {
        Some((core, pre)) => (core, Some(pre)),
        None => (version, None),
    }
}

fn parts(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (Some(_), None) => Ordering::Greater,
            (None, Some(_)) => Ordering::Less,
            (Some(a), Some(b)) => part(a, b),
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// Numbers come before words.
fn part(a: &str, b: &str) -> Ordering {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_semantic_versions() {
        let ascending = [
            "",
            "1",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-rc.2",
            "1.0.0-rc.11",
            "1.0.0",
            "1.2.0",
            "1.9.0",
            "1.10.0",
            "v2.0.0",
            "10.0.0",
        ];
        for (n, older) in ascending.iter().enumerate() {
            for newer in &ascending[n + 1..] {
                assert_eq!(compare(older, newer), Ordering::Less, "{older} {newer}");
                assert_eq!(compare(newer, older), Ordering::Greater, "{newer} {older}");
            }
        }
        assert_eq!(compare("1.0.0+1", "1.0.0+2"), Ordering::Equal);
    }
}
