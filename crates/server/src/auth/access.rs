//! Who may come in.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use everruns_durable::core::Timestamp;
use parking_lot::{Mutex, RwLock};
use tracing::{info, warn};

use super::{
    Denied, Pass, Permission, Principal, Role, Scopes, TokenFile, TokenFileError, TokenHash,
    TokenRecord,
};

/// How often the token file is looked at, at most: so late a change counts.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Decides who comes in. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    door: Arc<Door>,
}

enum Door {
    /// Nobody is asked. Only for listeners that nobody else can reach.
    Open,
    Guarded(Guard),
}

struct Guard {
    /// Tokens of the environment: fixed while the process lives.
    fixed: Vec<TokenRecord>,
    file: Option<Watched>,
}

/// A token file, read again when it changes.
struct Watched {
    path: PathBuf,
    tokens: RwLock<Vec<TokenRecord>>,
    looked: Mutex<Looked>,
}

struct Looked {
    at: Instant,
    stamp: Option<Stamp>,
}

/// What changes when a file is written or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    #[cfg(unix)]
    inode: u64,
}

impl Access {
    /// Everybody may do everything: for listeners that only this machine can reach.
    #[must_use]
    pub fn open() -> Self {
        let door = Arc::new(Door::Open);
        Self { door }
    }

    /// Only these tokens, and those of the file. The file is read again whenever it changes; while it is missing or wrong, what was
    /// read last stays in force.
    ///
    /// # Errors
    /// Where the file cannot be used at the start.
    pub fn guarded(fixed: Vec<TokenRecord>, file: Option<PathBuf>) -> Result<Self, TokenFileError> {
        let file = file.map(Watched::open).transpose()?;
        let door = Arc::new(Door::Guarded(Guard { fixed, file }));
        Ok(Self { door })
    }

    /// Whether nobody is asked.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(*self.door, Door::Open)
    }

    /// Who holds the token of an `Authorization` header.
    ///
    /// # Errors
    /// Whoever is not known: [`Denied::is_unauthenticated`].
    pub fn authenticate(&self, authorization: Option<&str>) -> Result<Principal, Denied> {
        self.admit(authorization, None)
            .map(|pass| pass.principal().clone())
    }

    /// Lets in whoever holds the token of an `Authorization` header, if their role permits this; what stays open keeps the pass.
    ///
    /// # Errors
    /// Whoever is not known, or not allowed.
    pub fn admit(
        &self,
        authorization: Option<&str>,
        permission: Option<Permission>,
    ) -> Result<Pass, Denied> {
        if self.is_open() {
            return Ok(Pass::new(self.clone(), None, permission, anonymous()));
        }
        let token = TokenHash::of(bearer(authorization)?);
        let principal = self.holder_of(token)?;
        if let Some(permission) = permission {
            principal.require(permission)?;
        }
        Ok(Pass::new(self.clone(), Some(token), permission, principal))
    }

    /// Who holds the token of this hash now.
    pub(super) fn holder_of(&self, token: TokenHash) -> Result<Principal, Denied> {
        match &*self.door {
            Door::Open => Ok(anonymous()),
            Door::Guarded(guard) => guard.holder_of(token, Timestamp::now()),
        }
    }

    /// The tokens that are known, for whoever may see them.
    #[must_use]
    pub fn tokens(&self) -> Vec<TokenRecord> {
        match &*self.door {
            Door::Open => Vec::new(),
            Door::Guarded(guard) => guard.with_tokens(|tokens| tokens.cloned().collect()),
        }
    }
}

#[cfg(test)]
impl Access {
    /// As if the last look at the file were long ago.
    pub(super) fn look_now(&self) {
        if let Door::Guarded(Guard {
            file: Some(file), ..
        }) = &*self.door
        {
            file.looked.lock().at = Instant::now().checked_sub(LOOK_EVERY).unwrap();
        }
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
            .field("open", &self.is_open())
            .finish_non_exhaustive()
    }
}

/// The token of a header `Bearer TOKEN`.
fn bearer(authorization: Option<&str>) -> Result<&str, Denied> {
    let header = authorization.ok_or(Denied::NoToken)?;
    let (scheme, token) = header.trim().split_once(' ').ok_or(Denied::Malformed)?;
    let token = token.trim_start();
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
        return Err(Denied::Malformed);
    }
    Ok(token)
}

fn anonymous() -> Principal {
    Principal {
        name: "anonymous".to_owned(),
        role: Role::Admin,
        scopes: Scopes::default(),
    }
}

impl Guard {
    /// Compares with every token, also after a match, so that the time tells nothing.
    fn holder_of(&self, hash: TokenHash, now: Timestamp) -> Result<Principal, Denied> {
        let found = self.with_tokens(|tokens| {
            tokens.fold(None, |found, token| {
                let same = bool::from(token.hash.matches(&hash));
                if same { Some(token.clone()) } else { found }
            })
        });
        let token = found.ok_or(Denied::Unknown)?;
        if token.expires_at.is_some_and(|end| end <= now) {
            return Err(Denied::Expired { name: token.name });
        }
        Ok(Principal {
            scopes: token.scopes(),
            name: token.name,
            role: token.role,
        })
    }

    fn with_tokens<T>(&self, read: impl FnOnce(&mut dyn Iterator<Item = &TokenRecord>) -> T) -> T {
        let Some(file) = &self.file else {
            return read(&mut self.fixed.iter());
        };
        file.look_again();
        let tokens = file.tokens.read();
        read(&mut self.fixed.iter().chain(tokens.iter()))
    }
}

impl Watched {
    fn open(path: PathBuf) -> Result<Self, TokenFileError> {
        // The stamp is taken first: a change while the file is read is then seen at the next look.
        let stamp = Stamp::of(&path);
        let tokens = TokenFile::read(&path)?.tokens;
        let at = Instant::now();
        Ok(Self {
            path,
            tokens: RwLock::new(tokens),
            looked: Mutex::new(Looked { at, stamp }),
        })
    }

    /// Reads the file again if it has changed. Whoever comes while another one looks uses what is there.
    fn look_again(&self) {
        let Some(mut looked) = self.looked.try_lock() else {
            return;
        };
        if looked.at.elapsed() < LOOK_EVERY {
            return;
        }
        looked.at = Instant::now();
        let stamp = Stamp::of(&self.path);
        if stamp == looked.stamp {
            return;
        }
        looked.stamp = stamp;
        match TokenFile::read(&self.path) {
            Ok(file) => {
                let before = std::mem::replace(&mut *self.tokens.write(), file.tokens.clone());
                let gone = names_only_in(&before, &file.tokens);
                let new = names_only_in(&file.tokens, &before);
                info!(
                    tokens = file.tokens.len(),
                    ?new,
                    ?gone,
                    "the token file was read again"
                );
            }
            Err(error) => warn!(%error, "the tokens read before stay in force"),
        }
    }
}

/// Names of tokens that are in the first list and, just so, not in the second.
fn names_only_in<'a>(these: &'a [TokenRecord], those: &[TokenRecord]) -> Vec<&'a str> {
    let only = these.iter().filter(|token| !those.contains(token));
    only.map(|token| token.name.as_str()).collect()
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self {
            modified: metadata.modified().ok(),
            length: metadata.len(),
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(&metadata),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn come(access: &Access, token: &str) -> Result<Principal, Denied> {
        access.authenticate(Some(&format!("Bearer {token}")))
    }

    fn write(path: &Path, tokens: Vec<TokenRecord>) {
        TokenFile { tokens }.write(path).unwrap();
    }

    #[test]
    fn only_known_tokens_come_in() {
        let token = TokenRecord::new("ci", Role::Reader, "secret");
        let access = Access::guarded(vec![token], None).unwrap();
        assert_eq!(come(&access, "secret").unwrap().name, "ci");
        assert_eq!(
            access.authenticate(Some("bearer secret")).unwrap().name,
            "ci"
        );
        assert_eq!(come(&access, "Secret"), Err(Denied::Unknown));
        assert_eq!(access.authenticate(None), Err(Denied::NoToken));
        for header in ["", "secret", "Bearer", "Bearer ", "Basic secret"] {
            assert_eq!(
                access.authenticate(Some(header)),
                Err(Denied::Malformed),
                "{header:?}"
            );
        }
    }

    #[test]
    fn nobody_comes_in_where_there_are_no_tokens() {
        let access = Access::guarded(Vec::new(), None).unwrap();
        assert_eq!(come(&access, ""), Err(Denied::Malformed));
        assert_eq!(come(&access, "x"), Err(Denied::Unknown));
    }

    #[test]
    fn expired_token_is_refused_by_name() {
        let mut token = TokenRecord::new("old", Role::Admin, "secret");
        token.expires_at = Some("2020-01-01T00:00:00Z".parse().unwrap());
        let access = Access::guarded(vec![token], None).unwrap();
        let name = "old".to_owned();
        assert_eq!(come(&access, "secret"), Err(Denied::Expired { name }));
    }

    #[test]
    fn changes_of_the_file_count_and_mistakes_in_it_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        write(&path, vec![TokenRecord::new("a", Role::Reader, "one")]);
        let access = Access::guarded(Vec::new(), Some(path.clone())).unwrap();
        assert!(come(&access, "one").is_ok());

        write(&path, vec![TokenRecord::new("b", Role::Admin, "two")]);
        access.look_now();
        assert_eq!(come(&access, "one"), Err(Denied::Unknown));
        assert_eq!(come(&access, "two").unwrap().role, Role::Admin);

        std::fs::write(&path, "[[token").unwrap();
        access.look_now();
        assert!(come(&access, "two").is_ok(), "a mistake locks nobody out");

        write(&path, Vec::new());
        access.look_now();
        assert_eq!(come(&access, "two"), Err(Denied::Unknown));
    }
}
