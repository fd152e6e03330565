//! The activity `http` against a real listener.

use std::sync::{Arc, Mutex};

use durable_program::{BuiltIns, HostAllowList, ProgramWorkflow, register};
use everruns_durable::prelude::*;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Answers requests one after the other with the given answers, and keeps what it was asked.
struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn answering(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.expect("a call");
                let mut request = Vec::new();
                while !is_whole(&request) {
                    let mut piece = [0; 4096];
                    let read = stream.read(&mut piece).await.expect("readable");
                    request.extend_from_slice(&piece[..read]);
                }
                let text = String::from_utf8(request).expect("text");
                kept.lock().expect("kept").push(text);
                stream.write_all(answer.as_bytes()).await.expect("told");
            }
        });
        Self { port, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("kept").clone()
    }
}

/// Headers, and as much of a body as they promise.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length = length.and_then(|length| length.trim().parse().ok());
    body.len() >= length.unwrap_or(0)
}

fn answer(status: &str, more: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\n{more}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    request.lines().find_map(|line| {
        let (found, value) = line.split_once(": ")?;
        found.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// Runs one call; the answer, or the type of the error.
async fn call(hosts: HostAllowList, input: Value) -> Result<Value, String> {
    let built_ins = BuiltIns { http_hosts: hosts };
    let engine = register(Engine::in_memory(), built_ins);
    let engine = engine.start().await.expect("starts");
    let program = json!({"steps": [
        {"do": "activity", "type": "http", "input": input, "save": "answer", "options": {"max_attempts": 3, "initial_interval_ms": 1}},
        {"do": "return", "value": {"$": "answer"}}
    ]});
    let ended = engine
        .run::<ProgramWorkflow>(crate::world::payload(&program))
        .await;
    engine.shutdown().await.expect("stops");
    let ended = ended.map(|result| serde_json::from_str(result.get()).expect("JSON"));
    ended.map_err(|error| error.failure().expect("a failure").error_type.clone())
}

#[tokio::test]
async fn a_call_is_tried_again_under_the_same_idempotency_key() {
    let json_type = "Content-Type: application/json\r\n";
    let server = Server::answering(vec![
        answer("503 Service Unavailable", "", "later"),
        answer("200 OK", json_type, "{\"ok\":true}"),
    ])
    .await;
    let url = format!("http://127.0.0.1:{}/pay?x=1", server.port);
    let input =
        json!({"method": "post", "url": url, "headers": {"X-Tag": "t"}, "body": {"cents": 5}});
    let answered = call(HostAllowList::loopback(), input)
        .await
        .expect("answered");
    assert_eq!(answered["status"], json!(200));
    assert_eq!(answered["body"], json!({"ok": true}));
    assert_eq!(
        answered["headers"]["content-type"],
        json!("application/json")
    );
    let asked = server.asked();
    assert!(
        asked[0].starts_with("POST /pay?x=1 HTTP/1.1"),
        "{}",
        asked[0]
    );
    assert!(asked[0].ends_with("{\"cents\":5}"), "{}", asked[0]);
    assert_eq!(header(&asked[0], "x-tag"), Some("t"));
    let keys: Vec<Option<&str>> = asked
        .iter()
        .map(|request| header(request, "idempotency-key"))
        .collect();
    assert!(keys[0].is_some());
    assert_eq!(keys[0], keys[1]);
}

#[tokio::test]
async fn an_answer_is_an_answer_and_redirects_are_not_followed() {
    let elsewhere = "Location: http://169.254.169.254/\r\n";
    let server = Server::answering(vec![
        answer("404 Not Found", "", "none"),
        answer("302 Found", elsewhere, ""),
    ])
    .await;
    let url = format!("http://localhost:{}/", server.port);
    let input = json!({"method": "GET", "url": url});
    let hosts = HostAllowList::loopback();
    let missing = call(hosts.clone(), input.clone()).await.expect("answered");
    assert_eq!(
        (&missing["status"], &missing["body"]),
        (&json!(404), &json!("none"))
    );
    let moved = call(hosts, input).await.expect("answered");
    assert_eq!(moved["status"], json!(302));
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn what_is_not_on_the_list_is_not_called() {
    for (hosts, url) in [
        ("none", "http://127.0.0.1:1/"),
        ("loopback", "http://192.0.2.1/"),
        ("loopback", "http://localhost.example.com/"),
        ("api.example.com", "http://127.0.0.1:1/"),
    ] {
        let hosts = hosts.parse().expect("hosts");
        let refused = call(hosts, json!({"method": "GET", "url": url})).await;
        assert_eq!(refused, Err("HostNotAllowed".to_owned()), "{url}");
    }
    for input in [
        json!({"method": "GET", "url": "ftp://127.0.0.1/"}),
        json!({"method": "GET", "url": "nowhere"}),
        json!({"method": "G T", "url": "http://127.0.0.1:1/"}),
        json!({"method": "GET", "url": "http://127.0.0.1:1/", "headers": {"a b": "c"}}),
        json!({"method": "GET", "url": "http://127.0.0.1:1/", "headers": {"HOST": "internal"}}),
        json!({"method": "POST", "url": "http://127.0.0.1:1/", "headers": {"content-Length": "1"}}),
        json!({"method": "POST", "url": "http://127.0.0.1:1/", "headers": {"Transfer-Encoding": "chunked"}}),
        json!({"method": "GET", "url": "http://127.0.0.1:1/", "retries": 1}),
        json!({"url": "http://127.0.0.1:1/"}),
    ] {
        let refused = call(HostAllowList::loopback(), input.clone()).await;
        assert_eq!(refused, Err("InvalidInput".to_owned()), "{input}");
    }
    let closed = json!({"method": "GET", "url": "http://127.0.0.1:1/"});
    let failed = call(HostAllowList::loopback(), closed).await;
    assert_eq!(failed, Err("HttpError".to_owned()));
}
