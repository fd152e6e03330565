//! `durable dev`: everything on, nothing to set up.

use clap::Args;
use durable_program::PROGRAM_TYPE;
use durable_server::config::Mode;
use durable_server::serve::Server;
use everruns_durable::Client;
use everruns_durable::core::Payload;
use serde_json::{Value, json};

use crate::exit::{Exit, Failure, Result};
use crate::output::announce;
use crate::settings::SettingFlags;
use crate::{logging, signals};

/// The demo's own id: where a run has it, this is not the first start.
const DEMO_ID: &str = "durable-dev-demo";

/// How to run it.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    settings: SettingFlags,
}

/// Serves until Ctrl-C.
pub(crate) async fn run(options: Options) -> Result<()> {
    let config = options.settings.resolve(Mode::Dev)?;
    logging::start(&config)?;
    let stop = signals::stop();
    let server = Server::start(&config).await?;
    let endpoints = server.endpoints();
    announce(&format!(
        "durable {} on {}",
        env!("CARGO_PKG_VERSION"),
        *config.db
    ));
    announce(&format!("  http  {}", endpoints.http));
    announce(&format!("  grpc  {}", endpoints.grpc));
    announce(&format!("\nTry it:\n{}", curl(&endpoints.http)));
    announce(&format!(
        "  durable workflow list --server {}\n",
        endpoints.http
    ));
    let client = server.app().client().clone();
    let demo = async {
        tokio::select! {
            shown = demo(&client) => shown,
            () = stop.cancelled() => Ok(()),
        }
    };
    let (shown, served) = tokio::join!(demo, server.run(stop.clone()));
    served?;
    shown
}

fn curl(http: &str) -> String {
    let steps = r#"[{"do":"activity","type":"add","input":{"a":1,"b":2},"save":"sum"},{"do":"return","value":{"$":"sum"}}]"#;
    let body = format!(r#"{{"workflow_type":"{PROGRAM_TYPE}","input":{{"steps":{steps}}}}}"#);
    format!("  curl -s {http}/v1/durable/workflows -H 'content-type: application/json' -d '{body}'")
}

/// At the first start on this store, runs one program and shows its result.
async fn demo(client: &Client) -> Result<()> {
    if !client.runs_of(DEMO_ID).await?.is_empty() {
        announce("goes on where it stopped; Ctrl-C drains");
        return Ok(());
    }
    let program = json!({
        "vars": {"name": "World"},
        "steps": [
            {"do": "activity", "type": "echo", "input": {"$concat": ["Hello, ", {"$": "name"}, "!"]}, "save": "greeting"},
            {"do": "sleep", "ms": 200},
            {"do": "return", "value": {"$": "greeting"}},
        ],
    });
    let input = Payload::from_value(&program).map_err(Failure::usage)?;
    let run = client
        .start_named(PROGRAM_TYPE, input)
        .workflow_id(DEMO_ID)
        .await?;
    let result: Value = run
        .result()
        .await?
        .to_value()
        .map_err(|error| Failure::new(Exit::Failure, error))?;
    announce(&format!(
        "demo: run {} of `{PROGRAM_TYPE}` completed: {result}",
        run.id()
    ));
    announce(&format!(
        "  durable workflow events {}\nCtrl-C drains",
        run.id()
    ));
    Ok(())
}
