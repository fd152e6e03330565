//! The files that the rules read.

use std::{fs, path::Path};

use anyhow::Context as _;

/// Text files by their path from the workspace's root, with forward slashes.
pub(super) struct Sources {
    files: Vec<(String, String)>,
}

impl Sources {
    /// Reads every `.rs` and `.sql` file below `crates/`.
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        read_folder(root, &root.join("crates"), &mut files)?;
        files.sort();
        Ok(Self { files })
    }

    /// Files that a test makes up.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|&(path, text)| (path.to_owned(), text.to_owned()))
            .collect();
        Self { files }
    }

    /// The Rust files whose path starts so.
    pub(super) fn rust_below<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.ending(".rs")
            .filter(move |(path, _)| path.starts_with(prefix))
    }

    /// The files whose name ends so.
    pub(super) fn ending<'a>(&'a self, end: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files
            .iter()
            .filter(move |(path, _)| path.ends_with(end))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }
}

fn read_folder(
    root: &Path,
    folder: &Path,
    files: &mut Vec<(String, String)>,
) -> anyhow::Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry
            .with_context(|| format!("cannot list {}", folder.display()))?
            .path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "target") {
                read_folder(root, &path, files)?;
            }
        } else if path
            .extension()
            .is_some_and(|ending| ending == "rs" || ending == "sql")
        {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let below = path.strip_prefix(root).unwrap_or(&path);
            files.push((below.to_string_lossy().into_owned(), text));
        }
    }
    Ok(())
}
