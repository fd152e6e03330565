//! The folder of one private server: created, locked while its owner lives, removed afterwards.
//!
//! An instance belongs to the process that holds its lock. The kernel releases the lock when that process dies, however
//! it dies, so a locked folder is in use and an unlocked one is left over; no process id has to be believed.

use std::{
    env,
    fs::{self, File},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process,
};

use anyhow::{Context as _, bail};

use super::{
    account::{self, Account},
    stale,
};

const LOCK: &str = "owner.lock";

/// The files of one private server; removed when dropped.
pub(super) struct Instance {
    path: PathBuf,
    kept: bool,
    /// Held, never read: see the module's comment.
    _lock: File,
}

impl Instance {
    /// Makes a folder below the target folder, or below the system's temporary one if the servers' account cannot use
    /// that, and removes what dead runs left there.
    pub(super) fn create(target: &Path, account: &Account) -> anyhow::Result<Self> {
        let preferred = target.join("postgres");
        match Self::create_in(&preferred, account) {
            Ok(instance) if account.can_use(&instance.path) => Ok(instance),
            unusable => {
                let fallback = env::temp_dir().join(format!("durable-pg-{}", account::own_uid()?));
                let why = unusable.err().map_or_else(
                    || format!("{} cannot use it", account.name()),
                    |error| format!("{error:#}"),
                );
                println!(
                    "postgres: not in {} ({why}); using {}",
                    preferred.display(),
                    fallback.display()
                );
                let instance = Self::create_in(&fallback, account)?;
                if !account.can_use(&instance.path) {
                    bail!("{} cannot use {}", account.name(), fallback.display());
                }
                Ok(instance)
            }
        }
    }

    fn create_in(home: &Path, account: &Account) -> anyhow::Result<Self> {
        fs::create_dir_all(home).with_context(|| format!("cannot create {}", home.display()))?;
        refuse_foreign(home)?;
        // One at a time: a neighbour must not sweep a folder between its creation and its lock.
        let _turn = lock(&home.join("lock"))?;
        sweep(home);
        let path = (0..)
            .map(|n| home.join(format!("{}-{n}", process::id())))
            .find(|path| !path.exists())
            .expect("the numbers do not end");
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let instance = Self {
            kept: false,
            _lock: lock(&path.join(LOCK))?,
            path,
        };
        account.own(&instance.path)?;
        Ok(instance)
    }

    /// The folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the folder there, unlocked, for the next sweep.
    pub(super) fn keep(mut self) -> PathBuf {
        self.kept = true;
        self.path.clone()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            eprintln!("postgres: cannot remove {}: {error}", self.path.display());
        }
    }
}

/// In a world-writable folder somebody else may have made a folder of our name first.
fn refuse_foreign(home: &Path) -> anyhow::Result<()> {
    let metadata =
        fs::symlink_metadata(home).with_context(|| format!("cannot look at {}", home.display()))?;
    let mine = account::own_uid()?;
    if metadata.is_dir() && (metadata.uid() == mine || mine == 0 && !in_temp(home)) {
        return Ok(());
    }
    bail!("{} belongs to another user", home.display())
}

fn in_temp(home: &Path) -> bool {
    home.starts_with(env::temp_dir())
}

fn lock(path: &Path) -> anyhow::Result<File> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    file.lock()
        .with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

/// Ends and removes the instances whose owner is gone.
fn sweep(home: &Path) {
    let folders = fs::read_dir(home).into_iter().flatten().flatten();
    for path in folders
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
    {
        let in_use = File::open(path.join(LOCK)).is_ok_and(|file| file.try_lock().is_err());
        if in_use {
            continue;
        }
        println!(
            "postgres: removing what an earlier run left in {}",
            path.display()
        );
        stale::stop_servers(&path);
        if let Err(error) = fs::remove_dir_all(&path) {
            eprintln!("postgres: cannot remove {}: {error}", path.display());
        }
    }
}
