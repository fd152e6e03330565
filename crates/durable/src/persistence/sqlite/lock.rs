//! One process at a time: an operating system's lock on a file beside the database.
//!
//! The lock ends with the process, however it ends; a file with a process id in it would not.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use crate::persistence::{StoreError, StoreResult};

/// The right to open a database; given back when it is dropped.
#[derive(Debug)]
pub(super) struct ProcessLock {
    /// Holds the lock. The file stays when it ends: deleting it would let two processes lock two files.
    _file: File,
}

impl ProcessLock {
    pub(super) fn take(database: &Path) -> StoreResult<Self> {
        let path = lock_path(database);
        let mut options = OpenOptions::new();
        let file = options
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|error| StoreError::Open {
                message: format!(
                    "the lock file {} cannot be written; SQLite needs a folder it may write to",
                    path.display()
                ),
                source: Some(error.into()),
            })?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(StoreError::open(format!(
                "{} is in use by another process; stop it, or use PostgreSQL to share a database",
                database.display()
            ))),
            Err(TryLockError::Error(error)) => Err(StoreError::Open {
                message: format!("{} cannot be locked", path.display()),
                source: Some(error.into()),
            }),
        }
    }
}

fn lock_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}
