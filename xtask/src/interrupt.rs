//! Ctrl-C and friends become a flag that waiting code looks at, so that guards run and nothing stays behind.

use std::{
    fmt,
    process::ExitCode,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::Context as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The last signal that arrived, 0 for none.
static RECEIVED: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// The error that a command ends with when a signal asked it to stop.
#[derive(Debug)]
pub(crate) struct Interrupted {
    signal: i32,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stopped by signal {}", self.signal)
    }
}

impl std::error::Error for Interrupted {}

/// Starts listening for SIGINT, SIGTERM and SIGHUP.
pub(crate) fn install() -> anyhow::Result<()> {
    let flag = RECEIVED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let value = usize::try_from(signal).expect("signal numbers are positive");
        signal_hook::flag::register_usize(signal, Arc::clone(flag), value)
            .context("cannot listen for signals")?;
    }
    Ok(())
}

/// Fails when a signal has asked this process to stop.
pub(crate) fn check() -> Result<(), Interrupted> {
    match load() {
        0 => Ok(()),
        signal => Err(Interrupted { signal }),
    }
}

/// Takes a pending SIGINT away, for a foreground child that decides itself what Ctrl-C means.
pub(crate) fn take_sigint() -> bool {
    RECEIVED.get().is_some_and(|flag| {
        let sigint = usize::try_from(SIGINT).expect("signal numbers are positive");
        flag.compare_exchange(sigint, 0, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    })
}

/// The shell's convention for a process ended by a signal; 1 for every other error.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    error
        .downcast_ref::<Interrupted>()
        .and_then(|interrupted| u8::try_from(128 + interrupted.signal).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from)
}

fn load() -> i32 {
    RECEIVED
        .get()
        .and_then(|flag| i32::try_from(flag.load(Ordering::SeqCst)).ok())
        .unwrap_or(0)
}
