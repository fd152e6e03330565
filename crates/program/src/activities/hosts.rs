//! Where the activity `http` may go.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Hosts that may be called. Empty by default: none.
///
/// ```
/// use durable_program::HostAllowList;
///
/// let hosts: HostAllowList = "loopback, api.example.com, *.internal.example.com, 10.0.0.7:8443".parse()?;
/// assert!(HostAllowList::default().is_empty() && !hosts.is_empty());
/// # Ok::<(), durable_program::BadHost>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostAllowList {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    /// This machine, by any of its loopback addresses or as `localhost`.
    Loopback,
    Host {
        /// Lower case; `*.` before it: all below it.
        name: String,
        /// None: any.
        port: Option<u16>,
    },
}

/// An entry of a [`HostAllowList`] that is no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no host: write \"loopback\", a name, an address, \"*.example.com\", each with a port if only that is meant"
)]
pub struct BadHost(String);

impl HostAllowList {
    /// This machine only.
    #[must_use]
    pub fn loopback() -> Self {
        Self {
            entries: vec![Entry::Loopback],
        }
    }

    /// Whether nothing may be called.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a host may be called by the name that it has in a URL.
    pub(super) fn admits(&self, host: &str, port: u16) -> bool {
        let host = bare(host);
        let address = host.parse::<IpAddr>().ok();
        self.entries.iter().any(|entry| match entry {
            Entry::Loopback => match address {
                Some(address) => canonical(address).is_loopback(),
                None => is_localhost(&host),
            },
            Entry::Host { name, port: only } => {
                only.is_none_or(|only| only == port) && name_fits(name, &host)
            }
        })
    }

    /// Whether a name that may be called may lead to this address: a name's owner must not choose one that is special to us.
    pub(super) fn admits_address(&self, address: IpAddr) -> bool {
        let address = canonical(address);
        if address.is_loopback() {
            return self.entries.iter().any(|entry| match entry {
                Entry::Loopback => true,
                Entry::Host { name, .. } => is_localhost(name),
            });
        }
        let link_local = match address {
            IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        !(link_local || address.is_unspecified() || address.is_multicast())
    }
}

impl fmt::Display for HostAllowList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (index, entry) in self.entries.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            match entry {
                Entry::Loopback => write!(f, "{comma}loopback")?,
                Entry::Host { name, port: None } => write!(f, "{comma}{name}")?,
                Entry::Host {
                    name,
                    port: Some(port),
                } => write!(f, "{comma}{name}:{port}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for HostAllowList {
    type Err = BadHost;

    /// Entries between commas.
    fn from_str(text: &str) -> Result<Self, BadHost> {
        let entries = text.split(',').map(str::trim);
        let entries = entries.filter(|entry| !entry.is_empty() && *entry != "none");
        let entries = entries.map(entry).collect::<Result<_, _>>()?;
        Ok(Self { entries })
    }
}

fn entry(text: &str) -> Result<Entry, BadHost> {
    let bad = || BadHost(text.to_owned());
    if text == "loopback" {
        return Ok(Entry::Loopback);
    }
    if text.parse::<IpAddr>().is_ok() {
        let (name, port) = (bare(text), None);
        return Ok(Entry::Host { name, port });
    }
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => (name, Some(port.parse().map_err(|_| bad())?)),
        None => (text, None),
    };
    let name = bare(name);
    let address = name.parse::<IpAddr>().is_ok();
    let plain = name.strip_prefix("*.").unwrap_or(&name);
    let letters = plain
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || "-._".contains(letter));
    if !address && (plain.is_empty() || !letters) {
        return Err(bad());
    }
    Ok(Entry::Host { name, port })
}

/// Lower case, without the brackets of an IPv6 address and the dot at a name's end.
fn bare(host: &str) -> String {
    let host = host.strip_prefix('[').unwrap_or(host);
    let host = host.strip_suffix(']').unwrap_or(host);
    host.trim_end_matches('.').to_ascii_lowercase()
}

fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

fn name_fits(entry: &str, host: &str) -> bool {
    match entry.strip_prefix("*.") {
        Some(parent) => host
            .strip_suffix(parent)
            .is_some_and(|below| below.len() > 1 && below.ends_with('.')),
        None => entry == host,
    }
}

/// An IPv4 address within an IPv6 one is itself.
const fn canonical(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => IpAddr::V4(mapped),
            None => IpAddr::V6(address),
        },
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(text: &str) -> HostAllowList {
        text.parse().unwrap()
    }

    #[test]
    fn nothing_may_be_called_unless_it_is_listed() {
        assert!(!HostAllowList::default().admits("localhost", 80));
        let hosts = hosts("api.example.com, *.internal.example.com, 10.0.0.7:8443, [::2]:80");
        for (host, port, expected) in [
            ("api.example.com", 443, true),
            ("API.Example.com.", 80, true),
            ("evil-api.example.com", 443, false),
            ("api.example.com.evil.org", 443, false),
            ("a.b.internal.example.com", 443, true),
            ("internal.example.com", 443, false),
            ("xinternal.example.com", 443, false),
            ("10.0.0.7", 8443, true),
            ("10.0.0.7", 80, false),
            ("[::2]", 80, true),
            ("127.0.0.1", 80, false),
            ("localhost", 80, false),
        ] {
            assert_eq!(hosts.admits(host, port), expected, "{host}:{port}");
        }
    }

    #[test]
    fn loopback_is_this_machine_however_it_is_written() {
        let hosts = HostAllowList::loopback();
        for here in [
            "localhost",
            "127.0.0.1",
            "127.9.9.9",
            "[::1]",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(hosts.admits(here, 80), "{here}");
        }
        for elsewhere in [
            "0.0.0.0",
            "169.254.169.254",
            "localhost.evil.org",
            "192.168.0.1",
        ] {
            assert!(!hosts.admits(elsewhere, 80), "{elsewhere}");
        }
    }

    #[test]
    fn a_listed_name_does_not_lead_to_addresses_that_are_special_here() {
        let hosts = hosts("api.example.com");
        for refused in [
            "127.0.0.1",
            "::1",
            "169.254.169.254",
            "0.0.0.0",
            "::ffff:127.0.0.1",
            "fe80::1",
        ] {
            assert!(!hosts.admits_address(refused.parse().unwrap()), "{refused}");
        }
        assert!(hosts.admits_address("93.184.216.34".parse().unwrap()));
        assert!(hosts.admits_address("10.1.2.3".parse().unwrap()));
        assert!(HostAllowList::loopback().admits_address("127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn what_is_no_host_is_refused_and_lists_read_back() {
        for bad in ["http://x", "a b", "x:port", "*.", "x/y", "a:b:c"] {
            assert!(bad.parse::<HostAllowList>().is_err(), "{bad}");
        }
        let text = "loopback, *.example.com, api:80";
        assert_eq!(hosts(text).to_string(), text);
    }
}
