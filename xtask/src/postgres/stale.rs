//! Ends the servers of an instance whose owner was killed.

use std::{fs, path::Path, process::Command, time::Duration};

use super::{cluster, pooler};
use crate::process::{self, Target};

const PATIENCE: Duration = Duration::from_secs(10);

/// Stops the pooler and the server that were started in this folder, if they still run.
pub(super) fn stop_servers(instance: &Path) {
    stop(instance, &instance.join(pooler::PID_FILE), "TERM");
    stop(instance, &instance.join(cluster::PID_FILE), "QUIT");
}

fn stop(instance: &Path, pid_file: &Path, signal: &str) {
    let Some(pid) = fs::read_to_string(pid_file)
        .ok()
        .and_then(|text| first_number(&text))
    else {
        return;
    };
    // The number may belong to somebody else by now: only a process that was started with this folder's path is ours.
    let ours = || command_line(pid).is_some_and(|line| mentions(&line, instance));
    if !ours() {
        return;
    }
    println!("postgres: stopping process {pid}");
    process::signal(Target::Process(pid), signal);
    if !process::wait_until(PATIENCE, || !ours()) {
        process::signal(Target::Process(pid), "KILL");
        process::wait_until(PATIENCE, || !ours());
    }
}

fn first_number(text: &str) -> Option<u32> {
    text.lines().next()?.trim().parse().ok()
}

/// Whether a command line names something below the folder (not merely a folder with a longer name).
fn mentions(command_line: &str, instance: &Path) -> bool {
    command_line.contains(&format!("{}/", instance.display()))
}

/// The command line of a living process.
fn command_line(pid: u32) -> Option<String> {
    if Path::new("/proc/self/cmdline").exists() {
        let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        return Some(String::from_utf8_lossy(&bytes).replace('\0', " "));
    }
    let pid = pid.to_string();
    process::output(Command::new("ps").args(["-o", "command=", "-p", &pid])).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pid_files_start_with_the_id() {
        assert_eq!(first_number("4711\n/some/data\n"), Some(4711));
        assert_eq!(first_number(""), None);
    }

    #[test]
    fn a_neighbour_with_a_longer_name_is_not_ours() {
        let instance = Path::new("/t/postgres/12-0");
        assert!(mentions("postgres -D /t/postgres/12-0/data", instance));
        assert!(!mentions("postgres -D /t/postgres/12-01/data", instance));
    }

    #[test]
    fn a_living_process_has_a_command_line() {
        assert!(command_line(std::process::id()).is_some_and(|line| line.contains("xtask")));
    }
}
