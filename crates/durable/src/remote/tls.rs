//! What keeps two ends apart that have reached each other.

use std::error::Error;
use std::fmt;
use std::io;

/// Why TLS did not come about with a server that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsTrouble {
    /// Its certificate is not one that is trusted here.
    Untrusted {
        /// What is wrong with it.
        why: String,
    },
    /// It wants to see a certificate, and none was shown.
    CertificateWanted,
    /// It does not take the certificate that was shown.
    CertificateRefused {
        /// What it says.
        why: String,
    },
    /// Something else.
    Other {
        /// What.
        why: String,
    },
}

impl TlsTrouble {
    /// Finds it among an error and its causes.
    #[must_use]
    pub fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(found) = Self::told(error) {
                return Some(found);
            }
            // An error of the system's hides what it was made of from its causes.
            let within = error
                .downcast_ref::<io::Error>()
                .and_then(io::Error::get_ref);
            cause = match within {
                Some(within) => Some(within),
                None => error.source(),
            };
        }
        None
    }

    fn told(error: &(dyn Error + 'static)) -> Option<Self> {
        let why = error.to_string();
        // Only the text of an alert is left of it behind HTTP/2.
        if let Some(alert) = why.strip_prefix(ALERT) {
            return Some(match alert {
                "CertificateRequired" => Self::CertificateWanted,
                alert if REFUSALS.contains(&alert) => Self::CertificateRefused { why },
                _ => Self::Other { why },
            });
        }
        match error.downcast_ref()? {
            rustls::Error::InvalidCertificate(_) => Some(Self::Untrusted { why }),
            _ => Some(Self::Other { why }),
        }
    }
}

/// What rustls says before the name of an alert that came.
const ALERT: &str = "received fatal alert: ";

/// Alerts of a server that was shown a certificate.
const REFUSALS: [&str; 6] = [
    "BadCertificate",
    "UnsupportedCertificate",
    "CertificateRevoked",
    "CertificateExpired",
    "CertificateUnknown",
    "UnknownCA",
];

impl fmt::Display for TlsTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untrusted { why } => {
                write!(f, "its certificate is not trusted here ({why})")
            }
            Self::CertificateWanted => f.write_str("it wants to see a client certificate"),
            Self::CertificateRefused { why } => {
                write!(f, "it does not take the client certificate ({why})")
            }
            Self::Other { why } => write!(f, "TLS does not come about ({why})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustls::AlertDescription as Alert;

    use super::*;
    use crate::persistence::StoreError;

    fn of(error: impl Into<Box<dyn Error + Send + Sync>>) -> Option<TlsTrouble> {
        // Wrapped twice by the system's, and once by ours.
        let error = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, error));
        TlsTrouble::of(&StoreError::unavailable("x", error))
    }

    #[test]
    fn trouble_is_found_however_deep_it_lies() {
        let unknown = rustls::CertificateError::UnknownIssuer;
        let unknown = of(rustls::Error::InvalidCertificate(unknown));
        assert!(matches!(unknown, Some(TlsTrouble::Untrusted { .. })));
        for (alert, refused) in [
            (Alert::CertificateRequired, false),
            (Alert::UnknownCA, true),
            (Alert::CertificateExpired, true),
        ] {
            let alert = rustls::Error::AlertReceived(alert);
            let by_text = of(alert.to_string());
            assert_eq!(of(alert), by_text);
            assert_eq!(
                matches!(by_text, Some(TlsTrouble::CertificateRefused { .. })),
                refused,
                "{by_text:?}"
            );
        }
        assert_eq!(of("connection reset by peer"), None);
    }
}
