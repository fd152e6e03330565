//! TLS: the real server with a certificate of a made-up authority. What each `sslmode` takes, and what it refuses.

use std::path::Path;

use everruns_durable::persistence::StoreError;
use everruns_durable::persistence::postgres::{Postgres, PostgresOptions};
use everruns_durable::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tokio_postgres::Client;

use crate::server::{admin_url, connect, fresh_database};

/// Comes in with TLS and its password only.
const USER: &str = "durable_tls";
/// Comes in with its certificate only.
const CERTIFIED: &str = "durable_tls_cert";

/// An authority of the test's own.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// A certificate and its key.
    fn issue(&self, name: &str) -> (String, String) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.0).unwrap();
        (cert.pem(), key.serialize_pem())
    }
}

/// Writes a file into the server's data folder, in front of what is there if asked.
async fn put(admin: &Client, file: &str, text: &str, in_front: bool) {
    let row = admin.query_one("SHOW data_directory", &[]).await.unwrap();
    let path = format!("{}/{file}", row.get::<_, String>(0));
    let program = if in_front {
        format!("umask 077; cat - {path} > {path}.new && mv {path}.new {path}")
    } else {
        format!("umask 077; cat > {path}")
    };
    let copy = format!(
        "COPY (SELECT unnest(string_to_array($text${text}$text$, E'\\n'))) TO PROGRAM '{program}'"
    );
    admin.batch_execute(&copy).await.unwrap();
}

/// Tells the server to read its settings again, and waits until new connections see it.
async fn reload(admin: &Client, ssl: &str) {
    admin
        .batch_execute(&format!("ALTER SYSTEM SET ssl = {ssl}"))
        .await
        .unwrap();
    admin
        .batch_execute("SELECT pg_reload_conf()")
        .await
        .unwrap();
    loop {
        let fresh = connect(&admin_url()).await;
        let row = fresh.query_one("SHOW ssl", &[]).await.unwrap();
        if row.get::<_, String>(0) == ssl {
            return;
        }
    }
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[cfg(unix)]
fn allow(path: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A URL of a database, for another user and host.
fn url_of(database: &str, user: &str, host: &str, query: &str) -> String {
    let config: tokio_postgres::Config = database.parse().unwrap();
    let (port, name) = (config.get_ports()[0], config.get_dbname().unwrap());
    format!("postgres://{user}:hush@{host}:{port}/{name}?{query}")
}

async fn refusal(url: &str) -> String {
    let error = Postgres::open(url, PostgresOptions::default())
        .await
        .expect_err(url);
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("hush"), "{error:?}");
    error.to_string()
}

#[workflow]
async fn greet(ctx: WorkflowContext, name: String) -> WorkflowResult<String> {
    ctx.activity_named("hello", name).await
}

/// Migrations, pools and the bell, all by this URL.
async fn works(url: &str) {
    let engine = Engine::postgres(url)
        .workflow::<greet>()
        .activity_fn("hello", async |_, name: String| {
            Ok(format!("Hello, {name}!"))
        })
        .start()
        .await
        .unwrap_or_else(|error| panic!("{url}: {error:?}"));
    let greeting = engine.run::<greet>("TLS".into()).await.unwrap();
    assert_eq!(greeting, "Hello, TLS!", "{url}");
    engine.shutdown().await.unwrap();
}

/// One test, since there is one server and its settings are everybody's.
#[tokio::test(flavor = "multi_thread")]
async fn each_mode_takes_what_it_should_and_refuses_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let ca = write(folder.path(), "ca.pem", &ours.0.pem());
    let wrong = write(folder.path(), "wrong.pem", &theirs.0.pem());
    let admin = connect(&admin_url()).await;
    let database = fresh_database().await;
    let as_user = |host: &str, query: &str| url_of(&database, USER, host, query);

    reload(&admin, "off").await;
    works(&format!("{database}?sslmode=prefer")).await;
    let message = refusal(&format!("{database}?sslmode=require")).await;
    assert!(message.contains("does not support TLS"), "{message}");

    set_up(&admin, &ours).await;
    let message = refusal(&as_user("127.0.0.1", "sslmode=disable")).await;
    assert!(message.contains("pg_hba.conf"), "{message}");
    for query in ["", "sslmode=prefer", "sslmode=require"] {
        works(&as_user(
            "127.0.0.1",
            &format!("{query}&channel_binding=require"),
        ))
        .await;
    }
    // The certificate is localhost's.
    works(&as_user(
        "127.0.0.1",
        &format!("sslmode=verify-ca&sslrootcert={ca}"),
    ))
    .await;
    works(&as_user(
        "localhost",
        &format!("sslmode=verify-full&sslrootcert={ca}"),
    ))
    .await;
    works(&as_user(
        "127.0.0.1",
        &format!("sslmode=require&sslrootcert={ca}"),
    ))
    .await;
    for (host, query, word) in [
        (
            "127.0.0.1",
            format!("sslmode=verify-full&sslrootcert={ca}"),
            "not valid for name",
        ),
        (
            "localhost",
            format!("sslmode=verify-full&sslrootcert={wrong}"),
            "UnknownIssuer",
        ),
        (
            "localhost",
            format!("sslmode=verify-ca&sslrootcert={wrong}"),
            "UnknownIssuer",
        ),
        (
            "localhost",
            format!("sslmode=require&sslrootcert={wrong}"),
            "UnknownIssuer",
        ),
        (
            "localhost",
            "sslrootcert=system".to_owned(),
            "UnknownIssuer",
        ),
    ] {
        let message = refusal(&as_user(host, &query)).await;
        assert!(message.contains(word), "{host} {query}: {message}");
    }
    certificates_of_clients(folder.path(), &database, &ours, &theirs).await;
    reload(&admin, "off").await;
}

/// The server's certificate, and users that need TLS.
async fn set_up(admin: &Client, ours: &Authority) {
    let (cert, key) = ours.issue("localhost");
    put(admin, "tls.crt", &cert, false).await;
    put(admin, "tls.key", &key, false).await;
    put(admin, "tls_ca.crt", &ours.0.pem(), false).await;
    let rules = format!(
        "hostssl all {USER} all scram-sha-256\nhostnossl all {USER} all reject\nhostssl all {CERTIFIED} all cert\nhostnossl all {CERTIFIED} all reject"
    );
    put(admin, "pg_hba.conf", &rules, true).await;
    for (name, file) in [
        ("ssl_cert_file", "tls.crt"),
        ("ssl_key_file", "tls.key"),
        ("ssl_ca_file", "tls_ca.crt"),
    ] {
        let set = format!("ALTER SYSTEM SET {name} = '{file}'");
        admin.batch_execute(&set).await.unwrap();
    }
    for user in [USER, CERTIFIED] {
        let role = format!(
            "SET password_encryption = 'scram-sha-256'; DROP ROLE IF EXISTS {user}; CREATE ROLE {user} SUPERUSER LOGIN PASSWORD 'hush'"
        );
        admin.batch_execute(&role).await.unwrap();
    }
    reload(admin, "on").await;
}

async fn certificates_of_clients(
    folder: &Path,
    database: &str,
    ours: &Authority,
    theirs: &Authority,
) {
    let as_client = |query: &str| {
        let query = format!("sslmode=require&{query}");
        url_of(database, CERTIFIED, "127.0.0.1", &query)
    };
    let identity = |name: &str, authority: &Authority| {
        let (cert, key) = authority.issue(CERTIFIED);
        let cert = write(folder, &format!("{name}.crt"), &cert);
        let key = write(folder, &format!("{name}.key"), &key);
        #[cfg(unix)]
        allow(&key, 0o600);
        (cert, key)
    };
    let (cert, key) = identity("client", ours);
    works(&as_client(&format!("sslcert={cert}&sslkey={key}"))).await;
    refusal(&as_client("")).await;
    let (stranger, its_key) = identity("stranger", theirs);
    refusal(&as_client(&format!("sslcert={stranger}&sslkey={its_key}"))).await;
    let message = refusal(&as_client(&format!("sslcert={cert}&sslkey={its_key}"))).await;
    assert!(message.contains("client.crt"), "{message}");
    #[cfg(unix)]
    {
        allow(&key, 0o644);
        let message = refusal(&as_client(&format!("sslcert={cert}&sslkey={key}"))).await;
        assert!(message.contains("chmod 600"), "{message}");
    }
}
