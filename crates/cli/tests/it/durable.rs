//! The binary, as a test holds it.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longer than anything here should take, so that a hang is told apart from a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The binary in a folder, without what the surroundings would tell it.
pub(crate) fn durable(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_durable"));
    command.current_dir(folder).stdin(Stdio::null());
    for (name, _) in std::env::vars() {
        let ours = ["DURABLE_", "WORKER_GRPC_", "OTEL_"]
            .iter()
            .any(|prefix| name.starts_with(prefix));
        if ours || name == "DATABASE_URL" || name == "RUST_LOG" {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command to its end.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Output {
    durable(folder).args(arguments).output().expect("it runs")
}

/// Standard output and standard error as text.
pub(crate) fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// The binary at work. Killed when it is dropped.
pub(crate) struct Process {
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts a command that goes on until it is told to stop.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let stdout = child.stdout.take().map(BufReader::new);
        Self { child, stdout }
    }

    /// Reads standard output up to a line that holds something.
    pub(crate) fn line_with(&mut self, what: &str) -> String {
        let stdout = self.stdout.as_mut().expect("it is read");
        let mut line = String::new();
        loop {
            line.clear();
            let read = stdout.read_line(&mut line).expect("a line");
            assert!(read > 0, "it ended without a line with {what:?}");
            if line.contains(what) {
                return line;
            }
        }
    }

    /// Sends a signal by its name, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &self.child.id().to_string()])
            .status();
        assert!(sent.expect("kill runs").success());
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        until("the end of the process", || {
            self.child.try_wait().expect("it can be asked")
        })
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server under test.
pub(crate) struct Server {
    process: Process,
    pub(crate) http: String,
    pub(crate) grpc: String,
    folder: PathBuf,
    token: Option<String>,
}

impl Server {
    /// Starts `durable dev` in a folder, and waits until it is ready.
    pub(crate) fn dev(folder: &Path, arguments: &[&str]) -> Self {
        Self::start(folder, "dev", arguments, &[])
    }

    /// Starts `durable dev` where another one was.
    pub(crate) fn start_at(folder: &Path, http: &str) -> Self {
        Self::start_on(folder, "dev", http, &[], &[])
    }

    /// Starts a server on free ports, and waits until it is ready.
    pub(crate) fn start(
        folder: &Path,
        command: &str,
        arguments: &[&str],
        env: &[(&str, &str)],
    ) -> Self {
        Self::start_on(folder, command, "127.0.0.1:0", arguments, env)
    }

    fn start_on(
        folder: &Path,
        command: &str,
        http: &str,
        arguments: &[&str],
        env: &[(&str, &str)],
    ) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let ready = folder.join(format!(
            "ready-{}.json",
            NEXT.fetch_add(1, Ordering::Relaxed)
        ));
        let mut process = Process::start(
            durable(folder)
                .arg(command)
                .args(["--http", http, "--grpc", "127.0.0.1:0", "--ready-file"])
                .arg(&ready)
                .args(arguments)
                .envs(env.iter().copied()),
        );
        let endpoints = until("the ready file", || {
            if let Some(status) = process.child.try_wait().expect("it can be asked") {
                panic!("it ended before it was ready: {status}");
            }
            let text = std::fs::read_to_string(&ready).ok()?;
            let endpoints: Value = serde_json::from_str(&text).expect("a ready file is whole");
            (endpoints["pid"] == process.child.id()).then_some(endpoints)
        });
        let text = |key: &str| endpoints[key].as_str().expect("a URL").to_owned();
        Self {
            http: text("http"),
            grpc: text("grpc"),
            process,
            folder: folder.to_owned(),
            token: None,
        }
    }

    /// The same, asked with a token from now on.
    pub(crate) fn with_token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// Runs a client command against it.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Output {
        let mut command = durable(&self.folder);
        command.args(["--server", &self.http]).args(arguments);
        if let Some(token) = &self.token {
            command.env("DURABLE_TOKEN", token);
        }
        command.output().expect("it runs")
    }

    /// Runs a client command that must succeed; answers what it printed as JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let output = self.ask(&[arguments, &["-o", "json"]].concat());
        let (stdout, stderr) = texts(&output);
        assert!(output.status.success(), "{arguments:?}: {stderr}");
        serde_json::from_str(&stdout)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {stdout}"))
    }

    /// Starts a program; answers the run's id.
    pub(crate) fn program(&self, steps: &Value) -> String {
        let input = json!({"steps": steps}).to_string();
        let run = self.json(&["workflow", "start", "durable.program", "--input", &input]);
        run["id"].as_str().expect("an id").to_owned()
    }

    /// As [`Process::line_with`].
    pub(crate) fn line_with(&mut self, what: &str) -> String {
        self.process.line_with(what)
    }

    /// As [`Process::signal`].
    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// As [`Process::ended`].
    pub(crate) fn ended(&mut self) -> ExitStatus {
        self.process.ended()
    }

    /// As [`Process::kill`].
    pub(crate) fn kill(self) {
        self.process.kill();
    }
}

/// A client of HTTP, for what the commands do not show.
pub(crate) fn http() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

/// A place to run it in.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Looks again and again until something is there.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
