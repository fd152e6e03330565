//! The server's settings as flags, made from their one list.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use durable_server::config::{Config, Mode, SETTINGS, Sources};

use crate::exit::Result;

/// Heading of the flags in help texts.
pub(crate) const HEADING: &str = "Settings";

/// Flags for every setting, and `--config`.
#[derive(Debug, Clone, Default)]
pub(crate) struct SettingFlags {
    given: BTreeMap<&'static str, String>,
    file: Option<PathBuf>,
}

impl SettingFlags {
    /// The configuration: these flags, then the environment, the file, and the defaults of the command.
    pub(crate) fn resolve(&self, mode: Mode) -> Result<Config> {
        let sources = Sources {
            mode,
            flags: self.given.clone(),
            env: &|name| std::env::var(name).ok(),
            file: self.file.clone(),
        };
        Ok(sources.resolve()?)
    }
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .env("DURABLE_CONFIG")
            .value_parser(clap::value_parser!(PathBuf))
            .help("Read settings from this TOML file; without it from durable.toml in the working folder, where there is one");
        let flags = SETTINGS.iter().map(|setting| {
            let default = setting
                .default
                .map_or_else(String::new, |text| format!(" [default: {text}]"));
            let help = format!("{} [env: {}]{default}", setting.help.trim(), setting.env);
            let flag = Arg::new(setting.key)
                .long(setting.flag())
                .value_name(setting.placeholder)
                .help(help);
            if setting.switch {
                flag.num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value("true")
            } else {
                flag
            }
        });
        command.next_help_heading(HEADING).arg(file).args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.file = matches.get_one::<PathBuf>("config").cloned();
        for setting in SETTINGS {
            if let Some(text) = matches.get_one::<String>(setting.key) {
                self.given.insert(setting.key, text.clone());
            }
        }
        Ok(())
    }
}
