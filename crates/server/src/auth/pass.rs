//! The right to go on, for what stays open.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};

use super::{Access, Denied, Permission, Principal, TokenHash};

/// What somebody was let in by. A stream keeps it, so that a token that is revoked, changed or has expired ends the stream too.
#[derive(Debug, Clone)]
pub struct Pass {
    access: Access,
    /// None where nobody is asked.
    token: Option<TokenHash>,
    permission: Option<Permission>,
    principal: Principal,
}

impl Pass {
    pub(super) const fn new(
        access: Access,
        token: Option<TokenHash>,
        permission: Option<Permission>,
        principal: Principal,
    ) -> Self {
        Self {
            access,
            token,
            permission,
            principal,
        }
    }

    /// Who was let in.
    #[must_use]
    pub const fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Whether they would be let in again, as whoever they were.
    ///
    /// # Errors
    /// Why not. A token with another role or other scopes than at the beginning is [`Denied::Changed`]: what the stream was opened with
    /// no longer holds.
    pub fn check(&self) -> Result<(), Denied> {
        let Some(token) = self.token else {
            return Ok(());
        };
        let principal = self.access.holder_of(token)?;
        if let Some(permission) = self.permission {
            principal.require(permission)?;
        }
        if principal == self.principal {
            return Ok(());
        }
        let name = principal.name;
        Err(Denied::Changed { name })
    }

    /// Checks it so often from now on.
    #[must_use]
    pub fn watched(self, every: Duration) -> WatchedPass {
        // An interval of no length is refused by tokio; this is as often as makes a difference.
        let every = every.max(Duration::from_millis(1));
        let mut tick = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        WatchedPass { pass: self, tick }
    }
}

/// A [`Pass`] that is checked from time to time.
#[derive(Debug)]
pub struct WatchedPass {
    pass: Pass,
    /// Kept between calls: a busy stream, which asks anew after each message, is checked as often as a quiet one.
    tick: Interval,
}

impl WatchedPass {
    /// Who was let in.
    #[must_use]
    pub const fn principal(&self) -> &Principal {
        self.pass.principal()
    }

    /// Ends when the pass counts no more, with why. May be dropped and called again.
    pub async fn lost(&mut self) -> Denied {
        loop {
            self.tick.tick().await;
            if let Err(denied) = self.pass.check() {
                return denied;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Names, Role, TokenFile, TokenRecord};

    #[test]
    fn a_pass_counts_while_its_token_is_what_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        let keep = |tokens: &[&TokenRecord]| {
            let tokens = tokens.iter().copied().cloned().collect();
            TokenFile { tokens }.write(&path).unwrap();
        };
        let own = TokenRecord::new("own", Role::Operator, "secret");
        keep(&[&own]);
        let access = Access::guarded(Vec::new(), Some(path.clone())).unwrap();
        let pass = access
            .admit(Some("Bearer secret"), Some(Permission::Operate))
            .unwrap();
        assert_eq!(pass.check(), Ok(()));

        let mut scoped = own.clone();
        scoped.workflow_types = Some(Names::new(["billing.*"]));
        let mut weaker = own.clone();
        weaker.role = Role::Reader;
        let mut expired = own.clone();
        expired.expires_at = Some("2020-01-01T00:00:00Z".parse().unwrap());
        let name = || "own".to_owned();
        let lost = |token: Option<&TokenRecord>| {
            keep(&token.into_iter().collect::<Vec<_>>());
            access.look_now();
            pass.check().unwrap_err()
        };
        assert_eq!(lost(Some(&scoped)), Denied::Changed { name: name() });
        assert!(matches!(lost(Some(&weaker)), Denied::Forbidden { .. }));
        assert_eq!(lost(Some(&expired)), Denied::Expired { name: name() });
        assert_eq!(lost(None), Denied::Unknown);
    }

    #[test]
    fn nobody_is_sent_away_where_nobody_is_asked() {
        let pass = Access::open()
            .admit(None, Some(Permission::Administer))
            .unwrap();
        assert_eq!(pass.check(), Ok(()));
    }
}
