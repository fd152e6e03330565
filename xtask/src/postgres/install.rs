//! Installs what is missing from Debian's packages, or says clearly that it cannot.

use std::{
    env,
    io::{self, IsTerminal as _},
    process::Command,
};

use anyhow::bail;

use super::{
    account,
    binaries::{Binaries, Found},
};
use crate::process;

const SCRIPT: &str = include_str!("install.sh");

/// The server programs, installed first if need be.
pub(super) fn find_or_install() -> anyhow::Result<Binaries> {
    let found = Found::look();
    let missing = missing(&found);
    if let Some(binaries) = found.complete() {
        return Ok(binaries);
    }
    let mut command = installer(account::own_uid()? == 0, &missing, &on_path)?;
    println!("postgres: {} not found, installing", missing.join(" and "));
    let status = process::run(&mut command)?;
    if !status.success() {
        bail!(
            "installing {} failed ({status}); install it by hand, or name running servers by {} and {}",
            missing.join(" and "),
            super::POSTGRES_URL,
            super::PGBOUNCER_URL
        );
    }
    match Found::look().complete() {
        Some(binaries) => Ok(binaries),
        None => bail!("the packages are installed, but their programs are not where expected"),
    }
}

fn missing(found: &Found) -> Vec<&'static str> {
    let postgres = found.postgres.is_none().then_some("postgresql");
    let pgbouncer = found.pgbouncer.is_none().then_some("pgbouncer");
    postgres.into_iter().chain(pgbouncer).collect()
}

/// The command that installs packages, as root or through sudo.
fn installer(
    root: bool,
    packages: &[&str],
    available: &dyn Fn(&str) -> bool,
) -> anyhow::Result<Command> {
    let names = packages.join(" and ");
    if !available("apt-get") {
        bail!(
            "{names} (PostgreSQL 14 or later) not found, and there is no apt-get to install it with: install it and put its programs in PATH"
        );
    }
    let mut command = if root {
        Command::new("sh")
    } else if available("sudo") {
        let mut sudo = Command::new("sudo");
        if !io::stdin().is_terminal() {
            // Nobody is there to type a password: fail instead of waiting for it.
            sudo.arg("-n");
        }
        sudo.arg("sh");
        sudo
    } else {
        bail!(
            "{names} not found, and installing needs root: run `apt-get install {}` as root, or install sudo",
            packages.join(" ")
        );
    };
    command.args(["-c", SCRIPT, "install"]).args(packages);
    Ok(command)
}

fn on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn without_a_package_manager_it_says_so() {
        let error = installer(true, &["postgresql"], &|_| false).expect_err("no apt-get");
        assert!(error.to_string().contains("no apt-get"), "{error}");
    }

    #[test]
    fn without_root_and_sudo_it_says_what_to_run() {
        let error =
            installer(false, &["pgbouncer"], &|program| program == "apt-get").expect_err("no sudo");
        assert!(
            error.to_string().contains("apt-get install pgbouncer"),
            "{error}"
        );
    }

    #[test]
    fn a_normal_user_installs_through_sudo() {
        let command = installer(false, &["postgresql"], &|_| true).expect("both are there");
        assert_eq!(command.get_program(), "sudo");
        assert_eq!(
            command.get_args().last().and_then(|arg| arg.to_str()),
            Some("postgresql")
        );
    }

    #[test]
    fn only_what_is_missing_is_installed() {
        let found = Found {
            postgres: None,
            pgbouncer: Some(PathBuf::from("/usr/sbin/pgbouncer")),
        };
        assert_eq!(missing(&found), ["postgresql"]);
    }
}
