//! Checkpoints: figures kept under a name, one JSON object a line, to compare later runs with.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{Earlier, Line};
use crate::figures::Figures;

/// Figures that were kept.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    /// By when they were kept, oldest first.
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    name: String,
    saved_at: Timestamp,
    fields: Map<String, Value>,
}

impl Checkpoints {
    /// Reads all of a folder; one that does not exist holds none.
    pub(super) fn load(folder: &Path) -> anyhow::Result<Self> {
        let mut entries = Vec::new();
        let files = match std::fs::read_dir(folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            files => files.with_context(|| format!("the checkpoints in {}", folder.display()))?,
        };
        for file in files {
            let path = file?.path();
            if path.extension().is_some_and(|end| end == "jsonl") {
                let of_file = read(&path);
                entries.extend(of_file.with_context(|| format!("checkpoint {}", path.display()))?);
            }
        }
        entries.sort_by_key(|entry| entry.saved_at);
        Ok(Self { entries })
    }

    /// The headline of the same case when it was last kept.
    pub(super) fn last(&self, figures: &Figures, db: &str) -> Option<Earlier> {
        let same = |entry: &&Entry| {
            let fields = &entry.fields;
            let told = |name: &str, value: &str| fields.get(name).is_some_and(|v| v == value);
            told("job", figures.job)
                && told("db", db)
                && told("mode", figures.mode.as_str())
                && figures
                    .parameters
                    .iter()
                    .all(|(name, value)| fields.get(name) == Some(value))
        };
        let entry = self.entries.iter().rev().find(same)?;
        let value = entry.fields.get(figures.headline.name)?.as_f64()?;
        Some(Earlier {
            name: entry.name.clone(),
            value,
        })
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<Entry>> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let text = std::fs::read_to_string(path)?;
    let entries = text.lines().map(|line| {
        let fields: Map<String, Value> = serde_json::from_str(line)?;
        let saved_at = fields.get("saved_at").and_then(Value::as_str);
        Ok(Entry {
            name: name.clone().into_owned(),
            saved_at: saved_at.context("a line without saved_at")?.parse()?,
            fields,
        })
    });
    entries.collect()
}

/// Keeps what was measured; a checkpoint of that name is replaced.
pub(super) fn save(folder: &Path, name: &str, lines: &[Line], db: &str) -> anyhow::Result<PathBuf> {
    let saved_at = Timestamp::now().to_string();
    let mut text = String::new();
    for line in lines {
        if let Line::Measured { figures, .. } = line
            && let Value::Object(mut fields) = figures.json(db)
        {
            fields.insert("saved_at".to_owned(), json!(saved_at));
            text.push_str(&serde_json::to_string(&fields)?);
            text.push('\n');
        }
    }
    let path = folder.join(format!("{name}.jsonl"));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&path, text))
        .with_context(|| format!("the checkpoint {} could not be kept", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Mode;

    fn line(value: f64, runs: u32) -> Line {
        let figures =
            Figures::rate("J1", Mode::Embedded, "activities_per_s", value).with("runs", runs);
        Line::Measured {
            figures,
            earlier: None,
        }
    }

    #[test]
    fn the_last_one_of_the_same_case_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(
            Checkpoints::load(&folder.path().join("none"))
                .expect("empty")
                .entries
                .is_empty()
        );
        save(folder.path(), "zero", &[line(10.0, 100)], "memory").expect("kept");
        save(
            folder.path(),
            "more",
            &[line(20.0, 100), line(30.0, 200)],
            "memory",
        )
        .expect("kept");
        let kept = Checkpoints::load(folder.path()).expect("read");
        let Line::Measured { figures, .. } = line(1.0, 100) else {
            panic!("measured")
        };
        let earlier = kept.last(&figures, "memory").expect("the same case");
        assert_eq!(earlier.name, "more");
        assert!((earlier.value - 20.0).abs() < f64::EPSILON);
        assert!(kept.last(&figures, "sqlite").is_none(), "another store");
        let other = figures.with("runs", 300);
        assert!(kept.last(&other, "memory").is_none(), "another size");
    }

    #[test]
    fn a_broken_checkpoint_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("bad.jsonl"), "{}\n").expect("written");
        let error = Checkpoints::load(folder.path()).expect_err("no date");
        assert!(format!("{error:#}").contains("bad.jsonl"), "{error:#}");
    }
}
