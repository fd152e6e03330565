//! A codec of your own: payloads too large for the database go into files, and only their names are stored.
//!
//! ```sh
//! cargo run --example payload_codec
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::io::Write as _;
use std::path::{Path, PathBuf};

use everruns_durable::codec::{CodecError, PayloadCodec, envelope};
use everruns_durable::persistence::limits::PAYLOAD_BYTES_MAX;
use everruns_durable::prelude::*;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Name of what it makes, in the stored form.
const NAME: &str = "file";
/// Smaller payloads stay in the database.
const LARGE_BYTES: usize = 64 * 1024;

/// Puts large payloads into files of a folder. In earnest this would be an object store that all processes reach.
struct Offload {
    folder: PathBuf,
}

impl Offload {
    /// Under its name only when it is complete: a reader never finds half a file.
    fn write(&self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        let mut draft = tempfile::NamedTempFile::new_in(&self.folder)?;
        draft.write_all(bytes)?;
        draft.persist(path)?;
        Ok(())
    }
}

#[async_trait]
impl PayloadCodec for Offload {
    fn name(&self) -> String {
        NAME.to_owned()
    }

    async fn encode(&self, payload: Payload) -> Result<Payload, CodecError> {
        if payload.len() < LARGE_BYTES {
            return Ok(payload);
        }
        // Named after its content: stored twice it is one file, and what is read back can be checked.
        let name = digest(payload.as_bytes());
        let path = self.folder.join(&name);
        if !path.exists() {
            self.write(&path, payload.as_bytes())
                .map_err(|error| CodecError::unavailable("a file cannot be written", error))?;
            println!(
                "  {} bytes are offloaded to file {}…",
                payload.len(),
                &name[..8]
            );
        }
        envelope::seal(NAME, name.as_bytes())
    }

    async fn decode(&self, payload: Payload) -> Result<Payload, CodecError> {
        let Some(name) = envelope::open(NAME, &payload) else {
            return Ok(payload);
        };
        let name = String::from_utf8_lossy(name);
        // The name comes from the database: nothing but a digest is a file of ours.
        if name.len() != 64 || !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(CodecError::Damaged("its file has no name".to_owned()));
        }
        let bytes = std::fs::read(self.folder.join(&*name))
            .map_err(|error| CodecError::unavailable("a file cannot be read", error))?;
        if digest(&bytes) != name {
            return Err(CodecError::Damaged("its file was changed".to_owned()));
        }
        Ok(Payload::from_stored(bytes))
    }
}

fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Has a report written, and counts its pages.
struct Report {
    pages: usize,
    text: Option<String>,
}

impl Workflow for Report {
    const TYPE: &'static str = "report";
    type Input = usize;
    type Output = String;

    fn new(pages: usize) -> Self {
        Self { pages, text: None }
    }

    fn on_start(&mut self) -> Vec<WorkflowAction> {
        let pages = Payload::from_value(&self.pages).expect("a number is JSON");
        vec![WorkflowAction::schedule_activity("write", "write", pages)]
    }

    fn on_activity_completed(&mut self, _id: &str, result: Value) -> Vec<WorkflowAction> {
        self.text = result.as_str().map(str::to_owned);
        vec![]
    }

    fn on_activity_failed(&mut self, _id: &str, error: &ActivityError) -> Vec<WorkflowAction> {
        let error = error.clone().into_failure().into();
        vec![WorkflowAction::FailWorkflow { error }]
    }

    fn on_timer_fired(&mut self, _id: &str) -> Vec<WorkflowAction> {
        vec![]
    }

    fn on_signal(&mut self, _signal: &WorkflowSignal) -> Vec<WorkflowAction> {
        vec![]
    }

    fn is_completed(&self) -> bool {
        self.text.is_some()
    }

    fn result(&self) -> Option<Result<String, WorkflowError>> {
        self.text.clone().map(Ok)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "memory:".to_owned());
    let engine = Engine::open(url)
        .codec(Offload {
            folder: folder.path().to_owned(),
        })
        .workflow::<Report>()
        .activity_fn("write", |_ctx, pages: usize| async move {
            Ok("All work and no play. ".repeat(100 * pages))
        })
        .start()
        .await?;

    println!("a report of one page stays in the database:");
    let short = engine.run::<Report>(1).await?;
    println!("its text has {} bytes", short.len());

    println!("a report of 3000 pages is larger than a payload may be ({PAYLOAD_BYTES_MAX} bytes):");
    let long = engine.run::<Report>(3_000).await?;
    println!("its text has {} bytes", long.len());

    let files = std::fs::read_dir(folder.path())?.count();
    println!("the activity's result and the run's are the same, so they share {files} file");
    engine.shutdown().await?;
    Ok(())
}
