//! Statements on their way: prepared by name, or unnamed past a pooler, and many in one flight.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use deadpool_postgres::Object;
use futures_util::future::{MaybeDone, maybe_done, try_join_all};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Transaction};

use super::bind::Call;
use super::locks::LOCK_TIMEOUT;
use super::pools::{PLAN_SETTINGS, STATEMENT_TIMEOUT};
use super::statement::Catalog;

/// What all connections of a store share.
#[derive(Debug)]
pub(super) struct Shared {
    /// Texts of the statements.
    pub(super) catalog: Catalog,
    /// Whether statements are sent unnamed.
    pub(super) pooled: bool,
    /// How a transaction that writes begins.
    pub(super) begin: String,
    /// Statements sent since the store was opened, `BEGIN` and `COMMIT` included.
    pub(super) sent: AtomicU64,
    /// Statements put together for requests with filters, while a test asks for them.
    #[cfg(any(test, feature = "testing"))]
    pub(super) composed: super::composed::Composed,
}

impl Shared {
    pub(super) fn new(catalog: Catalog, pooled: bool) -> Self {
        let mut begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT}'; \
             SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"
        );
        if pooled {
            // Otherwise the connection has them from its start.
            for setting in PLAN_SETTINGS {
                begin.push_str("; SET LOCAL ");
                begin.push_str(setting);
            }
        }
        Self {
            catalog,
            pooled,
            begin,
            sent: AtomicU64::new(0),
            #[cfg(any(test, feature = "testing"))]
            composed: super::composed::Composed::default(),
        }
    }
}

/// A connection, for one caller at a time.
pub(super) struct Wire<'a> {
    line: Line<'a>,
    shared: Arc<Shared>,
}

/// Whose connection it is.
#[allow(
    clippy::large_enum_variant,
    reason = "the large one is the common one, and there is one a transaction"
)]
pub(super) enum Line<'a> {
    /// Of a pool of the store's; its prepared statements are kept with it.
    Own(Object),
    /// Lent by whoever has a transaction open on it.
    Lent(&'a Client),
    /// A transaction of the driver's.
    Theirs(&'a Transaction<'a>),
}

/// The answer to one message of a flight.
type Reply<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + Send + 'a>>;

impl Line<'_> {
    async fn batch_execute(&self, text: &str) -> Result<(), Error> {
        match self {
            Self::Own(client) => client.batch_execute(text).await,
            Self::Lent(client) => client.batch_execute(text).await,
            Self::Theirs(transaction) => transaction.batch_execute(text).await,
        }
    }

    async fn query_typed(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, Error> {
        match self {
            Self::Own(client) => client.query_typed(sql, params).await,
            Self::Lent(client) => client.query_typed(sql, params).await,
            Self::Theirs(transaction) => transaction.query_typed(sql, params).await,
        }
    }
}

impl<'l> Wire<'l> {
    pub(super) fn new(line: Line<'l>, shared: Arc<Shared>) -> Self {
        Self { line, shared }
    }

    /// What the store's connections share.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Sends everything at once, in order, and then reads the answers: one round trip. `before` and `after` are plain
    /// statements such as `BEGIN`. The first error is the one that matters: what follows it in a transaction only says that the
    /// transaction has failed. When a call cannot even be sent, neither is what follows it, `after` included: a transaction is
    /// still open then, and the caller rolls it back.
    pub(super) async fn flight(
        &self,
        before: Option<&str>,
        calls: &[Call<'_>],
        after: Option<&str>,
    ) -> Result<Vec<Vec<Row>>, Error> {
        let prepared = self.prepare(calls).await?;
        let mut replies: Vec<Reply<'_>> = Vec::with_capacity(calls.len() + 2);
        replies.extend(before.map(|text| self.plain(text)));
        for (i, call) in calls.iter().enumerate() {
            replies.push(match prepared.get(i) {
                Some(statement) => self.named(statement, call),
                None => self.unnamed(call),
            });
        }
        replies.extend(after.map(|text| self.plain(text)));
        let count = u64::try_from(replies.len()).unwrap_or(u64::MAX);
        self.shared.sent.fetch_add(count, Ordering::Relaxed);

        let mut answers = send_in_order(replies).await?.into_iter();
        if before.is_some() {
            answers.next();
        }
        Ok(answers.take(calls.len()).collect())
    }

    /// A statement made on the spot, such as a list with filters: sent unnamed, so that the variants do not pile up in caches.
    pub(super) async fn ad_hoc(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, Error> {
        self.shared.sent.fetch_add(1, Ordering::Relaxed);
        #[cfg(any(test, feature = "testing"))]
        self.shared.composed.keep("", sql, params);
        self.line.query_typed(sql, params).await
    }

    /// The same between two plain statements such as `BEGIN` and `COMMIT`, in one round trip.
    pub(super) async fn ad_hoc_within(
        &self,
        before: &str,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
        after: &str,
    ) -> Result<Vec<Row>, Error> {
        self.shared.sent.fetch_add(3, Ordering::Relaxed);
        #[cfg(any(test, feature = "testing"))]
        self.shared.composed.keep(before, sql, params);
        let asked: Reply<'_> = Box::pin(self.line.query_typed(sql, params));
        let replies = vec![self.plain(before), asked, self.plain(after)];
        let mut answers = send_in_order(replies).await?;
        Ok(answers.swap_remove(1))
    }

    /// The connection, where it is one of the store's own.
    pub(super) fn into_own(self) -> Option<Object> {
        match self.line {
            Line::Own(client) => Some(client),
            Line::Lent(_) | Line::Theirs(_) => None,
        }
    }

    /// Sends a plain statement without waiting for its answer; what is sent later comes after it.
    pub(super) fn send_and_forget(&self, text: &str) {
        self.shared.sent.fetch_add(1, Ordering::Relaxed);
        let _ = futures_util::FutureExt::now_or_never(self.line.batch_execute(text));
    }

    /// Statements by name, from the connection's cache but for the first time. None past a pooler, and none on a connection that is
    /// not ours: it has no such cache.
    async fn prepare(&self, calls: &[Call<'_>]) -> Result<Vec<tokio_postgres::Statement>, Error> {
        let client = match &self.line {
            Line::Own(client) if !self.shared.pooled => client,
            _ => return Ok(Vec::new()),
        };
        let catalog = &self.shared.catalog;
        try_join_all(calls.iter().map(|call| {
            client.prepare_typed_cached(catalog.text(call.statement), call.statement.params)
        }))
        .await
    }

    fn plain<'a>(&'a self, text: &'a str) -> Reply<'a> {
        Box::pin(async move {
            self.line.batch_execute(text).await?;
            Ok(Vec::new())
        })
    }

    fn named<'a>(
        &'a self,
        statement: &'a tokio_postgres::Statement,
        call: &'a Call<'_>,
    ) -> Reply<'a> {
        Box::pin(async move {
            let params: Vec<&(dyn ToSql + Sync)> = call.params.iter().map(|p| &**p as _).collect();
            match &self.line {
                Line::Own(client) => client.query(statement, &params).await,
                Line::Lent(client) => client.query(statement, &params).await,
                Line::Theirs(transaction) => transaction.query(statement, &params).await,
            }
        })
    }

    fn unnamed<'a>(&'a self, call: &'a Call<'_>) -> Reply<'a> {
        let sql = self.shared.catalog.text(call.statement);
        Box::pin(async move {
            let types = call.statement.params.iter().cloned();
            let params: Vec<(&(dyn ToSql + Sync), Type)> =
                call.params.iter().map(|p| &**p as _).zip(types).collect();
            self.line.query_typed(sql, &params).await
        })
    }
}

/// Polls each once, in order, which sends it; then waits for the answers in the same order.
///
/// One that fails on the spot stops the rest from being sent. The server has no part in it when a parameter cannot be encoded:
/// it would carry out a `COMMIT` that follows, of the half that it got.
///
/// Cancel-safe: a statement that was sent is carried out whether or not its answer is read.
async fn send_in_order(replies: Vec<Reply<'_>>) -> Result<Vec<Vec<Row>>, Error> {
    let mut sent: Vec<Pin<Box<MaybeDone<Reply<'_>>>>> = replies
        .into_iter()
        .map(|reply| Box::pin(maybe_done(reply)))
        .collect();
    poll_fn(|cx| {
        let failed = sent.iter_mut().position(|reply| {
            let _ = reply.as_mut().poll(cx);
            matches!(reply.as_mut().output_mut(), Some(Err(_)))
        });
        if let Some(failed) = failed {
            sent.truncate(failed + 1);
        }
        Poll::Ready(())
    })
    .await;
    let mut answers = Vec::with_capacity(sent.len());
    let mut first_error = None;
    for mut reply in sent {
        reply.as_mut().await;
        match reply.as_mut().take_output().expect("a reply is read once") {
            Ok(rows) => answers.push(rows),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    first_error.map_or(Ok(answers), Err)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// An error that the driver makes on its own; nothing has reached a server.
    fn unsendable() -> Error {
        let port = "postgres://h:port/d".parse::<tokio_postgres::Config>();
        port.unwrap_err()
    }

    fn answered_later<'a>(answered: &'a AtomicBool) -> Reply<'a> {
        Box::pin(async {
            tokio::task::yield_now().await;
            answered.store(true, Ordering::Relaxed);
            Ok(Vec::new())
        })
    }

    #[tokio::test]
    async fn nothing_is_sent_after_a_statement_that_could_not_be_sent() {
        let (begin, commit) = (AtomicBool::new(false), AtomicBool::new(false));
        let flight: Vec<Reply<'_>> = vec![
            answered_later(&begin),
            Box::pin(async { Err(unsendable()) }),
            Box::pin(async {
                commit.store(true, Ordering::Relaxed);
                Ok(Vec::new())
            }),
        ];
        assert!(send_in_order(flight).await.is_err());
        assert!(begin.into_inner(), "what was sent is waited for");
        assert!(!commit.into_inner(), "COMMIT must not be sent");
    }

    #[tokio::test]
    async fn the_first_statement_of_a_flight_says_what_went_wrong() {
        let server: Reply<'_> = Box::pin(async {
            tokio::task::yield_now().await;
            Err(Error::__private_api_timeout())
        });
        let flight: Vec<Reply<'_>> = vec![server, Box::pin(async { Err(unsendable()) })];
        let error = send_in_order(flight).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            Error::__private_api_timeout().to_string()
        );
    }

    #[test]
    fn every_transaction_that_writes_bounds_its_statements() {
        for pooled in [false, true] {
            let schema = super::super::schema::Schema::new("durable").unwrap();
            let shared = Shared::new(Catalog::new(schema), pooled);
            assert!(shared.begin.contains("SET LOCAL statement_timeout"));
        }
    }
}
