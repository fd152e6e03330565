//! How many files the process may hold open: every connection is one.

/// Raises the limit as far as the process may. Systems give a process about a thousand by default, which is less than a door takes.
#[cfg(unix)]
pub(crate) fn raise() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, wanted) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}

/// Nothing to raise.
#[cfg(not(unix))]
pub(crate) fn raise() {}
