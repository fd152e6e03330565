//! `durable server`: the engine behind doors, for real.

use clap::Args;
use durable_server::config::Mode;
use durable_server::serve::Server;

use crate::exit::Result;
use crate::output::announce;
use crate::settings::SettingFlags;
use crate::{logging, signals};

/// How to run it.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    settings: SettingFlags,
}

/// Serves until a signal.
pub(crate) async fn run(options: Options) -> Result<()> {
    let config = options.settings.resolve(Mode::Server)?;
    logging::start(&config)?;
    // Before the store is opened: a signal meanwhile stops the server as soon as it is up, a second one at once.
    let stop = signals::stop();
    let server = Server::start(&config).await?;
    let endpoints = server.endpoints();
    announce(&format!("http {}\ngrpc {}", endpoints.http, endpoints.grpc));
    Ok(server.run(stop).await?)
}
