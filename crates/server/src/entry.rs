//! Who may enter, by the configuration; and the refusal to open a door that anybody could walk through.

use std::net::SocketAddr;

use crate::auth::{Access, TokenFileError, worker_token};
use crate::config::{Config, Deployment, Mode, Origin};

/// Why no door was opened.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// The token file cannot be used.
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    /// Others could reach the door, and there is nobody at it.
    #[error(
        "refusing to listen on {address} without tokens: anybody who reaches it could run and read everything. Either listen on 127.0.0.1, or make a token \
         (`durable token create NAME --role admin --token-file tokens.toml`) and start with `--token-file tokens.toml`"
    )]
    Public {
        /// The address.
        address: SocketAddr,
    },
    /// In production there is always somebody at the door.
    #[error(
        "refusing to start without tokens while DURABLE_ENV is production. Set WORKER_GRPC_AUTH_TOKEN for workers, or make a token \
         (`durable token create NAME --role admin --token-file tokens.toml`) and start with `--token-file tokens.toml`"
    )]
    Production,
}

/// Who may enter. Without any token everybody may, and then only where nobody else can come.
pub(crate) fn access(config: &Config) -> Result<Access, EntryError> {
    let mut fixed = config
        .tokens
        .get()
        .as_ref()
        .map_or_else(Vec::new, |tokens| tokens.0.clone());
    let file = config.token_file.get().clone();
    let reachable = [*config.http, *config.grpc]
        .into_iter()
        .find(|address| !address.ip().is_loopback());
    // Workers read that variable too: exported for them, it would close `durable dev` to everybody but workers.
    let for_workers = config.mode == Mode::Dev
        && matches!(config.worker_token.origin, Origin::Env(_))
        && fixed.is_empty()
        && file.is_none()
        && reachable.is_none();
    let secret = config.worker_token.as_ref().filter(|_| !for_workers);
    fixed.extend(secret.map(|secret| worker_token(secret.expose())));
    if !fixed.is_empty() || file.is_some() {
        return Ok(Access::guarded(fixed, file)?);
    }
    if *config.env == Deployment::Production {
        return Err(EntryError::Production);
    }
    match reachable {
        Some(address) => Err(EntryError::Public { address }),
        None => Ok(Access::open()),
    }
}
