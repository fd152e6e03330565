//! `persistence::checkup` on a real server.

use everruns_durable::persistence::checkup::{Finding, Verdict, checkup};

use crate::server::{connect, fresh_database, open};

fn of<'a>(findings: &'a [Finding], check: &str) -> &'a Finding {
    let found = findings.iter().find(|finding| finding.check == check);
    found.unwrap_or_else(|| panic!("{check} was not looked at: {findings:?}"))
}

#[tokio::test]
async fn a_look_tells_what_durability_rests_on() {
    let (_store, url) = open(1).await;
    let findings = checkup(&url).await.expect("it can be looked at");
    // The throw-away server does not flush, and that is what a look is for.
    assert_eq!(of(&findings, "fsync").verdict, Verdict::Bad, "{findings:?}");
    for fine in [
        "version",
        "autovacuum",
        "clock",
        "long_transactions",
        "bloat",
    ] {
        assert_eq!(of(&findings, fine).verdict, Verdict::Ok, "{findings:?}");
    }
    assert!(
        of(&findings, "connections")
            .text
            .contains("one server takes up to")
    );
}

#[tokio::test]
async fn a_look_changes_nothing() {
    let url = fresh_database().await;
    checkup(&url).await.expect("it can be looked at");
    let client = connect(&url).await;
    let schemas = client
        .query("SELECT 1 FROM pg_namespace WHERE nspname = 'durable'", &[])
        .await
        .expect("asked");
    assert!(schemas.is_empty());
}
