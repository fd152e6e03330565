//! The ready file: tells whoever started the process that it listens, and where.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Where the doors are.
#[derive(Debug, Clone, Serialize)]
pub struct Endpoints {
    /// Of HTTP.
    pub http: String,
    /// Of gRPC.
    pub grpc: String,
    /// This process.
    pub pid: u32,
}

/// A ready file; removed when it is dropped.
#[derive(Debug)]
pub(crate) struct ReadyFile(PathBuf);

impl ReadyFile {
    /// What a process before this one left behind must not be taken for ours.
    pub(crate) fn clear(path: &Path) -> io::Result<()> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes it beside and moves it in: who sees it sees all of it.
    pub(crate) fn write(path: &Path, endpoints: &Endpoints) -> io::Result<Self> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".new-{}", std::process::id()));
        let text = serde_json::to_string(endpoints)?;
        std::fs::write(&beside, text + "\n")?;
        std::fs::rename(&beside, path)?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for ReadyFile {
    fn drop(&mut self) {
        // Nobody is left who could be told; the next start clears it.
        let _ = std::fs::remove_file(&self.0);
    }
}
