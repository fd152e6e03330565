//! What is told: bars while it runs, lines or a table, checkpoints, a page.

mod checkpoint;
mod page;
mod progress;
mod table;

use anyhow::Context as _;
use serde_json::{Value, json};

pub(crate) use progress::Bar;

use crate::database::Kind;
use crate::figures::Figures;
use crate::options::Options;
use checkpoint::Checkpoints;

/// What became of one case.
pub(crate) enum Line {
    /// It was measured; with the headline of the last checkpoint, if there is one.
    Measured {
        /// What it came to.
        figures: Figures,
        /// The same earlier.
        earlier: Option<Earlier>,
    },
    /// It failed.
    Failed {
        /// Which job.
        job: &'static str,
        /// Why.
        why: String,
    },
    /// This store cannot have it.
    Skipped {
        /// Which job.
        job: &'static str,
        /// Why.
        why: String,
    },
}

/// A headline figure of a checkpoint.
#[derive(Debug, Clone)]
pub(crate) struct Earlier {
    /// The checkpoint's name.
    pub(crate) name: String,
    /// The headline then.
    pub(crate) value: f64,
}

/// Collects what the jobs came to.
pub(crate) struct Output {
    json: bool,
    kind: Kind,
    lines: Vec<Line>,
    checkpoints: Checkpoints,
}

impl Output {
    /// Reads the checkpoints there are, so that a broken one is found before hours of measuring.
    pub(crate) fn new(options: &Options, kind: Kind) -> anyhow::Result<Self> {
        Ok(Self {
            json: options.json,
            kind,
            lines: Vec::new(),
            checkpoints: Checkpoints::load(&options.checkpoints)?,
        })
    }

    /// A case was measured.
    pub(crate) fn measured(&mut self, figures: &Figures) -> anyhow::Result<()> {
        let object = figures.json(self.kind.as_str());
        let earlier = self.checkpoints.last(figures, self.kind.as_str());
        let mut shown = object;
        if let (Some(earlier), Value::Object(fields)) = (&earlier, &mut shown) {
            let against = json!({"name": earlier.name, "value": earlier.value});
            fields.insert("checkpoint".to_owned(), against);
        }
        let figures = figures.clone();
        self.tell(&shown, Line::Measured { figures, earlier })
    }

    /// A job failed.
    pub(crate) fn failed(
        &mut self,
        job: &'static str,
        error: &anyhow::Error,
    ) -> anyhow::Result<()> {
        let why = format!("{error:#}");
        let object = json!({"job": job, "db": self.kind.as_str(), "error": why});
        self.tell(&object, Line::Failed { job, why })
    }

    /// A case that this store cannot have.
    pub(crate) fn skipped(&mut self, job: &'static str, why: &str) -> anyhow::Result<()> {
        let object = json!({"job": job, "db": self.kind.as_str(), "skipped": why});
        let why = why.to_owned();
        self.tell(&object, Line::Skipped { job, why })
    }

    fn tell(&mut self, object: &Value, line: Line) -> anyhow::Result<()> {
        if self.json {
            println!("{}", serde_json::to_string(object)?);
        }
        self.lines.push(line);
        Ok(())
    }

    /// The table, the checkpoint and the page.
    pub(crate) fn finish(self, options: &Options) -> anyhow::Result<()> {
        if !self.json {
            println!("{}", table::render(&self.lines));
        }
        let db = self.kind.as_str();
        if let Some(name) = &options.save {
            let path = checkpoint::save(&options.checkpoints, name, &self.lines, db)?;
            eprintln!("kept as {}", path.display());
        }
        if let Some(path) = &options.report {
            let page = page::render(&self.lines, db);
            let written = std::fs::write(path, page);
            written
                .with_context(|| format!("the report {} could not be written", path.display()))?;
            eprintln!("charts in {}", path.display());
        }
        Ok(())
    }
}
