//! Whose certificate is good enough.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// What a server's certificate has to show.
#[derive(Debug)]
pub(super) enum Check {
    /// Nothing: the connection is encrypted, with whomever.
    Nothing,
    /// That a trusted authority made it.
    Authority(Trusted),
    /// And that it is the host's.
    AuthorityAndName(Trusted),
}

/// Authorities that are trusted.
#[derive(Debug)]
pub(super) struct Trusted {
    pub(super) by_chain: Arc<WebPkiServerVerifier>,
    /// The same, as they are written.
    pub(super) roots: Vec<CertificateDer<'static>>,
}

/// Verifies servers as far as is asked for.
#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) provider: Arc<CryptoProvider>,
    pub(super) check: Check,
}

impl Trusted {
    /// The name is looked at last: an error about it says that the chain is good.
    fn verify(
        &self,
        server: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<(), Error> {
        let verified = self
            .by_chain
            .verify_server_cert(server, chain, name, ocsp, now);
        match verified {
            // A server that is its own authority, as `openssl req -x509` makes them: trusted as it stands. That it is in date was
            // looked at before what it may be used for.
            Err(Error::InvalidCertificate(CertificateError::Other(_)))
                if self.roots.iter().any(|root| root == server) =>
            {
                verify_server_name(&ParsedCertificate::try_from(server)?, name)
            }
            verified => verified.map(|_| ()),
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = match &self.check {
            Check::Nothing => Ok(()),
            Check::AuthorityAndName(trusted) => trusted.verify(server, chain, name, ocsp, now),
            Check::Authority(trusted) => match trusted.verify(server, chain, name, ocsp, now) {
                Err(Error::InvalidCertificate(
                    CertificateError::NotValidForName
                    | CertificateError::NotValidForNameContext { .. },
                )) => Ok(()),
                verified => verified,
            },
        };
        verified.map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
    use rustls::RootCertStore;

    use super::*;

    const NAME: &str = "db.internal";

    /// A server that is its own authority.
    fn self_signed(expired: bool) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        if expired {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    fn trusting(root: &CertificateDer<'static>) -> Trusted {
        let mut store = RootCertStore::empty();
        store.add(root.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider);
        Trusted {
            by_chain: builder.build().unwrap(),
            roots: vec![root.clone()],
        }
    }

    fn verify(check: Check, server: &CertificateDer<'_>, name: &str) -> bool {
        let verifier = Verifier {
            provider: Arc::new(rustls::crypto::ring::default_provider()),
            check,
        };
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1_750_000_000));
        let verified = verifier.verify_server_cert(server, &[], &name, &[], now);
        verified.is_ok()
    }

    #[test]
    fn a_server_that_is_its_own_authority_is_trusted_by_its_file() {
        let own = self_signed(false);
        assert!(verify(Check::AuthorityAndName(trusting(&own)), &own, NAME));
        assert!(!verify(
            Check::AuthorityAndName(trusting(&own)),
            &own,
            "other"
        ));
        assert!(verify(Check::Authority(trusting(&own)), &own, "other"));
        let stranger = self_signed(false);
        assert!(!verify(Check::Authority(trusting(&own)), &stranger, NAME));
        assert!(verify(Check::Nothing, &stranger, "other"));
    }

    #[test]
    fn what_is_out_of_date_is_refused() {
        let old = self_signed(true);
        assert!(!verify(Check::AuthorityAndName(trusting(&old)), &old, NAME));
        assert!(!verify(Check::Authority(trusting(&old)), &old, NAME));
    }
}
