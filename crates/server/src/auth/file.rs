//! The token file.
//!
//! ```toml
//! [[token]]
//! name = "ci"
//! role = "operator"
//! hash = "sha256:…"
//! workflow_types = ["billing.*"]
//! expires_at = "2027-01-01T00:00:00Z"
//! ```

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::TokenRecord;

/// A token file and what it holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenFile {
    /// The tokens.
    #[serde(default, rename = "token")]
    pub tokens: Vec<TokenRecord>,
}

/// Why a token file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// It could not be read or written.
    #[error("the token file {} cannot be used: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A new file would belong to another user, and the server could not read it.
    #[error(
        "the token file {} belongs to user {uid} and group {gid}, and a changed file cannot be given to them: {source}; nothing was changed",
        path.display()
    )]
    Owner {
        /// Which.
        path: PathBuf,
        /// The user it belongs to.
        uid: u32,
        /// The group it belongs to.
        gid: u32,
        /// Why.
        source: io::Error,
    },
    /// It is not what a token file is.
    #[error("the token file {} is wrong: {problem}", path.display())]
    Wrong {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

impl TokenFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Where it cannot be read, is no token file, or has a name or a hash twice.
    pub fn read(path: &Path) -> Result<Self, TokenFileError> {
        let text = fs::read_to_string(path).map_err(|source| TokenFileError::Io {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text).map_err(|problem| TokenFileError::Wrong {
            path: path.to_owned(),
            problem,
        })
    }

    /// Writes the file whole or not at all. A file that exists keeps its owner and its mode, so that
    /// the server that reads it can go on to; a new one is readable by its owner only.
    ///
    /// # Errors
    /// Where it cannot be written, or not for the owner of the file that exists. Nothing has
    /// changed then.
    pub fn write(&self, path: &Path) -> Result<(), TokenFileError> {
        let text = toml::to_string_pretty(self).map_err(|error| TokenFileError::Wrong {
            path: path.to_owned(),
            problem: error.to_string(),
        })?;
        let io = |source| TokenFileError::Io {
            path: path.to_owned(),
            source,
        };
        // The file behind a symbolic link is replaced, not the link.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let beside = target.with_extension(format!("new-{}", std::process::id()));
        let written = write_private(&beside, &text)
            .map_err(io)
            .and_then(|file| like(&target, &file))
            .and_then(|()| fs::rename(&beside, &target).map_err(io));
        if written.is_err() {
            // A half-written file holds hashes that are nobody's business.
            fs::remove_file(&beside).ok();
        }
        written
    }

    /// Reads the file, or begins with an empty one, changes it and writes it. Changes by several
    /// processes come one after the other, so that none of them is lost.
    ///
    /// # Errors
    /// Those of `change`, of reading and of writing. Nothing has changed then.
    pub fn change<T, E: From<TokenFileError>>(
        path: &Path,
        change: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        // By whichever name the file is called, the lock is the same.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let _lock = lock_folder_of(&target).map_err(|source| TokenFileError::Io {
            path: path.to_owned(),
            source,
        })?;
        let mut file = if path.exists() {
            Self::read(path)?
        } else {
            Self::default()
        };
        let answer = change(&mut file)?;
        file.write(path)?;
        Ok(answer)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut names = BTreeSet::new();
        for token in &file.tokens {
            if token.name.is_empty() {
                return Err("a token has no name".to_owned());
            }
            if !names.insert(&token.name) {
                return Err(format!("two tokens are called {:?}", token.name));
            }
        }
        Ok(file)
    }
}

/// A lock between processes that change token files of one folder, until it is dropped. On the
/// folder and not on a file of its own, which users other than its maker could not open.
fn lock_folder_of(path: &Path) -> io::Result<Option<File>> {
    if cfg!(not(unix)) {
        return Ok(None);
    }
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = File::open(folder.unwrap_or(Path::new(".")))?;
    folder.lock()?;
    Ok(Some(folder))
}

/// Gives a new file the owner and the mode of the one it replaces.
#[cfg(unix)]
fn like(path: &Path, file: &File) -> Result<(), TokenFileError> {
    use std::os::unix::fs::{MetadataExt as _, fchown};

    let io = |source| TokenFileError::Io {
        path: path.to_owned(),
        source,
    };
    let old = match fs::metadata(path) {
        Ok(old) => old,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io(error)),
    };
    let new = file.metadata().map_err(io)?;
    let (uid, gid) = (old.uid(), old.gid());
    if (new.uid(), new.gid()) != (uid, gid) {
        fchown(file, Some(uid), Some(gid)).map_err(|source| TokenFileError::Owner {
            path: path.to_owned(),
            uid,
            gid,
            source,
        })?;
    }
    file.set_permissions(old.permissions()).map_err(io)
}

#[cfg(not(unix))]
fn like(_: &Path, _: &File) -> Result<(), TokenFileError> {
    Ok(())
}

fn write_private(path: &Path, text: &str) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Names, Role};

    #[test]
    fn file_reads_what_it_writes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        let mut token = TokenRecord::new("ci", Role::Operator, "secret");
        token.workflow_types = Some(Names::new(["billing.*"]));
        token.expires_at = Some("2027-01-01T00:00:00Z".parse().unwrap());
        let file = TokenFile {
            tokens: vec![token, TokenRecord::new("w", Role::Worker, "other")],
        };
        file.write(&path).unwrap();
        assert_eq!(TokenFile::read(&path).unwrap(), file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("secret"), "{text}");
    }

    #[cfg(unix)]
    #[test]
    fn a_changed_file_keeps_its_owner_and_mode() {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        let link = folder.path().join("link.toml");
        let token = |name: &str| TokenRecord::new(name, Role::Reader, name);
        let add = |path: &Path, name: &str| {
            TokenFile::change(path, |file| {
                file.tokens.push(token(name));
                Ok::<_, TokenFileError>(())
            })
            .unwrap();
        };
        add(&path, "a");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        // Only root may give a file away; for any other user the owner stays what it is.
        let given = chown(&path, Some(12_345), Some(12_345)).is_ok();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        add(&link, "b");
        let found = fs::metadata(&path).unwrap();
        assert_eq!(found.mode() & 0o777, 0o640);
        assert_eq!((found.uid(), found.gid()) == (12_345, 12_345), given);
        assert_eq!(TokenFile::read(&path).unwrap().tokens.len(), 2);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 2, "nothing is left beside the file and the link");
    }

    #[test]
    fn changes_at_once_lose_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    for number in 0..10 {
                        let name = format!("{thread}-{number}");
                        TokenFile::change(path, |file| {
                            file.tokens
                                .push(TokenRecord::new(&*name, Role::Reader, &name));
                            Ok::<_, TokenFileError>(())
                        })
                        .unwrap();
                    }
                });
            }
        });
        assert_eq!(TokenFile::read(&path).unwrap().tokens.len(), 80);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, named) in [
            ("[[token]]\nname = \"a\"", "role"),
            ("tokens = 1", "tokens"),
            ("[[token]]\nname=\"a\"\nrole=\"king\"", "king"),
            (
                "[[token]]\nname=\"a\"\nrole=\"admin\"\nhash=\"plain\"",
                "sha256",
            ),
        ] {
            let problem = TokenFile::parse(text).expect_err("refused");
            assert!(problem.contains(named), "{problem}");
        }
        let one = format!(
            "[[token]]\nname=\"a\"\nrole=\"admin\"\nhash=\"{}\"\n",
            super::super::TokenHash::of("x")
        );
        let problem = TokenFile::parse(&format!("{one}{one}")).expect_err("refused");
        assert!(problem.contains("two tokens"), "{problem}");
    }
}
