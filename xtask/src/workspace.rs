//! Where the workspace and its target folder are, and what its manifests say.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;
use serde_json::Value;

use crate::process;

/// The workspace as `cargo metadata --no-deps` describes it.
pub struct Workspace {
    root: PathBuf,
    target: PathBuf,
    metadata: Value,
}

impl Workspace {
    /// Asks cargo about the workspace that xtask was built in.
    ///
    /// # Errors
    /// When cargo cannot be run or a manifest is malformed.
    pub fn find() -> anyhow::Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let mut command = Command::new(cargo());
        command
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .arg("--manifest-path")
            .arg(manifest);
        let metadata: Value = serde_json::from_str(&process::output(&mut command)?)
            .context("cargo metadata is not JSON")?;
        let path = |key: &str| {
            metadata[key]
                .as_str()
                .map(PathBuf::from)
                .with_context(|| format!("cargo metadata has no {key}"))
        };
        Ok(Self {
            root: path("workspace_root")?,
            target: path("target_directory")?,
            metadata,
        })
    }

    /// The folder of the root manifest.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder that cargo builds into.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// The answer of `cargo metadata --no-deps`.
    pub fn metadata(&self) -> &Value {
        &self.metadata
    }

    /// A cargo command that runs in the workspace's root.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new(cargo());
        command.current_dir(&self.root);
        command
    }
}

/// The cargo that started us, so that a `+toolchain` holds for what we start.
fn cargo() -> String {
    env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}
