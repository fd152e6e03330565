//! What finished runs cost everything else: each figure on a small database and on a full one, in
//! turn.

mod figure;
mod library;
mod reads;
mod starts;

use clap::Args;

use super::Common;
use super::fill;
use super::pages::Pages;
use super::report::Report;
use super::served::Served;
use crate::database::{Database, Kind, Place};
use figure::{Figure, Measured, judge};

/// Options of `growth`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) common: Common,
    /// Finished runs of the full database [default: 10000000; with --share 100000].
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// Finished runs of the small database. As many as a count goes to, so that both databases fill
    /// a page and reach the cap of a count.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    small: u64,
    /// How often each figure is measured on each database, in turn; the median counts.
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Clients that start runs at once.
    #[arg(long, value_name = "N", default_value_t = 16)]
    clients: usize,
    /// Events of the one run whose retention is measured; 0 leaves it out [default: 2000000; with --share 250000].
    #[arg(long, value_name = "N")]
    history: Option<u64>,
}

impl Options {
    fn runs(&self) -> u64 {
        let default = if self.common.share {
            100_000
        } else {
            10_000_000
        };
        self.runs.unwrap_or(default)
    }

    fn history(&self) -> u64 {
        // More than one step deletes: what is left between two of them is a part of the figure.
        let default = if self.common.share {
            250_000
        } else {
            2_000_000
        };
        self.history.unwrap_or(default)
    }

    /// In the test command's share pages are counted, and once is enough: they do not vary.
    fn rounds(&self) -> usize {
        if self.common.share { 1 } else { self.rounds }
    }
}

/// One of the two databases.
struct Side {
    database: Database,
    pages: Option<Pages>,
}

/// Fills both databases, measures in turn, and judges the medians.
pub(super) async fn run(options: &Options) -> anyhow::Result<Report> {
    let place = Place::new(&options.common.db, false)?;
    anyhow::ensure!(
        place.kind() != Kind::Memory,
        "growth needs a database: sqlite:PATH or postgres://…"
    );
    let mut report = Report::new(&[
        "figure",
        "small",
        "full",
        "times worse",
        "pages, small",
        "pages, full",
    ]);
    let (small, full) = (place.make().await?, place.make().await?);
    let measured = both(options, &small, &full, &mut report).await;
    small.remove().await?;
    full.remove().await?;
    measured?;
    Ok(report)
}

async fn both(
    options: &Options,
    small: &Database,
    full: &Database,
    report: &mut Report,
) -> anyhow::Result<()> {
    fill::fill(small, options.small).await?;
    fill::fill(full, options.runs()).await?;
    let sides = [Side::of(small).await?, Side::of(full).await?];
    let mut figures: [Vec<Measured>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..options.rounds() {
        let rounds = if options.common.share {
            // Pages are counted for each database by itself, so that both can be asked at once.
            let [small, full] = &sides;
            let (small, full) = tokio::join!(one_round(options, small), one_round(options, full));
            [small?, full?]
        } else {
            let [small, full] = &sides;
            [
                one_round(options, small).await?,
                one_round(options, full).await?,
            ]
        };
        for (round, figures) in rounds.into_iter().zip(&mut figures) {
            if figures.is_empty() {
                figures.extend(round.into_iter().map(Measured::new));
            } else {
                for (known, new) in figures.iter_mut().zip(round) {
                    known.add(new);
                }
            }
        }
    }
    let [small, full] = figures;
    for (small, full) in small.into_iter().zip(full) {
        let (cells, failures) = judge(&small, &full, options.common.share);
        report.row(cells, failures);
    }
    if options.history() > 0 && options.common.wants("retention") {
        let (cells, failures) =
            library::long_history(&sides[1].database, options.history(), options.common.share)
                .await?;
        report.row(cells, failures);
    }
    Ok(())
}

impl Side {
    async fn of(database: &Database) -> anyhow::Result<Self> {
        Ok(Self {
            pages: Pages::of(database).await?,
            database: database.clone(),
        })
    }
}

/// Every figure once.
async fn one_round(options: &Options, side: &Side) -> anyhow::Result<Vec<Figure>> {
    let common = &options.common;
    let server = Served::start(&side.database.url, common.server.as_deref(), &[]).await?;
    let mut figures = reads::measure(common, &server, side.pages.as_ref()).await?;
    figures.extend(starts::measure(options, &server, side.pages.as_ref()).await?);
    server.stop().await?;
    if !common.share {
        figures.extend(library::measure(options, &side.database).await?);
    }
    Ok(figures)
}
