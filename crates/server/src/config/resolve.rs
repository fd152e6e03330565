//! Which of its sources a setting takes its value from.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::file::File;
use super::kinds::Kind;
use super::{Config, ConfigError, Mode, Origin, SETTINGS, Setting, Value};

/// What `durable dev` takes from its flag only: what a shell exports for a real deployment is not meant for it.
const DEV_BY_FLAG_ONLY: &[&str] = &["db", "env"];

/// Where values are looked for: flags first, then the environment, then the file.
pub struct Sources<'a> {
    /// Which defaults hold in the end.
    pub mode: Mode,
    /// What was given as flags, by the setting's key.
    pub flags: BTreeMap<&'static str, String>,
    /// Reads a variable.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// The file that was named; none: `durable.toml`, where there is one.
    pub file: Option<PathBuf>,
}

impl Sources<'_> {
    /// Looks everything up.
    ///
    /// # Errors
    /// The first value that cannot be used, with its origin.
    pub fn resolve(&self) -> Result<Config, ConfigError> {
        let file = File::load(self.file.as_deref())?;
        let mut values = BTreeMap::new();
        for setting in SETTINGS {
            if let Some(found) = self.find(setting, &file)? {
                values.insert(setting.key, found);
            }
        }
        let config = Config::from_found(self.mode, &Found(values))?;
        config.check()?;
        Ok(config)
    }

    fn find(
        &self,
        setting: &Setting,
        file: &File,
    ) -> Result<Option<(String, Origin)>, ConfigError> {
        if let Some(text) = self.flags.get(setting.key) {
            return Ok(Some((
                text.clone(),
                Origin::Flag(format!("--{}", setting.flag())),
            )));
        }
        let flag_only = self.mode == Mode::Dev && DEV_BY_FLAG_ONLY.contains(&setting.key);
        if !flag_only {
            if let Some(found) = self.environment(setting)? {
                return Ok(Some(found));
            }
            if let Some(text) = file.values.get(setting.key) {
                return Ok(Some((text.clone(), Origin::File(file.path.clone()))));
            }
        }
        let default = setting.default_for(self.mode);
        Ok(default.map(|text| (text.to_owned(), Origin::Default)))
    }

    /// A variable, or for a secret the file that `NAME_FILE` names. An empty variable is one that is not set.
    fn environment(&self, setting: &Setting) -> Result<Option<(String, Origin)>, ConfigError> {
        let read = |name: &str| (self.env)(name).filter(|text| !text.is_empty());
        let direct = read(setting.env);
        let by_file = format!("{}_FILE", setting.env);
        let path = setting.by_file.then(|| read(&by_file)).flatten();
        match (direct, path) {
            (Some(_), Some(_)) => Err(ConfigError::Ambiguous {
                one: setting.env.to_owned(),
                other: by_file,
            }),
            (Some(text), None) => Ok(Some((text, Origin::Env(setting.env.to_owned())))),
            (None, Some(path)) => {
                let text = read_secret(Path::new(&path))?;
                Ok(Some((text, Origin::Env(by_file))))
            }
            (None, None) => Ok(None),
        }
    }
}

/// The content of a secret's file, without the line's end that editors leave.
fn read_secret(path: &Path) -> Result<String, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
        what: "the secret in",
        path: path.to_owned(),
        source,
    })?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// Texts and where they came from, by key.
pub(super) struct Found(BTreeMap<&'static str, (String, Origin)>);

impl Found {
    pub(super) fn read<T: Kind>(&self, key: &'static str) -> Result<Value<T>, ConfigError> {
        let origin = self
            .0
            .get(key)
            .map_or(Origin::Default, |(_, origin)| origin.clone());
        let value = match self.0.get(key) {
            Some((text, _)) => T::read(text),
            None => T::absent().ok_or_else(|| "it must be set".to_owned()),
        };
        match value {
            Ok(value) => Ok(Value { value, origin }),
            Err(problem) => Err(ConfigError::Value {
                key,
                origin,
                problem,
            }),
        }
    }
}

impl Config {
    fn check(&self) -> Result<(), ConfigError> {
        for (door, cert, key, ca) in [
            (
                "grpc",
                &self.grpc_tls_cert,
                &self.grpc_tls_key,
                &self.grpc_tls_ca,
            ),
            (
                "http",
                &self.http_tls_cert,
                &self.http_tls_key,
                &self.http_tls_ca,
            ),
        ] {
            if cert.is_some() != key.is_some() || (ca.is_some() && cert.is_none()) {
                return Err(ConfigError::Together(format!(
                    "{door}_tls_cert and {door}_tls_key go together, and {door}_tls_ca needs both; `durable config show` tells which are set"
                )));
            }
        }
        Ok(())
    }
}

/// The reference page's table of settings.
#[must_use]
pub fn reference() -> String {
    let mut page = String::new();
    for setting in SETTINGS {
        let secret = if setting.by_file {
            format!(", `{}_FILE`", setting.env)
        } else {
            String::new()
        };
        let default = match (setting.default, setting.dev) {
            (None, None) => "not set".to_owned(),
            (Some(default), None) => format!("`{default}`"),
            (Some(default), Some(dev)) => format!("`{default}`; in `durable dev` `{dev}`"),
            (None, Some(dev)) => format!("not set; in `durable dev` `{dev}`"),
        };
        let by_flag = if DEV_BY_FLAG_ONLY.contains(&setting.key) {
            " · `durable dev` takes it from the flag only"
        } else {
            ""
        };
        let help = setting
            .help
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "### `{}`\n\n{help}\n\nFlag `--{}` · variable `{}`{secret} · default {default}{by_flag}\n",
            setting.key,
            setting.flag(),
            setting.env,
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::super::Deployment;
    use super::*;

    struct Given {
        mode: Mode,
        flags: Vec<(&'static str, &'static str)>,
        env: Vec<(&'static str, String)>,
        file: Option<&'static str>,
    }

    fn server() -> Given {
        Given {
            mode: Mode::Server,
            flags: vec![],
            env: vec![],
            file: None,
        }
    }

    fn resolve(given: &Given) -> Result<Config, ConfigError> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("conf.toml");
        std::fs::write(&path, given.file.unwrap_or("")).expect("written");
        let sources = Sources {
            mode: given.mode,
            flags: given
                .flags
                .iter()
                .map(|(key, text)| (*key, (*text).to_owned()))
                .collect(),
            env: &|name| {
                let found = given.env.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| value.clone())
            },
            file: Some(path),
        };
        sources.resolve()
    }

    #[test]
    fn a_flag_wins_over_the_environment_over_the_file_over_the_default() {
        let port = |n: u16| SocketAddr::from(([127, 0, 0, 1], n));
        let mut given = server();
        let http = |given: &Given| {
            let http = resolve(given).expect("a configuration").http;
            (*http, http.origin.to_string())
        };
        assert_eq!(http(&given), (port(7400), "default".to_owned()));
        given.file = Some("http = \"127.0.0.1:1\"");
        let (address, origin) = http(&given);
        assert_eq!(address, port(1));
        assert!(origin.ends_with("conf.toml"), "{origin}");
        given.env = vec![("DURABLE_HTTP", "127.0.0.1:2".to_owned())];
        assert_eq!(
            http(&given),
            (port(2), "environment DURABLE_HTTP".to_owned())
        );
        given.flags = vec![("http", "127.0.0.1:3")];
        assert_eq!(http(&given), (port(3), "flag --http".to_owned()));
    }

    #[test]
    fn dev_takes_its_store_from_the_flag_only() {
        let mut given = Given {
            mode: Mode::Dev,
            env: vec![("DATABASE_URL", "postgres://real/one".to_owned())],
            file: Some("db = \"postgres://real/two\""),
            ..server()
        };
        let db = |given: &Given| {
            resolve(given)
                .expect("a configuration")
                .db
                .expose()
                .to_owned()
        };
        assert_eq!(db(&given), "sqlite:durable.db");
        given.flags = vec![("db", "memory:")];
        assert_eq!(db(&given), "memory:");
        given.mode = Mode::Server;
        given.flags.clear();
        assert_eq!(db(&given), "postgres://real/one");
    }

    #[test]
    fn dev_is_development_whatever_the_shell_exports() {
        let mut given = Given {
            mode: Mode::Dev,
            env: vec![("DURABLE_ENV", "production".to_owned())],
            ..server()
        };
        let env = |given: &Given| *resolve(given).expect("a configuration").env.get();
        assert_eq!(env(&given), Deployment::Development);
        given.flags = vec![("env", "production")];
        assert_eq!(env(&given), Deployment::Production);
        given.mode = Mode::Server;
        given.flags.clear();
        assert_eq!(env(&given), Deployment::Production);
    }

    #[test]
    fn a_secret_is_read_from_a_file_and_never_shown() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        std::fs::write(&path, "s3cret\n").expect("written");
        let path = path.display().to_string();
        let mut given = server();
        given.env = vec![("WORKER_GRPC_AUTH_TOKEN_FILE", path)];
        let config = resolve(&given).expect("a configuration");
        let secret = config.worker_token.as_ref().expect("set");
        assert_eq!(secret.expose(), "s3cret");
        assert!(!format!("{config:?}").contains("s3cret"));
        assert!(!format!("{:?}", config.rows()).contains("s3cret"));
        given
            .env
            .push(("WORKER_GRPC_AUTH_TOKEN", "other".to_owned()));
        let error = resolve(&given).expect_err("two of them");
        assert!(error.to_string().contains("both set"), "{error}");
    }

    #[test]
    fn what_cannot_be_used_is_named_with_its_origin() {
        let mut given = server();
        given.env = vec![("DURABLE_HTTP", "everywhere".to_owned())];
        let error = resolve(&given).expect_err("no address").to_string();
        assert!(
            error.contains("environment DURABLE_HTTP") && error.contains("IP:PORT"),
            "{error}"
        );
        given.env.clear();
        given.file = Some("htp = 1");
        let error = resolve(&given).expect_err("no setting").to_string();
        assert!(error.contains("`htp`") && error.contains("http"), "{error}");
        given.file = Some("http = ");
        assert!(matches!(resolve(&given), Err(ConfigError::Syntax { .. })));
        given.file = None;
        given.flags = vec![("grpc_tls_cert", "a.pem")];
        let error = resolve(&given).expect_err("half of it").to_string();
        assert!(error.contains("grpc_tls_key"), "{error}");
    }

    #[test]
    fn a_bad_store_url_does_not_give_its_password_away() {
        let mut given = server();
        given.env = vec![("DATABASE_URL", "mysql://u:s3cret@h/d".to_owned())];
        let error = resolve(&given).expect_err("no store").to_string();
        assert!(
            !error.contains("s3cret") && error.contains("postgres://"),
            "{error}"
        );
    }
}
