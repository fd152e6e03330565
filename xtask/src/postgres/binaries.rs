//! Where the server programs are.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::process;

/// The oldest PostgreSQL that the product supports.
const MAJOR_MIN: u32 = 14;
/// Debian keeps every version's programs in a folder of its own, outside PATH.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The programs a private server needs.
pub(super) struct Binaries {
    /// The folder with `postgres` and `initdb`.
    pub(super) bin: PathBuf,
    /// What `postgres --version` prints.
    pub(super) version: String,
    /// The pooler.
    pub(super) pgbouncer: PathBuf,
}

/// What is there, and what is not.
pub(super) struct Found {
    /// The folder with PostgreSQL's server programs, and their version.
    pub(super) postgres: Option<(PathBuf, String)>,
    /// The pooler.
    pub(super) pgbouncer: Option<PathBuf>,
}

impl Found {
    /// Looks in PATH, in Debian's folders, and in sbin, which is not in a normal user's PATH.
    pub(super) fn look() -> Self {
        let path: Vec<PathBuf> =
            env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
        let sbin = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
        Self {
            postgres: server(path.iter().cloned().chain(debian_folders())),
            pgbouncer: path
                .iter()
                .chain(&sbin)
                .map(|folder| folder.join("pgbouncer"))
                .find(|program| program.is_file()),
        }
    }

    /// All of it, or None when something is missing.
    pub(super) fn complete(self) -> Option<Binaries> {
        let (bin, version) = self.postgres?;
        Some(Binaries {
            bin,
            version,
            pgbouncer: self.pgbouncer?,
        })
    }
}

/// The first folder that holds a server we support.
fn server(folders: impl Iterator<Item = PathBuf>) -> Option<(PathBuf, String)> {
    folders
        .filter_map(|folder| behind_links(&folder))
        .filter(|folder| folder.join("postgres").is_file() && folder.join("initdb").is_file())
        .find_map(|folder| {
            let mut command = Command::new(folder.join("postgres"));
            let version = process::output(command.arg("--version")).ok()?;
            (major(&version)? >= MAJOR_MIN).then(|| (folder, version.trim().to_owned()))
        })
}

/// A server finds its libraries relative to its real place, not to a link in PATH.
fn behind_links(folder: &Path) -> Option<PathBuf> {
    let program = folder.join("postgres").canonicalize().ok()?;
    program.parent().map(Path::to_path_buf)
}

/// Debian's folders, newest version first.
fn debian_folders() -> Vec<PathBuf> {
    let versions = fs::read_dir(DEBIAN)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    newest_first(versions)
        .into_iter()
        .map(|version| Path::new(DEBIAN).join(version.to_string()).join("bin"))
        .collect()
}

fn newest_first(names: impl Iterator<Item = String>) -> Vec<u32> {
    let mut versions: Vec<u32> = names.filter_map(|name| name.parse().ok()).collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions
}

/// The 15 of `postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)`; also of `18beta1`.
fn major(version: &str) -> Option<u32> {
    let number = version.split_once("(PostgreSQL) ")?.1;
    let digits = number.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn major_is_read_from_releases_and_betas() {
        assert_eq!(
            major("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)"),
            Some(15)
        );
        assert_eq!(major("postgres (PostgreSQL) 18beta1"), Some(18));
        assert_eq!(major("something else"), None);
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let names = ["9", "15", "common", "14"].map(String::from);
        assert_eq!(newest_first(names.into_iter()), [15, 14, 9]);
    }

    #[test]
    fn a_folder_without_a_server_is_not_taken() {
        assert!(server([PathBuf::from("/nowhere"), PathBuf::from("/usr")].into_iter()).is_none());
    }
}
