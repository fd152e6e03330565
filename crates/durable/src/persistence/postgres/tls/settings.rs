//! What is asked for: `sslmode`, `sslrootcert`, `sslcert`, `sslkey`, in the URL, else in the environment, else by libpq's own files.

use std::path::{Path, PathBuf};

use tokio_postgres::config::SslMode;

use crate::persistence::StoreError;

/// How much TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Mode {
    /// None.
    Disable,
    /// If the server has it; its certificate is not looked at.
    Prefer,
    /// Or no connection; the certificate is not looked at.
    Require,
    /// The certificate is of an authority that is trusted.
    VerifyCa,
    /// And it is the host's.
    VerifyFull,
}

/// Which authorities are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Roots {
    /// Those of the system.
    System,
    /// Those in a file (PEM).
    File(PathBuf),
}

/// The client's own certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Identity {
    pub(super) cert: PathBuf,
    pub(super) key: PathBuf,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Settings {
    pub(super) mode: Mode,
    /// There if and only if certificates are verified.
    pub(super) roots: Option<Roots>,
    pub(super) identity: Option<Identity>,
}

impl Settings {
    /// No TLS.
    pub(in super::super) const NONE: Self = Self {
        mode: Mode::Disable,
        roots: None,
        identity: None,
    };

    /// What the driver has to do; whom it trusts is the connector's.
    pub(in super::super) const fn driver_mode(&self) -> SslMode {
        match self.mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        }
    }
}

/// What the URL says.
#[derive(Debug, Default)]
pub(in super::super) struct Given {
    values: [Option<String>; 4],
}

/// Parameters of the URL, and the variables that stand in for them.
const NAMES: [(&str, &str); 4] = [
    ("sslmode", "PGSSLMODE"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
];

impl Given {
    /// Takes a parameter of the URL; false: it is not one of these.
    pub(in super::super) fn take(&mut self, name: &str, value: String) -> bool {
        let index = NAMES.iter().position(|(known, _)| *known == name);
        index.is_some_and(|index| {
            self.values[index] = Some(value);
            true
        })
    }

    /// Adds what the environment says. `env` reads a variable.
    ///
    /// # Errors
    /// [`StoreError::Open`] for what cannot be meant.
    pub(in super::super) fn resolve(
        self,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Settings, StoreError> {
        let mut values = self.values;
        for (value, (_, variable)) in values.iter_mut().zip(NAMES) {
            let asked = value.take().or_else(|| env(variable));
            *value = asked.filter(|text| !text.is_empty());
        }
        let [mode, roots, cert, key] = values;
        let home = env("HOME").map(|home| Path::new(&home).join(".postgresql"));
        let own = |file: &str| home.as_ref().map(|home| home.join(file));
        let there = |file: &str| own(file).filter(|path| path.exists());
        let system = roots.as_deref() == Some("system");
        let mode = match mode {
            Some(mode) => read_mode(&mode)?,
            None if system => Mode::VerifyFull,
            None => Mode::Prefer,
        };
        if system && mode != Mode::VerifyFull {
            return Err(StoreError::open(
                "sslrootcert=system goes with sslmode=verify-full only: anybody can have a certificate of an authority that the system trusts",
            ));
        }
        let roots = match roots {
            Some(_) if system => Some(Roots::System),
            Some(file) => Some(Roots::File(file.into())),
            None => there("root.crt").map(Roots::File),
        };
        // As libpq has it: who names an authority wants it to be asked.
        let mode = if mode == Mode::Require && roots.is_some() {
            Mode::VerifyCa
        } else {
            mode
        };
        if mode >= Mode::VerifyCa && roots.is_none() {
            return Err(StoreError::open(
                "sslmode=verify-ca and sslmode=verify-full need an authority to trust: give sslrootcert=FILE (PEM), sslrootcert=system, or put it into ~/.postgresql/root.crt",
            ));
        }
        Ok(Settings {
            roots: roots.filter(|_| mode >= Mode::VerifyCa),
            identity: identity(
                cert.map(PathBuf::from).or_else(|| there("postgresql.crt")),
                key.map(PathBuf::from).or_else(|| there("postgresql.key")),
            )?,
            mode,
        })
    }
}

fn read_mode(text: &str) -> Result<Mode, StoreError> {
    match text {
        "disable" => Ok(Mode::Disable),
        "prefer" => Ok(Mode::Prefer),
        "require" => Ok(Mode::Require),
        "verify-ca" => Ok(Mode::VerifyCa),
        "verify-full" => Ok(Mode::VerifyFull),
        "allow" => Err(StoreError::open(
            "sslmode=allow is not supported: it encrypts only where the server refuses anything else; use prefer",
        )),
        _ => Err(StoreError::open(
            "sslmode is one of disable, prefer, require, verify-ca and verify-full",
        )),
    }
}

/// A key without a certificate is nothing; libpq leaves it alone too.
fn identity(cert: Option<PathBuf>, key: Option<PathBuf>) -> Result<Option<Identity>, StoreError> {
    match (cert, key) {
        (None, _) => Ok(None),
        (Some(cert), Some(key)) => Ok(Some(Identity { cert, key })),
        (Some(cert), None) => Err(StoreError::open(format!(
            "the certificate {} has no key: give sslkey=FILE (PEM), or put it into ~/.postgresql/postgresql.key",
            cert.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(url: &[(&str, &str)], env: &[(&str, &str)]) -> Result<Settings, StoreError> {
        let mut given = Given::default();
        for (name, value) in url {
            assert!(given.take(name, (*value).to_owned()), "{name}");
        }
        given.resolve(|name| {
            let found = env.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn mode(url: &[(&str, &str)], env: &[(&str, &str)]) -> Mode {
        resolve(url, env).unwrap().mode
    }

    #[test]
    fn the_url_wins_over_the_environment_over_the_default() {
        assert_eq!(mode(&[], &[]), Mode::Prefer);
        assert_eq!(mode(&[], &[("PGSSLMODE", "require")]), Mode::Require);
        assert_eq!(
            mode(&[("sslmode", "disable")], &[("PGSSLMODE", "require")]),
            Mode::Disable
        );
        let url = [("sslmode", "verify-full"), ("sslrootcert", "/a.pem")];
        let env = [
            ("PGSSLROOTCERT", "/b.pem"),
            ("PGSSLCERT", "/c"),
            ("PGSSLKEY", "/k"),
        ];
        let settings = resolve(&url, &env).unwrap();
        assert_eq!(settings.roots, Some(Roots::File("/a.pem".into())));
        let identity = settings.identity.unwrap();
        assert_eq!(
            (identity.cert, identity.key),
            (PathBuf::from("/c"), PathBuf::from("/k"))
        );
    }

    #[test]
    fn an_authority_that_is_named_is_asked() {
        let named = [("sslmode", "require"), ("sslrootcert", "/a.pem")];
        assert_eq!(mode(&named, &[]), Mode::VerifyCa);
        let system = [("sslrootcert", "system")];
        assert_eq!(mode(&system, &[]), Mode::VerifyFull);
        let prefer = [("sslmode", "prefer"), ("sslrootcert", "/a.pem")];
        assert_eq!(resolve(&prefer, &[]).unwrap().roots, None);
    }

    #[test]
    fn the_files_of_libpq_stand_in() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".postgresql");
        std::fs::create_dir(&folder).unwrap();
        let env = [("HOME", home.path().to_str().unwrap())];
        let full = [("sslmode", "verify-full")];
        assert!(resolve(&full, &env).is_err());
        for file in ["root.crt", "postgresql.crt", "postgresql.key"] {
            std::fs::write(folder.join(file), "").unwrap();
        }
        let settings = resolve(&full, &env).unwrap();
        assert_eq!(settings.roots, Some(Roots::File(folder.join("root.crt"))));
        let identity = settings.identity.unwrap();
        assert_eq!(identity.key, folder.join("postgresql.key"));
        assert_eq!(mode(&[("sslmode", "require")], &env), Mode::VerifyCa);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_a_way_out() {
        for (url, word) in [
            (&[("sslmode", "verify-ca")][..], "sslrootcert=FILE"),
            (&[("sslmode", "verify-full")], "sslrootcert=FILE"),
            (&[("sslmode", "allow")], "prefer"),
            (&[("sslmode", "on")], "verify-full"),
            (
                &[("sslmode", "require"), ("sslrootcert", "system")],
                "verify-full",
            ),
            (&[("sslcert", "/c.pem")], "sslkey=FILE"),
        ] {
            let error = resolve(url, &[]).unwrap_err();
            assert!(matches!(error, StoreError::Open { .. }), "{error}");
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
