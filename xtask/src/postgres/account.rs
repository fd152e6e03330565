//! Which user the servers run as: PostgreSQL and PgBouncer both refuse to run as root.

use std::{
    os::unix::{fs::chown, process::CommandExt as _},
    path::Path,
    process::Command,
};

use anyhow::{Context as _, bail};

use crate::process;

/// The user that owns the servers and their files.
pub(super) enum Account {
    /// The user that started us.
    Ourselves,
    /// Another one, because we are root.
    Other {
        /// Its name, for messages.
        name: &'static str,
        /// Its user id.
        uid: u32,
        /// Its group id.
        gid: u32,
    },
}

impl Account {
    /// Ourselves, unless we are root: then Debian's `postgres`, or `nobody` where that does not exist.
    pub(super) fn for_servers() -> anyhow::Result<Self> {
        if own_uid()? != 0 {
            return Ok(Self::Ourselves);
        }
        for name in ["postgres", "nobody"] {
            if let (Ok(uid), Ok(gid)) = (id(&["-u", name]), id(&["-g", name])) {
                return Ok(Self::Other { name, uid, gid });
            }
        }
        bail!(
            "started by root, and there is no user `postgres` or `nobody` to run PostgreSQL as; run as a normal user"
        )
    }

    /// A command that runs as this account, in a folder that it may enter.
    pub(super) fn command(&self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(folder);
        if let Self::Other { uid, gid, .. } = self {
            command.uid(*uid).gid(*gid);
        }
        command
    }

    /// Gives a file or folder to this account.
    pub(super) fn own(&self, path: &Path) -> anyhow::Result<()> {
        if let Self::Other { name, uid, gid } = self {
            chown(path, Some(*uid), Some(*gid))
                .with_context(|| format!("cannot give {} to {name}", path.display()))?;
        }
        Ok(())
    }

    /// Whether this account can reach a folder and write into it.
    pub(super) fn can_use(&self, folder: &Path) -> bool {
        let mut command = self.command(Path::new("sh"), Path::new("/"));
        command
            .args(["-c", "test -w \"$0\" && test -x \"$0\""])
            .arg(folder);
        command.status().is_ok_and(|status| status.success())
    }

    /// Its name for messages.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Ourselves => "this user",
            Self::Other { name, .. } => name,
        }
    }
}

/// The id of the user that started us.
pub(super) fn own_uid() -> anyhow::Result<u32> {
    id(&["-u"])
}

fn id(args: &[&str]) -> anyhow::Result<u32> {
    process::output(Command::new("id").args(args))?
        .trim()
        .parse()
        .context("`id` printed no number")
}
