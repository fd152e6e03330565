//! Connections: what is checked and set before anything else.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::sql::meta as sql;
use crate::persistence::{StoreError, StoreResult};

/// The first release without the WAL bug that could lose pages (FAILURES 29).
const VERSION_MIN: i32 = 3_051_003;
/// Nobody else should have the file; a backup may, for a moment.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// More than this store has.
const STATEMENTS_MAX: usize = 256;

/// Refuses a SQLite that may lose data.
pub(super) fn check_version() -> StoreResult<()> {
    let found = rusqlite::version_number();
    if found < VERSION_MIN {
        return Err(StoreError::open(format!(
            "SQLite {} is too old: 3.51.3 or newer is needed, which the bundled one is",
            rusqlite::version()
        )));
    }
    Ok(())
}

/// The place of a database that can be opened for writing, with its folder resolved, so that two names of it take one lock.
pub(super) fn check_path(path: &Path) -> StoreResult<PathBuf> {
    let (folder, name) = split(path)?;
    let folder_shown = folder.display();
    let resolved = folder.canonicalize().map_err(|error| StoreError::Open {
        message: format!("the folder {folder_shown} cannot be entered; create it first"),
        source: Some(error.into()),
    })?;
    let file = resolved.join(name);
    let file = file.canonicalize().unwrap_or(file);
    if file.is_dir() {
        return Err(StoreError::open(format!(
            "{} is a folder; name a file in it",
            path.display()
        )));
    }
    refuse_read_only(&resolved, "folder")?;
    if file.exists() {
        refuse_read_only(&file, "file")?;
    }
    Ok(file)
}

fn split(path: &Path) -> StoreResult<(&Path, &std::ffi::OsStr)> {
    let Some(name) = path.file_name() else {
        return Err(StoreError::open(format!(
            "{:?} does not name a file",
            path.display().to_string()
        )));
    };
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Ok((folder, name))
}

/// Says so before SQLite fails at the first write.
fn refuse_read_only(path: &Path, what: &str) -> StoreResult<()> {
    let shown = path.display();
    let metadata = path.metadata().map_err(|error| StoreError::Open {
        message: format!("the {what} {shown} cannot be looked at"),
        source: Some(error.into()),
    })?;
    if metadata.permissions().readonly() {
        return Err(StoreError::open(format!(
            "the {what} {shown} is read-only; the store writes to it and beside it"
        )));
    }
    Ok(())
}

/// The connection that writes, on a file that is created if need be.
pub(super) fn open_writer(path: &Path) -> StoreResult<Connection> {
    let conn = Connection::open(path).map_err(|error| not_opened(path, error))?;
    set_up_writer(&conn).map_err(|error| not_opened(path, error))?;
    let mode: String = conn.query_row(sql::JOURNAL_MODE, [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(StoreError::open(format!(
            "{} is on a file system without shared memory, which SQLite's write-ahead log needs; \
             use a local disk",
            path.display()
        )));
    }
    Ok(conn)
}

/// A connection that only looks at a file that exists.
pub(super) fn open_to_look(path: &Path) -> StoreResult<Connection> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(|error| not_opened(path, error))?;
    set_up_reader(&conn)?;
    Ok(conn)
}

pub(super) fn set_up_writer(conn: &Connection) -> rusqlite::Result<()> {
    set_up(conn)?;
    conn.execute_batch(sql::OPEN_WRITER)
}

pub(super) fn set_up_reader(conn: &Connection) -> rusqlite::Result<()> {
    set_up(conn)?;
    conn.execute_batch(sql::OPEN_READER)
}

fn set_up(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    conn.busy_timeout(BUSY_TIMEOUT)
}

fn not_opened(path: &Path, error: rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode;
    let shown = path.display();
    let message = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => format!("{shown} is not a SQLite database"),
        Some(ErrorCode::ReadOnly) => format!("{shown} is read-only"),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            format!("{shown} is in use by another process")
        }
        _ => format!("{shown} cannot be opened"),
    };
    StoreError::Open {
        message,
        source: Some(error.into()),
    }
}
