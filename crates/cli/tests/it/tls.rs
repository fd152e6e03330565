//! TLS and mTLS: who gets in, and who does not.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::durable::{Process, Server, durable, texts};

/// An authority of a test's own.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
struct Identity {
    cert: String,
    key: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn issue(&self, expired: bool) -> Identity {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("parameters");
        if expired {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        }
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, &self.0).expect("a certificate");
        Identity {
            cert: cert.pem(),
            key: key.serialize_pem(),
        }
    }
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("written");
    path.display().to_string()
}

/// Speaks TLS with a server: a request's first bytes out, its answer's first bytes in.
fn greet(url: &str, trusted: &Authority, own: Option<&Identity>) -> Result<Vec<u8>, String> {
    let mut roots = RootCertStore::empty();
    let authority =
        CertificateDer::from_pem_slice(trusted.pem().as_bytes()).expect("a certificate");
    roots.add(authority).expect("an authority");
    let builder =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let cert = CertificateDer::from_pem_slice(own.cert.as_bytes()).expect("a certificate");
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).expect("a key");
            builder
                .with_client_auth_cert(vec![cert], key)
                .expect("an identity")
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from("localhost").expect("a name");
    let connection =
        ClientConnection::new(Arc::new(config), name).map_err(|error| error.to_string())?;
    let address = url.strip_prefix("https://").ok_or("no TLS")?;
    let socket = TcpStream::connect(address).map_err(|error| error.to_string())?;
    let mut stream = StreamOwned::new(connection, socket);
    // HTTP/2's preface and empty settings; the server answers with its own.
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .map_err(|error| error.to_string())?;
    let mut answer = [0; 9];
    stream
        .read_exact(&mut answer)
        .map_err(|error| error.to_string())?;
    Ok(answer.to_vec())
}

#[test]
fn a_worker_gets_in_with_its_certificate_and_nobody_without() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let server = ours.issue(false);
    let env = [
        (
            "WORKER_GRPC_TLS_CERT",
            write(folder.path(), "server.pem", &server.cert),
        ),
        (
            "WORKER_GRPC_TLS_KEY",
            write(folder.path(), "server.key", &server.key),
        ),
        (
            "WORKER_GRPC_TLS_CA_CERT",
            write(folder.path(), "ca.pem", &ours.pem()),
        ),
    ];
    let env = env.each_ref().map(|(name, value)| (*name, value.as_str()));
    let running = Server::start(folder.path(), "dev", &["--db", "memory:"], &env);
    assert!(running.grpc.starts_with("https://"), "{}", running.grpc);

    let answer = greet(&running.grpc, &ours, Some(&ours.issue(false))).expect("let in");
    assert_eq!(answer[3], 4, "HTTP/2 settings");
    let wrong = [
        ("no certificate", greet(&running.grpc, &ours, None)),
        (
            "another authority's certificate",
            greet(&running.grpc, &ours, Some(&theirs.issue(false))),
        ),
        (
            "an expired certificate",
            greet(&running.grpc, &ours, Some(&ours.issue(true))),
        ),
        (
            "a client that trusts another authority",
            greet(&running.grpc, &theirs, Some(&ours.issue(false))),
        ),
    ];
    for (who, answer) in wrong {
        assert!(answer.is_err(), "{who} was let in");
    }
    assert!(
        greet(&running.grpc, &ours, Some(&ours.issue(false))).is_ok(),
        "the wrong ones harmed nobody"
    );
}

#[test]
fn a_worker_process_trusts_and_is_trusted_by_its_flags() {
    let folder = tempfile::tempdir().expect("a folder");
    let ours = Authority::new("ours");
    let (server, own) = (ours.issue(false), ours.issue(false));
    let file = |name: &str, text: &str| write(folder.path(), name, text);
    let (cert, key) = (file("s.pem", &server.cert), file("s.key", &server.key));
    let (own_cert, own_key) = (file("w.pem", &own.cert), file("w.key", &own.key));
    let ca = file("ca.pem", &ours.pem());
    let settings = [
        "--grpc-tls-cert",
        &cert,
        "--grpc-tls-key",
        &key,
        "--grpc-tls-ca",
        &ca,
    ];
    let running = Server::dev(
        folder.path(),
        &[&["--db", "memory:"][..], &settings].concat(),
    );
    let worker = |arguments: &[&str]| {
        let mut command = durable(folder.path());
        command
            .args(["worker", "--connect", &running.grpc])
            .args(arguments);
        command
    };
    let identity = ["--grpc-tls-cert", &own_cert, "--grpc-tls-key", &own_key];
    // `--ca` is what the other commands take.
    for trust in ["--grpc-tls-ca", "--ca"] {
        let mut worker = Process::start(worker(&[trust, &ca]).args(identity));
        worker.line_with("works for");
        worker.signal("TERM");
        assert_eq!(worker.ended().code(), Some(0));
    }
    let stranger = worker(&["--grpc-tls-ca", &ca]).output().expect("it runs");
    let (_, stderr) = texts(&stranger);
    assert_eq!(stranger.status.code(), Some(6), "{stderr}");
    assert!(
        stderr.contains("wants to see a client certificate"),
        "{stderr}"
    );
    assert!(stderr.contains("--grpc-tls-cert"), "{stderr}");
    let distrustful = worker(&identity).output().expect("it runs");
    let (_, stderr) = texts(&distrustful);
    assert_eq!(distrustful.status.code(), Some(6), "{stderr}");
    assert!(stderr.contains("UnknownIssuer"), "{stderr}");
    assert!(stderr.contains("--grpc-tls-ca"), "{stderr}");
    let missing = worker(&["--grpc-tls-ca", "/no/such"])
        .output()
        .expect("it runs");
    let (_, stderr) = texts(&missing);
    assert_eq!(missing.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("--grpc-tls-ca: /no/such"), "{stderr}");
}

#[test]
fn an_expired_server_is_not_believed() {
    let folder = tempfile::tempdir().expect("a folder");
    let ours = Authority::new("ours");
    let expired = ours.issue(true);
    let cert = write(folder.path(), "server.pem", &expired.cert);
    let key = write(folder.path(), "server.key", &expired.key);
    let running = Server::dev(
        folder.path(),
        &[
            "--db",
            "memory:",
            "--grpc-tls-cert",
            &cert,
            "--grpc-tls-key",
            &key,
        ],
    );
    assert!(greet(&running.grpc, &ours, None).is_err());
}

#[test]
fn the_command_line_speaks_tls_with_an_authority_it_was_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let ours = Authority::new("ours");
    let server = ours.issue(false);
    let cert = write(folder.path(), "server.pem", &server.cert);
    let key = write(folder.path(), "server.key", &server.key);
    let ca = write(folder.path(), "ca.pem", &ours.pem());
    let running = Server::dev(
        folder.path(),
        &[
            "--db",
            "memory:",
            "--http-tls-cert",
            &cert,
            "--http-tls-key",
            &key,
        ],
    );
    let good = running.ask(&["--ca", &ca, "health"]);
    assert!(good.status.success(), "{:?}", texts(&good));
    let bad = running.ask(&["health"]);
    let (_, stderr) = texts(&bad);
    assert_eq!(bad.status.code(), Some(6), "{stderr}");
    assert!(stderr.contains("is there, but"), "{stderr}");
    assert!(stderr.contains("--ca or DURABLE_CA"), "{stderr}");
}

#[test]
fn the_command_line_shows_a_certificate_to_a_server_that_wants_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let ours = Authority::new("ours");
    let (server, own) = (ours.issue(false), ours.issue(false));
    let file = |name: &str, text: &str| write(folder.path(), name, text);
    let (cert, key) = (file("s.pem", &server.cert), file("s.key", &server.key));
    let (own_cert, own_key) = (file("c.pem", &own.cert), file("c.key", &own.key));
    let ca = file("ca.pem", &ours.pem());
    let tls = [
        "--http-tls-cert",
        &cert,
        "--http-tls-key",
        &key,
        "--http-tls-ca",
        &ca,
    ];
    let running = Server::dev(folder.path(), &[&["--db", "memory:"][..], &tls].concat());
    let shown = ["--client-cert", &own_cert, "--client-key", &own_key];
    let good = running.ask(&[&["--ca", &ca][..], &shown, &["health"]].concat());
    assert!(good.status.success(), "{:?}", texts(&good));
    let bad = running.ask(&["--ca", &ca, "health"]);
    let (_, stderr) = texts(&bad);
    assert_eq!(bad.status.code(), Some(6), "{stderr}");
    assert!(stderr.contains("--client-cert"), "{stderr}");
    let half = running.ask(&["--ca", &ca, "--client-cert", &own_cert, "health"]);
    assert_eq!(half.status.code(), Some(2), "{:?}", texts(&half));
}

#[test]
fn files_that_are_no_certificates_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let nonsense = write(folder.path(), "nonsense.pem", "nonsense");
    let arguments = [
        "server",
        "--db",
        "memory:",
        "--grpc-tls-cert",
        &nonsense,
        "--grpc-tls-key",
        &nonsense,
    ];
    let output = durable(folder.path())
        .args(arguments)
        .output()
        .expect("it runs");
    let (_, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("nonsense.pem"), "{stderr}");
}
