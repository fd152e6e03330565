//! The least of an HTTP/1.1 client: one connection, one request at a time, bodies in parts that are
//! not copied together, and a connection that can be dropped in the middle of an answer.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// Longest line of an answer's head.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// What is kept of an answer's body; the rest is read and counted.
const KEPT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// How long an answer may take. Longer than any scenario should need, so that a stall is reported
/// and not waited for.
const PATIENCE: Duration = Duration::from_secs(180);

/// A client of one server.
pub(super) struct Http {
    address: String,
    connection: Option<BufReader<TcpStream>>,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    /// HTTP's status code.
    pub(super) status: u16,
    /// The body, or as much of it as is kept.
    pub(super) body: Vec<u8>,
    /// The length of the whole body.
    pub(super) length: usize,
}

impl Answer {
    /// The body as JSON.
    pub(super) fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.body).context("the answer is not JSON")
    }

    /// The answer if its status is one of success.
    pub(super) fn ok(self) -> anyhow::Result<Self> {
        if !(200..300).contains(&self.status) {
            let end = self.body.len().min(300);
            bail!(
                "HTTP {}: {}",
                self.status,
                String::from_utf8_lossy(&self.body[..end])
            );
        }
        Ok(self)
    }
}

impl Http {
    /// A client; it connects with its first request.
    pub(super) fn new(url: &str) -> Self {
        let address = url.trim_start_matches("http://").trim_end_matches('/');
        Self {
            address: address.to_owned(),
            connection: None,
        }
    }

    /// Another client of the same server.
    pub(super) fn another(&self) -> Self {
        Self {
            address: self.address.clone(),
            connection: None,
        }
    }

    /// `GET` below `/v1/durable`.
    pub(super) async fn get(&mut self, path: &str) -> anyhow::Result<Answer> {
        self.request("GET", path, &[]).await
    }

    /// `POST` below `/v1/durable`, the body in parts.
    pub(super) async fn post(&mut self, path: &str, body: &[&[u8]]) -> anyhow::Result<Answer> {
        self.request("POST", path, body).await
    }

    /// Sends a request. A connection that the server has closed meanwhile is made anew once, for
    /// reads only: a write might be done twice.
    async fn request(
        &mut self,
        method: &str,
        path: &str,
        body: &[&[u8]],
    ) -> anyhow::Result<Answer> {
        let reused = self.connection.is_some();
        let first = self.attempt(method, path, body).await;
        match first {
            Err(_) if reused && method == "GET" => self.attempt(method, path, body).await,
            other => other,
        }
    }

    async fn attempt(
        &mut self,
        method: &str,
        path: &str,
        body: &[&[u8]],
    ) -> anyhow::Result<Answer> {
        // Taken out, so that a request that failed or was given up leaves no half-read connection
        // behind.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let exchange = async {
            send(&mut connection, &self.address, method, path, body).await?;
            receive(&mut connection).await
        };
        let answer = tokio::time::timeout(PATIENCE, exchange)
            .await
            .with_context(|| format!("{method} {path}: no answer within {PATIENCE:?}"))?
            .with_context(|| format!("{method} {path}"))?;
        self.connection = Some(connection);
        Ok(answer)
    }

    /// Sends a request and hangs up without reading the answer.
    pub(super) async fn abandon(&self, path: &str) -> anyhow::Result<()> {
        let mut connection = self.connect().await?;
        send(&mut connection, &self.address, "GET", path, &[]).await
    }

    async fn connect(&self) -> anyhow::Result<BufReader<TcpStream>> {
        let stream = TcpStream::connect(&self.address)
            .await
            .with_context(|| format!("cannot connect to {}", self.address))?;
        stream.set_nodelay(true)?;
        Ok(BufReader::new(stream))
    }
}

async fn send(
    connection: &mut BufReader<TcpStream>,
    host: &str,
    method: &str,
    path: &str,
    body: &[&[u8]],
) -> anyhow::Result<()> {
    let length: usize = body.iter().map(|part| part.len()).sum();
    let kind = if body.is_empty() {
        ""
    } else {
        "content-type: application/json\r\n"
    };
    // What Prometheus reads is at the root.
    let base = if path == "/metrics" {
        ""
    } else {
        "/v1/durable"
    };
    let head = format!(
        "{method} {base}{path} HTTP/1.1\r\nhost: {host}\r\n{kind}content-length: {length}\r\n\r\n"
    );
    let stream = connection.get_mut();
    stream.write_all(head.as_bytes()).await?;
    for part in body {
        stream.write_all(part).await?;
    }
    stream.flush().await?;
    Ok(())
}

async fn line(connection: &mut BufReader<TcpStream>) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut bounded = (&mut *connection).take(LINE_BYTES_MAX);
    let read = bounded.read_line(&mut text).await?;
    ensure!(read > 0, "the connection was closed");
    Ok(text.trim_end().to_owned())
}

async fn receive(connection: &mut BufReader<TcpStream>) -> anyhow::Result<Answer> {
    let first = line(connection).await?;
    let status: u16 = first
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .with_context(|| format!("no status in {first:?}"))?;
    let (mut length, mut chunked) = (0, false);
    loop {
        let header = line(connection).await?;
        let Some((name, value)) = header.split_once(':') else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().context("content-length")?,
            "transfer-encoding" => chunked = value.contains("chunked"),
            _ => {}
        }
    }
    let mut body = Body::default();
    if chunked {
        loop {
            let size = line(connection).await?;
            let size = usize::from_str_radix(size.trim(), 16).context("a chunk's size")?;
            body.read(connection, size).await?;
            // The end of the chunk, or of the empty trailer.
            line(connection).await.ok();
            if size == 0 {
                break;
            }
        }
    } else {
        body.read(connection, length).await?;
    }
    Ok(Answer {
        status,
        body: body.kept,
        length: body.length,
    })
}

/// A body that is read in pieces and kept up to a bound.
#[derive(Default)]
struct Body {
    kept: Vec<u8>,
    length: usize,
}

impl Body {
    async fn read(
        &mut self,
        connection: &mut BufReader<TcpStream>,
        mut left: usize,
    ) -> anyhow::Result<()> {
        let mut piece = vec![0; left.min(64 * 1024)];
        while left > 0 {
            let want = left.min(piece.len());
            let read = connection.read(&mut piece[..want]).await?;
            ensure!(
                read > 0,
                "the connection was closed in the middle of a body"
            );
            let room = KEPT_BYTES_MAX.saturating_sub(self.kept.len()).min(read);
            self.kept.extend_from_slice(&piece[..room]);
            self.length += read;
            left -= read;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn answered(text: &'static str) -> anyhow::Result<Answer> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let mut http = Http::new(&format!("http://{}", listener.local_addr()?));
        let serve = async {
            let (mut stream, _) = listener.accept().await?;
            let mut head = [0; 16];
            stream.read_exact(&mut head).await?;
            stream.write_all(text.as_bytes()).await?;
            stream.shutdown().await?;
            anyhow::Ok(stream)
        };
        let (answer, stream) = tokio::join!(http.get("/x"), serve);
        drop(stream?);
        answer
    }

    #[tokio::test]
    async fn bodies_with_a_length_and_in_chunks_are_read() {
        let plain = answered("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc").await;
        assert_eq!(plain.expect("an answer").body, b"abc");
        let chunks = answered(
            "HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
        )
        .await
        .expect("an answer");
        assert_eq!((chunks.status, chunks.body.as_slice()), (404, &b"abc"[..]));
        assert!(chunks.ok().is_err());
    }

    #[tokio::test]
    async fn a_body_that_is_cut_off_is_an_error() {
        let cut = answered("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc").await;
        assert!(cut.is_err());
    }
}
