//! `durable token`: the token file. A server that uses it sees the change by itself.

use std::path::PathBuf;

use clap::{Args, Subcommand, builder::PossibleValuesParser, builder::TypedValueParser as _};
use durable_server::auth::{Names, Role, TokenFile, TokenFileError, TokenRecord, new_token};
use durable_server::config::Period;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::exit::{Exit, Failure, Result};
use crate::output::{Output, Table, ago, note, until};

/// What to do with which file.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
    /// The token file.
    #[arg(
        long,
        env = "DURABLE_TOKENS_FILE",
        global = true,
        default_value = "tokens.toml",
        value_name = "FILE"
    )]
    token_file: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a token and print it. It is kept as a hash: this is the only time it can be read.
    Create(Create),
    /// Show the tokens there are.
    List,
    /// Remove a token. Servers refuse it within a second or two.
    Revoke {
        /// Its name.
        name: String,
    },
}

#[derive(Debug, Args)]
struct Create {
    /// Its name: what the audit says.
    name: String,
    /// What it is for: a worker hosts code, a reader looks, an operator starts and mends runs, an admin may do everything.
    #[arg(long, value_parser = role())]
    role: Role,
    /// Only these queues (activity types); `billing.*` for all that begin so. May be given again.
    #[arg(long = "queue", value_name = "NAME")]
    queues: Vec<String>,
    /// Only these workflow types. May be given again.
    #[arg(long = "workflow-type", value_name = "NAME")]
    workflow_types: Vec<String>,
    /// Refused after this long, such as 90d.
    #[arg(long, value_name = "TIME")]
    expires_in: Option<Period>,
}

fn role() -> impl clap::builder::TypedValueParser<Value = Role> {
    PossibleValuesParser::new(Role::ALL.map(Role::as_str))
        .map(|name| Role::parse(&name).expect("one of the possible values"))
}

/// Carries it out.
pub(crate) fn run(options: &Options, output: &Output) -> Result<()> {
    let path = &options.token_file;
    match &options.action {
        Action::Create(create) => {
            let mut file = if path.exists() {
                TokenFile::read(path)?
            } else {
                TokenFile::default()
            };
            if file.tokens.iter().any(|token| token.name == create.name) {
                return Err(Failure::new(
                    Exit::Conflict,
                    format!("{} has a token {:?} already", path.display(), create.name),
                )
                .hint("take another name, or revoke it first"));
            }
            let token = new_token()?;
            let record = record(create, &token)?;
            let shown = shown(&record);
            file.tokens.push(record);
            file.write(path)?;
            let mut answer = shown;
            answer["token"] = json!(token);
            output.one(&answer, || token.clone())?;
            note(&format!(
                "kept as a hash in {}; this is the only time the token is shown",
                path.display()
            ))
        }
        Action::List => {
            let tokens: Vec<Value> = TokenFile::read(path)?.tokens.iter().map(shown).collect();
            output.list(&tokens, || table(&tokens))
        }
        Action::Revoke { name } => {
            let mut file = TokenFile::read(path)?;
            let before = file.tokens.len();
            file.tokens.retain(|token| token.name != *name);
            if file.tokens.len() == before {
                return Err(Failure::new(
                    Exit::NotFound,
                    format!("{} has no token {name:?}", path.display()),
                )
                .hint("`durable token list` shows those there are"));
            }
            file.write(path)?;
            output.one(&json!({"revoked": name}), || format!("revoked {name}"))
        }
    }
}

fn record(create: &Create, token: &str) -> Result<TokenRecord> {
    let now = Timestamp::now();
    let names = |names: &Vec<String>| (!names.is_empty()).then(|| Names::new(names.clone()));
    let expires_at = match create.expires_in {
        None => None,
        Some(period) => Some(
            now.checked_add(period.0)
                .map_err(|error| Failure::usage(format!("--expires-in: {error}")))?,
        ),
    };
    Ok(TokenRecord {
        queues: names(&create.queues),
        workflow_types: names(&create.workflow_types),
        created_at: Some(now),
        expires_at,
        ..TokenRecord::new(&create.name, create.role, token)
    })
}

/// A record as it may be shown: without its hash.
fn shown(record: &TokenRecord) -> Value {
    json!({
        "name": record.name,
        "role": record.role,
        "queues": record.queues,
        "workflow_types": record.workflow_types,
        "created_at": record.created_at,
        "expires_at": record.expires_at,
    })
}

fn table(tokens: &[Value]) -> Table {
    let names = |value: &Value| match value.as_array() {
        None => "all".to_owned(),
        Some(names) => names
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(", "),
    };
    let mut table = Table::new([
        "NAME",
        "ROLE",
        "QUEUES",
        "WORKFLOW TYPES",
        "CREATED",
        "EXPIRES",
    ]);
    for token in tokens {
        let text = |key: &str| token[key].as_str().unwrap_or("-").to_owned();
        let expires = if token["expires_at"].is_null() {
            "never".to_owned()
        } else {
            until(&token["expires_at"])
        };
        table.row([
            text("name").into(),
            text("role").into(),
            names(&token["queues"]).into(),
            names(&token["workflow_types"]).into(),
            ago(&token["created_at"]).into(),
            expires.into(),
        ]);
    }
    table
}

impl From<TokenFileError> for Failure {
    fn from(error: TokenFileError) -> Self {
        let missing = matches!(&error, TokenFileError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound);
        let exit = if missing {
            Exit::NotFound
        } else {
            Exit::Failure
        };
        Self::new(exit, error).hint(
            "--token-file or DURABLE_TOKENS_FILE names the file; `durable token create` makes one",
        )
    }
}
