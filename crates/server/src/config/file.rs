//! The configuration file: TOML, one key for each setting.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{ConfigError, SETTINGS};

/// Read where no other file is named and it exists.
const IMPLICIT: &str = "durable.toml";

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct File {
    /// The file.
    pub(super) path: PathBuf,
    /// Values by key, as text.
    pub(super) values: BTreeMap<String, String>,
}

impl File {
    /// Reads the file that is named, or `durable.toml` of the working folder where there is one.
    pub(super) fn load(named: Option<&Path>) -> Result<Self, ConfigError> {
        let path = named.unwrap_or(Path::new(IMPLICIT)).to_owned();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(source) => {
                let what = "the configuration file";
                return Err(ConfigError::Unreadable { what, path, source });
            }
        };
        Self::parse(path, &text)
    }

    fn parse(path: PathBuf, text: &str) -> Result<Self, ConfigError> {
        let table: toml::Table = match toml::from_str(text) {
            Ok(table) => table,
            Err(source) => return Err(ConfigError::Syntax { path, source }),
        };
        let mut values = BTreeMap::new();
        for (key, value) in table {
            if !SETTINGS.iter().any(|setting| setting.key == key) {
                let known = SETTINGS.iter().map(|setting| setting.key);
                let known = known.collect::<Vec<_>>().join(", ");
                return Err(ConfigError::UnknownKey { path, key, known });
            }
            // Whatever is no text is read from its text: 7400 is "7400", ["a", "b"] is "a,b".
            let text = match value {
                toml::Value::String(text) => text,
                toml::Value::Array(items) => {
                    let items = items.iter().map(|item| {
                        item.as_str()
                            .map_or_else(|| item.to_string(), str::to_owned)
                    });
                    items.collect::<Vec<_>>().join(",")
                }
                other => other.to_string(),
            };
            values.insert(key, text);
        }
        Ok(Self { path, values })
    }
}
