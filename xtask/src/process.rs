//! Child processes that never outlive the command that started them.

use std::{
    io::{self, BufRead as _, BufReader, IsTerminal as _, PipeReader},
    os::unix::process::CommandExt as _,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

use crate::interrupt;

const POLL: Duration = Duration::from_millis(50);
/// How long a process may take to stop before it is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// How long output is read after the process that owned it has ended; a grandchild may hold the pipe for ever.
const DRAIN_PATIENCE: Duration = Duration::from_secs(2);

/// Whom a signal is meant for.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    /// One process.
    Process(u32),
    /// A process and all it started (it leads its own process group).
    Group(u32),
}

/// Sends a signal by name; a target that is already gone is no error.
pub(crate) fn signal(target: Target, name: &str) {
    let id = match target {
        Target::Process(pid) => pid.to_string(),
        Target::Group(pid) => format!("-{pid}"),
    };
    // The shell's built-in: kill(2) is not reachable from safe std, and slim images have no /bin/kill.
    let _ = Command::new("sh")
        .args(["-c", "kill -s \"$0\" -- \"$1\"", name, &id])
        .stderr(Stdio::null())
        .status();
}

/// Waits until `done` holds; false when it did not in time.
pub(crate) fn wait_until(patience: Duration, mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while !done() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(POLL);
    }
    true
}

/// A started process; dropping it stops it.
pub(crate) struct Running {
    child: Child,
    target: Target,
    stop_signal: &'static str,
    detached: bool,
}

impl Running {
    /// Starts a command in a process group of its own, out of reach of the terminal's Ctrl-C: we decide when it stops.
    pub(crate) fn in_own_group(command: &mut Command) -> anyhow::Result<Self> {
        let child = spawn(command.process_group(0))?;
        let target = Target::Group(child.id());
        Ok(Self::new(child, target, "TERM"))
    }

    /// Starts a server that is stopped by a signal to its main process, which takes care of its children.
    pub(crate) fn server(command: &mut Command, stop_signal: &'static str) -> anyhow::Result<Self> {
        let child = spawn(command.process_group(0))?;
        let target = Target::Process(child.id());
        Ok(Self::new(child, target, stop_signal))
    }

    /// Starts a command that shares our terminal and may read from it.
    fn in_foreground(command: &mut Command) -> anyhow::Result<Self> {
        let child = spawn(command)?;
        let target = Target::Process(child.id());
        Ok(Self::new(child, target, "TERM"))
    }

    fn new(child: Child, target: Target, stop_signal: &'static str) -> Self {
        Self {
            child,
            target,
            stop_signal,
            detached: false,
        }
    }

    /// The exit status if the process has ended.
    pub(crate) fn exited(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.child
            .try_wait()
            .context("cannot wait for a child process")
    }

    /// Leaves the process running for good and returns its id.
    pub(crate) fn detach(mut self) -> u32 {
        self.detached = true;
        self.child.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.detached || !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        signal(self.target, self.stop_signal);
        let child = &mut self.child;
        if !wait_until(STOP_PATIENCE, || !matches!(child.try_wait(), Ok(None))) {
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Target::Group(_) = self.target {
            // Its leader is gone; whatever it started and did not stop goes too.
            signal(self.target, "KILL");
        }
    }
}

fn spawn(command: &mut Command) -> anyhow::Result<Child> {
    command
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))
}

/// Runs a command with our own input and output, and returns how it ended.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<ExitStatus> {
    let interactive = io::stdin().is_terminal();
    let mut running = if interactive {
        // A background process group could not read from the terminal.
        Running::in_foreground(command)?
    } else {
        Running::in_own_group(command)?
    };
    loop {
        if let Some(status) = running.exited()? {
            return Ok(status);
        }
        if interactive && interrupt::take_sigint() {
            // psql cancels a query on Ctrl-C and lives on: the child decides, we follow when it ends.
            signal(running.target, "INT");
        }
        interrupt::check()?;
        thread::sleep(POLL);
    }
}

/// Runs a command and hands over what it prints, standard output and error in their true order, line by line.
pub(crate) fn run_by_line(
    command: &mut Command,
    mut on_line: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<ExitStatus> {
    let (reader, writer) = io::pipe().context("cannot make a pipe")?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone().context("cannot share a pipe")?)
        .stderr(writer);
    let mut running = Running::in_own_group(command)?;
    // The command holds copies of the pipe's writing end; without this the reader would never see its end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (sender, lines) = mpsc::sync_channel(1024);
    thread::spawn(move || forward_lines(reader, &sender));

    let mut ended: Option<(ExitStatus, Instant)> = None;
    loop {
        let drained = match lines.recv_timeout(POLL) {
            Ok(line) => {
                on_line(&line)?;
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        interrupt::check()?;
        if ended.is_none() {
            ended = running.exited()?.map(|status| (status, Instant::now()));
        }
        match ended {
            Some((status, at)) if drained || at.elapsed() > DRAIN_PATIENCE => return Ok(status),
            None if drained => thread::sleep(POLL),
            _ => {}
        }
    }
}

fn forward_lines(reader: PipeReader, sender: &mpsc::SyncSender<String>) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while matches!(reader.read_until(b'\n', &mut line), Ok(read) if read > 0) {
        let text = String::from_utf8_lossy(&line);
        if sender.send(text.trim_end().to_owned()).is_err() {
            return;
        }
        line.clear();
    }
}

/// What a short command prints; its standard error becomes the error when it fails.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().display().to_string();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        bail!(
            "{program} failed ({}): {}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr),
            String::from_utf8_lossy(&output.stdout)
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("{program} printed no UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn lines_of_both_streams_keep_their_order() {
        let mut seen = Vec::new();
        let status = run_by_line(&mut shell("echo a; echo b >&2; echo c; exit 3"), |line| {
            seen.push(line.to_owned());
            Ok(())
        })
        .expect("sh runs");
        assert_eq!(seen, ["a", "b", "c"]);
        assert_eq!(status.code(), Some(3));
    }

    #[test]
    fn dropping_a_group_stops_its_grandchildren() {
        let mut command = shell("sleep 1000 & echo $!; wait");
        command.stdout(Stdio::piped());
        let mut running = Running::in_own_group(&mut command).expect("sh runs");
        let stdout = running.child.stdout.take().expect("stdout is piped");
        let mut pid = String::new();
        BufReader::new(stdout)
            .read_line(&mut pid)
            .expect("sh prints the id of its child");
        drop(running);
        let alive = format!("kill -0 {} 2>/dev/null", pid.trim());
        // The orphan stays a zombie until init reaps it, so it may take a moment to be gone.
        assert!(wait_until(STOP_PATIENCE, || {
            zombie(&pid) || !shell(&alive).status().expect("sh runs").success()
        }));
    }

    fn zombie(pid: &str) -> bool {
        std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
            .is_ok_and(|stat| stat.contains(") Z "))
    }

    #[test]
    fn output_of_a_failed_command_is_its_error() {
        let error = output(&mut shell("echo broken >&2; exit 1")).expect_err("exit code 1");
        assert!(error.to_string().contains("broken"), "{error}");
    }
}
