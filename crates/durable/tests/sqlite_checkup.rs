//! `persistence::checkup` on a file.

#![cfg(feature = "sqlite")]

use everruns_durable::persistence::checkup::{Verdict, checkup};
use everruns_durable::prelude::*;

#[tokio::test]
async fn a_file_in_use_can_be_looked_at() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let engine = Engine::sqlite(&path).start().await.expect("starts");
    let url = format!("sqlite:{}", path.display());
    let findings = checkup(&url).await.expect("it can be looked at");
    let verdicts: Vec<_> = findings
        .iter()
        .map(|f| (f.check.as_str(), f.verdict))
        .collect();
    let fine = ["version", "journal_mode", "bloat", "integrity"].map(|check| (check, Verdict::Ok));
    assert_eq!(verdicts, fine, "{findings:?}");
    engine.shutdown().await.expect("stops");
}

#[tokio::test]
async fn a_file_that_is_not_there_is_not_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("none.db");
    let findings = checkup(&format!("sqlite:{}", path.display()))
        .await
        .expect("it can be looked at");
    assert!(
        findings
            .iter()
            .any(|f| f.check == "file" && f.verdict == Verdict::Warn)
    );
    assert!(!path.exists());
}
