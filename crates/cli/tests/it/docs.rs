//! The curl lines of the README and the guide work as they stand, apart from the port.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::durable::{Server, texts};

/// Where the pages say that HTTP listens.
const ADDRESS: &str = "http://127.0.0.1:7400";

/// The shell blocks of a page that call curl.
fn blocks(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(page);
    let text = std::fs::read_to_string(&path).expect("a page");
    // Every other part stands between fences.
    let fenced = text.split("```").skip(1).step_by(2);
    let scripts = fenced.filter_map(|block| {
        let (language, script) = block.split_once('\n')?;
        matches!(language, "sh" | "bash").then_some(script)
    });
    let scripts = scripts.filter(|script| script.contains("curl "));
    scripts.map(str::to_owned).collect()
}

/// Runs a block; a request that is refused fails it. Answers the documents that it printed.
fn run(folder: &Path, script: &str, id: &str) -> Vec<Value> {
    let script = format!("curl() {{ command curl --fail-with-body \"$@\"; echo; }}\n{script}");
    let output = Command::new("sh")
        .args(["-euc", &script])
        .env("ID", id)
        .env("no_proxy", "127.0.0.1")
        .current_dir(folder)
        .output()
        .expect("a shell");
    let (stdout, stderr) = texts(&output);
    assert!(output.status.success(), "{script}\n{stdout}{stderr}");
    let documents = serde_json::Deserializer::from_str(&stdout).into_iter();
    let documents: Result<Vec<Value>, _> = documents.collect();
    documents.unwrap_or_else(|error| panic!("{script}\n{error}: {stdout}"))
}

#[test]
fn the_curl_lines_of_the_pages_work() {
    for page in ["README.md", "docs/guide/server.md"] {
        let folder = tempfile::tempdir().expect("a folder");
        let server = Server::dev(folder.path(), &["--db", "memory:"]);
        let blocks = blocks(page);
        assert!(!blocks.is_empty(), "{page} calls curl nowhere");
        let (mut id, mut ended) = (String::new(), false);
        for block in blocks {
            assert!(block.contains(ADDRESS), "{page}: {block}");
            for document in run(folder.path(), &block.replace(ADDRESS, &server.http), &id) {
                if let Some(named) = document["id"].as_str() {
                    named.clone_into(&mut id);
                }
                ended |= document["status"] == "completed";
            }
        }
        assert!(!id.is_empty(), "{page} starts no run");
        if page.ends_with("server.md") {
            assert!(ended, "{page} ends no run");
        }
    }
}
