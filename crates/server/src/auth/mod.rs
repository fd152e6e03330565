//! Who may do what: bearer tokens with roles, scopes and an end.
//!
//! A token is a secret of high entropy and is kept as a hash. [`Access`] tells who holds it, [`Principal`] what they may do. Every
//! route and every remote call has one [`Permission`]; what has none is not served.

mod access;
mod denied;
mod environment;
mod file;
mod pass;
mod principal;
mod role;
mod token;

pub use access::Access;
pub use denied::Denied;
pub use environment::{parse_tokens, worker_token};
pub use file::{TokenFile, TokenFileError};
pub use pass::{Pass, WatchedPass};
pub use principal::{Names, Principal, Scopes};
pub use role::{Permission, Role};
pub use token::{TokenHash, TokenRecord, new_token};
