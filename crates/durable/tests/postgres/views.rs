//! The views show payloads as JSONB and never err.

use durable_core::{Payload, WorkflowEvent};
use everruns_durable::persistence::sql::rows::{Changes, EventRow};

use crate::intents::write;
use crate::samples::{
    bare_run, codec_payload, full_fact, full_run, full_task, id, letter, messages, odd_payload,
    outbox, signal, t,
};
use crate::server::{connect, open};

#[tokio::test]
async fn every_view_can_be_read_whatever_the_payloads_hold() {
    let (store, url) = open(1).await;
    let json = Payload::from_json_text(r#"{"a": [1, "x"]}"#).unwrap();
    let mut plain = full_run(id(2));
    plain.input = json;
    plain.memo = odd_payload();
    plain.result = codec_payload();
    let changes = Changes {
        now: t(0),
        insert_runs: vec![bare_run(id(1)).into(), plain.into()],
        insert_tasks: vec![full_task(id(2), 1)],
        insert_facts: vec![(id(2), full_fact(1))],
        put_signals: vec![signal(id(2), 1, 1)],
        put_letters: vec![letter(id(2), 1)],
        insert_messages: messages(id(2)),
        insert_outbox: vec![outbox(id(2), 1, t(0))],
        ..Changes::default()
    };
    write(&store, changes).await;
    let client = connect(&url).await;
    let views = client
        .query(
            "SELECT viewname::TEXT FROM pg_views WHERE schemaname = 'durable' ORDER BY 1",
            &[],
        )
        .await
        .unwrap();
    assert!(views.len() >= 16, "{}", views.len());
    for view in &views {
        let view: String = view.get(0);
        client
            .batch_execute(&format!("SELECT * FROM durable.{view}"))
            .await
            .unwrap();
    }
    let row = client
        .query_one(
            "SELECT input ->> 'a', result::TEXT, memo::TEXT LIKE '{\"$bytes\": \"%\"}'
             FROM durable.durable_workflow_instances_view WHERE id = $1",
            &[&id(2)],
        )
        .await
        .unwrap();
    assert_eq!(row.get::<_, &str>(0), r#"[1, "x"]"#);
    assert_eq!(row.get::<_, &str>(1), r#"{"$bytes": "AP8AgCdc"}"#);
    assert!(row.get::<_, bool>(2), "a NUL character is no JSONB");
    let empty = client
        .query_one(
            "SELECT input IS NULL AND error IS NULL FROM durable.durable_workflow_instances_view WHERE id = $1",
            &[&id(1)],
        )
        .await
        .unwrap();
    assert!(empty.get::<_, bool>(0));
}

#[tokio::test]
async fn bytes_of_any_kind_show_as_base64_when_they_are_no_json() {
    let (_store, url) = open(1).await;
    let client = connect(&url).await;
    for bytes in [
        &b""[..],
        b"\xff\xfe",
        b"{",
        b"1e999999",
        b"\"\\u0000\"",
        b"nul",
        b"\"\\ud800\"",
    ] {
        let row = client
            .query_one("SELECT durable.durable_json($1) ? '$bytes'", &[&bytes])
            .await
            .unwrap();
        assert!(row.get::<_, bool>(0), "{bytes:?}");
    }
    let long = vec![0_u8; 1000];
    let row = client
        .query_one("SELECT durable.durable_json($1) ->> '$bytes'", &[&long])
        .await
        .unwrap();
    assert!(
        !row.get::<_, &str>(0).contains('\n'),
        "one line, as everywhere else"
    );
}

#[tokio::test]
async fn events_show_what_is_stored_by_leaving_it_out() {
    let (store, url) = open(1).await;
    let started = |attempt| WorkflowEvent::ActivityStarted {
        activity_id: "a".to_owned(),
        attempt,
        worker_id: "w".to_owned(),
        started_at: None,
    };
    let scheduled = WorkflowEvent::ActivityScheduled {
        activity_id: "a".to_owned(),
        activity_type: "charge".to_owned(),
        input: Payload::ABSENT,
        options: Box::default(),
    };
    let fired = WorkflowEvent::TimerFired {
        timer_id: "t".to_owned(),
    };
    let events = [scheduled, started(1), started(2), fired];
    let rows = (1..).zip(&events).map(|(sequence_num, event)| EventRow {
        run_id: id(1),
        sequence_num,
        event: event.encode(),
    });
    let changes = Changes {
        now: t(0),
        insert_runs: vec![bare_run(id(1)).into()],
        insert_events: rows.collect(),
        ..Changes::default()
    };
    write(&store, changes).await;
    let shown = connect(&url)
        .await
        .query(
            "SELECT event_data ->> 'options', event_data ->> 'attempt', event_data ->> 'timer_id'
             FROM durable.durable_workflow_events_view ORDER BY sequence_num",
            &[],
        )
        .await
        .unwrap();
    let shown: Vec<[Option<String>; 3]> = shown
        .iter()
        .map(|row| [row.get(0), row.get(1), row.get(2)])
        .collect();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        shown,
        [
            [text("{}"), None, None],
            [None, text("1"), None],
            [None, text("2"), None],
            [None, None, text("t")],
        ]
    );
}
