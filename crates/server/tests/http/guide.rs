//! The guide's requests are answered as the guide says.

use durable_server::auth::TokenFile;
use reqwest::Method;

use crate::world::World;

const GUIDE: &str = include_str!("../../../../docs/guide/http-api.md");

/// The blocks of a kind, without their fences.
fn blocks(kind: &str) -> Vec<&'static str> {
    let open = format!("```{kind}\n");
    GUIDE
        .split(open.as_str())
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect()
}

#[tokio::test]
async fn every_request_of_the_guide_is_answered_as_it_says() {
    let world = World::open().await;
    let blocks = blocks("http");
    assert!(blocks.len() >= 8, "{}", blocks.len());
    let mut id = String::new();
    for block in blocks {
        let (line, body) = block.split_once('\n').unwrap();
        let (request, expected) = line.split_once(" → ").unwrap();
        let (method, path) = request.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let mut request = world.request(method, &path.replace("{id}", &id));
        if !body.trim().is_empty() {
            request = request
                .header("Content-Type", "application/json")
                .body(body);
        }
        let answer = world.send(request).await;
        assert_eq!(answer.status.as_str(), expected, "{block}{answer:?}");
        if path == "/v1/durable/workflows" && expected == "201" {
            id = answer.json()["id"].as_str().unwrap().to_owned();
        }
        if path.contains("/result") {
            assert_eq!(answer.json()["result"], 42);
        }
    }
}

#[test]
fn token_file_of_the_guide_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    std::fs::write(&path, blocks("toml")[0]).unwrap();
    assert_eq!(TokenFile::read(&path).unwrap().tokens[0].name, "billing-ui");
}
