//! The types of settings: how each is read, and how it is shown.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use durable_program::HostAllowList;
use everruns_durable::persistence::StoreUrl;

use super::Period;
use crate::auth::{self, TokenRecord};

/// A type that a setting can have.
pub(super) trait Kind: Sized {
    /// Stands for the value in usage texts.
    const PLACEHOLDER: &'static str;
    /// On or off.
    const SWITCH: bool = false;
    /// A secret that the variable with `_FILE` can name a file for.
    const BY_FILE: bool = false;

    /// Reads a value; the error says what would do.
    fn read(text: &str) -> Result<Self, String>;
    /// How it may be shown; none where it is not set.
    fn show(&self) -> Option<String>;
    /// The value where nobody gave one.
    fn absent() -> Option<Self> {
        None
    }
}

impl<T: Kind> Kind for Option<T> {
    const PLACEHOLDER: &'static str = T::PLACEHOLDER;
    const SWITCH: bool = T::SWITCH;
    const BY_FILE: bool = T::BY_FILE;

    fn read(text: &str) -> Result<Self, String> {
        if matches!(text, "" | "none") {
            return Ok(None);
        }
        T::read(text).map(Some)
    }
    fn show(&self) -> Option<String> {
        self.as_ref().and_then(Kind::show)
    }
    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl Kind for bool {
    const PLACEHOLDER: &'static str = "true|false";
    const SWITCH: bool = true;

    fn read(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok(true),
            "false" | "0" | "no" | "off" => Ok(false),
            _ => Err(format!("{text:?} is neither true nor false")),
        }
    }
    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Kind for SocketAddr {
    const PLACEHOLDER: &'static str = "ADDRESS";

    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| {
            format!("{text:?} is no address; write IP:PORT, such as 127.0.0.1:7400 or [::]:7400; port 0 takes a free one")
        })
    }
    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Kind for PathBuf {
    const PLACEHOLDER: &'static str = "FILE";

    fn read(text: &str) -> Result<Self, String> {
        Ok(text.into())
    }
    fn show(&self) -> Option<String> {
        Some(self.display().to_string())
    }
}

impl Kind for String {
    const PLACEHOLDER: &'static str = "TEXT";

    fn read(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
    fn show(&self) -> Option<String> {
        Some(self.clone())
    }
}

impl Kind for u32 {
    const PLACEHOLDER: &'static str = "N";

    fn read(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("{text:?} is no whole number above 0")),
        }
    }
    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Kind for Period {
    const PLACEHOLDER: &'static str = "TIME";

    fn read(text: &str) -> Result<Self, String> {
        text.parse()
    }
    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// Where the store is. Shown without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    /// The URL, password included.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl FromStr for DatabaseUrl {
    type Err = String;

    /// A path, as it is typed, is a SQLite file's.
    fn from_str(text: &str) -> Result<Self, String> {
        let url = if text.is_empty() || text.contains(':') {
            text.to_owned()
        } else {
            format!("sqlite:{text}")
        };
        StoreUrl::parse(&url).map_err(|error| error.to_string())?;
        Ok(Self(url))
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let masked = self.0.split_once("://").and_then(|(scheme, rest)| {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            // The last @ of the authority: a password may hold one.
            let (userinfo, host) = rest[..end].rsplit_once('@')?;
            let (user, _) = userinfo.split_once(':')?;
            Some(format!(
                "{scheme}://{user}:***@{host}{}",
                without_passwords(&rest[end..])
            ))
        });
        f.write_str(&masked.unwrap_or_else(|| without_passwords(&self.0)))
    }
}

/// The driver also takes the password as a parameter.
fn without_passwords(text: &str) -> String {
    let Some((path, parameters)) = text.split_once('?') else {
        return text.to_owned();
    };
    let shown = parameters
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some(("password", _)) => "password=***",
            _ => pair,
        });
    format!("{path}?{}", shown.collect::<Vec<_>>().join("&"))
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

impl Kind for DatabaseUrl {
    const PLACEHOLDER: &'static str = "URL";
    const BY_FILE: bool = true;

    fn read(text: &str) -> Result<Self, String> {
        text.parse()
    }
    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// Something that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The secret itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl Kind for Secret {
    const PLACEHOLDER: &'static str = "SECRET";
    const BY_FILE: bool = true;

    fn read(text: &str) -> Result<Self, String> {
        Ok(Self(text.to_owned()))
    }
    fn show(&self) -> Option<String> {
        Some("***".to_owned())
    }
}

/// Tokens, each `NAME:ROLE:TOKEN`, separated by commas. Shown by their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens(pub Vec<TokenRecord>);

impl Kind for Tokens {
    const PLACEHOLDER: &'static str = "NAME:ROLE:TOKEN,…";

    fn read(text: &str) -> Result<Self, String> {
        auth::parse_tokens(text).map(Self)
    }
    fn show(&self) -> Option<String> {
        let shown = self
            .0
            .iter()
            .map(|token| format!("{}:{}:***", token.name, token.role));
        Some(shown.collect::<Vec<_>>().join(","))
    }
}

/// Where the server runs; `production` is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deployment {
    /// On somebody's desk.
    Development,
    /// For real: no door opens without a token, not even to this machine.
    Production,
}

impl Kind for Deployment {
    const PLACEHOLDER: &'static str = "development|production";

    fn read(text: &str) -> Result<Self, String> {
        match text {
            "development" => Ok(Self::Development),
            "production" => Ok(Self::Production),
            _ => Err(format!("{text:?} is neither development nor production")),
        }
    }
    fn show(&self) -> Option<String> {
        let name = match self {
            Self::Development => "development",
            Self::Production => "production",
        };
        Some(name.to_owned())
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(format!("{text:?} is neither text nor json")),
        }
    }
}

impl Kind for LogFormat {
    const PLACEHOLDER: &'static str = "text|json";

    fn read(text: &str) -> Result<Self, String> {
        text.parse()
    }
    fn show(&self) -> Option<String> {
        let name = match self {
            Self::Text => "text",
            Self::Json => "json",
        };
        Some(name.to_owned())
    }
}

impl Kind for HostAllowList {
    const PLACEHOLDER: &'static str = "HOST,…";

    fn read(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|error: durable_program::BadHost| error.to_string())
    }
    fn show(&self) -> Option<String> {
        (!self.is_empty()).then(|| self.to_string())
    }
    fn absent() -> Option<Self> {
        Some(Self::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_sqlite_file() {
        let url = |text: &str| {
            text.parse::<DatabaseUrl>()
                .map(|url| url.expose().to_owned())
        };
        assert_eq!(url("data/a.db").as_deref(), Ok("sqlite:data/a.db"));
        assert!(url("").is_err());
        assert!(url("redis://somewhere").is_err());
    }

    #[test]
    fn a_database_url_is_shown_without_its_password() {
        for (url, shown) in [
            (
                "postgres://u:se@cret@h:5432/d?x=1",
                "postgres://u:***@h:5432/d?x=1",
            ),
            (
                "postgres://u@h/d?password=secret&x=1",
                "postgres://u@h/d?password=***&x=1",
            ),
            ("postgres://h/d", "postgres://h/d"),
            ("sqlite:a.db", "sqlite:a.db"),
        ] {
            let parsed: DatabaseUrl = url.parse().expect(url);
            assert_eq!(parsed.to_string(), shown);
            assert!(!format!("{parsed:?}").contains("cret"), "{parsed:?}");
            assert_eq!(parsed.expose(), url);
        }
    }
}
