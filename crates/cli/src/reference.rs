//! `durable reference`: the reference pages, written from the commands and settings themselves. A test holds the pages in `docs/reference` to it.

use std::fmt::Write as _;

use clap::{Arg, Command, ValueEnum};

use crate::exit::Result;
use crate::output::print;

/// Which page.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Page {
    /// Every command.
    Cli,
    /// Every setting.
    Configuration,
}

const CLI_HEAD: &str = "# Commands

Written by `durable reference cli`; a test keeps it fresh.

Data goes to standard output, everything else to standard error. `-o json` and `-o jsonl` print what the server answered, for programs; `NO_COLOR` turns colours off.
Where a run is asked for, its id will do, or your own workflow id, which means its newest run.

| Exit code | Meaning |
|---|---|
| 0 | done |
| 1 | it failed |
| 2 | the command, its input or a setting is wrong |
| 3 | there is no such thing |
| 4 | something stands in the way: it exists already, or has ended |
| 5 | the token is missing, unknown or not allowed to |
| 6 | the server or the database cannot be reached |
| 7 | the workflow, or the update, failed |
";

const CONFIGURATION_HEAD: &str = "# Configuration

Written by `durable reference configuration`; a test keeps it fresh.

Each setting is looked for as a flag, then in the environment, then in a file (`--config FILE` or `DURABLE_CONFIG`, else `durable.toml` in the working folder), and has a default in the end. `durable config show` tells every
value and where it came from; with `--dev` for `durable dev`. A secret can also be read from a file, whose name is in the variable with `_FILE` behind it; secrets are never printed.

```toml
# durable.toml
db = \"postgres://durable@db.internal/durable\"
http = \"0.0.0.0:7400\"
token_file = \"/etc/durable/tokens.toml\"
retention = \"90d\"
```

A time is a whole number with `ms`, `s`, `m`, `h` or `d` behind it.

How a process runs activities is set by variables alone: `MAX_CONCURRENT_TASKS` (1000), `MAX_BYTES_IN_FLIGHT` (134217728), `CLAIM_BATCH_SIZE` (50), `POLL_INTERVAL_MS` (100), `WORKER_HEARTBEAT_TIMEOUT_SECS` (60).

The client's side: `DURABLE_SERVER`, `DURABLE_TOKEN` or `DURABLE_TOKEN_FILE`, `DURABLE_CA`, `DURABLE_CLIENT_CERT` with `DURABLE_CLIENT_KEY`; a worker's: `WORKER_GRPC_AUTH_TOKEN` or `WORKER_GRPC_AUTH_TOKEN_FILE`, `WORKER_GRPC_TLS_CA_CERT`, `WORKER_GRPC_TLS_CERT`, `WORKER_GRPC_TLS_KEY`; see [the commands](cli.md).

## Settings of `durable server` and `durable dev`
";

/// Prints a page.
pub(crate) fn run(page: Page, cli: Command) -> Result<()> {
    match page {
        Page::Cli => print(&commands(cli)),
        Page::Configuration => print(&format!(
            "{CONFIGURATION_HEAD}\n{}",
            durable_server::config::reference()
        )),
    }
}

fn commands(mut cli: Command) -> String {
    cli.build();
    let mut page = CLI_HEAD.to_owned();
    let globals: Vec<&Arg> = cli
        .get_arguments()
        .filter(|arg| arg.is_global_set())
        .collect();
    page.push_str("\n## Everywhere\n");
    arguments(&mut page, &globals);
    for command in cli.get_subcommands() {
        describe(
            &mut page,
            command,
            &format!("durable {}", command.get_name()),
        );
    }
    page
}

fn describe(page: &mut String, command: &Command, name: &str) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let level = "#".repeat(name.split(' ').count().min(4));
    let about = command.get_long_about().or(command.get_about());
    let about = about.map_or_else(String::new, ToString::to_string);
    // Writing to a string cannot fail.
    let _ = write!(page, "\n{level} `{}`\n\n{about}\n", usage(command, name));
    if takes_settings(command) {
        page.push_str("\nTakes every [setting](configuration.md) as a flag.\n");
    }
    let own: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| {
            !arg.is_global_set()
                && !is_setting(arg)
                && !matches!(arg.get_id().as_str(), "help" | "version")
        })
        .collect();
    arguments(page, &own);
    for below in command.get_subcommands() {
        describe(page, below, &format!("{name} {}", below.get_name()));
    }
}

fn usage(command: &Command, name: &str) -> String {
    let mut usage = name.to_owned();
    for arg in command.get_positionals() {
        let shown = arg.get_value_names().map_or_else(
            || arg.get_id().to_string().to_uppercase(),
            |names| names.join(" "),
        );
        let shown = if arg.is_required_set() {
            shown
        } else {
            format!("[{shown}]")
        };
        let _ = write!(usage, " {shown}");
    }
    if command.has_subcommands() {
        usage.push_str(if command.is_subcommand_required_set() {
            " …"
        } else {
            " […]"
        });
    }
    usage
}

fn arguments(page: &mut String, arguments: &[&Arg]) {
    if arguments.is_empty() {
        return;
    }
    page.push('\n');
    for arg in arguments {
        let name = match (arg.get_short(), arg.get_long()) {
            (Some(short), Some(long)) => format!("-{short}, --{long}"),
            (None, Some(long)) => format!("--{long}"),
            _ => arg.get_id().to_string().to_uppercase(),
        };
        let value = match arg.get_value_names() {
            Some(names) if arg.get_long().is_some() && arg.get_action().takes_values() => {
                format!(" {}", names.join(" "))
            }
            _ => String::new(),
        };
        let help = arg.get_help().map_or_else(String::new, ToString::to_string);
        let help = help.trim_end_matches('.');
        let possible: Vec<String> = arg
            .get_possible_values()
            .iter()
            .map(|value| value.get_name().to_owned())
            .collect();
        let mut notes = Vec::new();
        if arg.get_action().takes_values() && !possible.is_empty() {
            notes.push(format!("one of {}", possible.join(", ")));
        }
        let defaults: Vec<String> = arg
            .get_default_values()
            .iter()
            .map(|value| value.to_string_lossy().into_owned())
            .collect();
        if arg.get_action().takes_values() && !defaults.is_empty() {
            notes.push(format!("default `{}`", defaults.join(",")));
        }
        if let Some(env) = arg.get_env() {
            notes.push(format!("variable `{}`", env.to_string_lossy()));
        }
        let notes = if notes.is_empty() {
            String::new()
        } else {
            format!(" ({})", notes.join("; "))
        };
        let _ = writeln!(page, "- `{name}{value}`: {help}{notes}");
    }
}

fn is_setting(arg: &Arg) -> bool {
    arg.get_help_heading() == Some(crate::settings::HEADING)
}

fn takes_settings(command: &Command) -> bool {
    command.get_arguments().any(is_setting)
}
