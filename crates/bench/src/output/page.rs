//! The report: one page with charts, which needs nothing but itself.

use std::fmt::Write as _;

use hdrhistogram::Histogram;
use serde_json::{Map, Value};

use super::Line;
use super::table::change;
use crate::figures::Figures;

/// Width of a chart.
const WIDTH: f64 = 640.0;
/// Height of a chart.
const HEIGHT: f64 = 180.0;
/// Room for the axes.
const MARGIN: f64 = 44.0;
/// Bars of a histogram.
const BARS: u32 = 48;

const STYLE: &str = "body{font:14px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}\
table{border-collapse:collapse;margin:.5rem 0}td,th{padding:.15rem .6rem;border-bottom:1px solid #ddd;text-align:left}\
section{margin:2rem 0}svg{display:block;margin:.5rem 0}svg text{font:11px system-ui,sans-serif;fill:#555}.bad{color:#a00}\
@media (prefers-color-scheme:dark){body{color:#ddd;background:#161616}td,th{border-color:#333}svg text{fill:#aaa}}";

/// The page.
pub(super) fn render(lines: &[Line], db: &str) -> String {
    let sections: Vec<String> = lines.iter().map(section).collect();
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>durable-bench on {db}</title><style>{STYLE}</style>\
         <h1>durable-bench on {db}</h1><p>Raw is the same work by bare statements, in the same run.</p>{}</html>\n",
        sections.concat()
    )
}

fn section(line: &Line) -> String {
    let (figures, earlier) = match line {
        Line::Measured { figures, earlier } => (figures, earlier),
        Line::Failed { job, why } => {
            return format!(
                "<section><h2>{job}</h2><p class=\"bad\">failed: {}</p></section>",
                escape(why)
            );
        }
        Line::Skipped { job, why } => {
            return format!(
                "<section><h2>{job}</h2><p>skipped: {}</p></section>",
                escape(why)
            );
        }
    };
    let mut rows = rows(&figures.parameters) + &rows_of(figures);
    if let Some(earlier) = earlier {
        rows += &row("checkpoint", &change(figures, earlier));
    }
    let histograms = figures
        .histograms
        .iter()
        .map(|(title, latency)| latency_chart(title, latency));
    let charts: String = histograms.collect();
    let throughput = figures
        .series
        .as_ref()
        .map_or_else(String::new, |series| rate_chart(&series.rates()));
    format!(
        "<section><h2>{} {}</h2><table>{rows}</table>{charts}{throughput}</section>",
        figures.job,
        figures.mode.as_str()
    )
}

fn rows_of(figures: &Figures) -> String {
    let mut rows = rows(&figures.values);
    if let Some(raw) = figures.raw {
        rows += &row("raw", &format!("{raw:.3}"));
    }
    if let Some(ratio) = figures.ratio() {
        rows += &row("ratio", &format!("{ratio:.2}"));
    }
    rows
}

fn rows(values: &Map<String, Value>) -> String {
    values
        .iter()
        .map(|(name, value)| row(name, &value.to_string()))
        .collect()
}

fn row(name: &str, value: &str) -> String {
    format!(
        "<tr><th>{}</th><td>{}</td></tr>",
        escape(name),
        escape(value)
    )
}

/// How often which latency, on a logarithmic axis.
#[allow(clippy::cast_precision_loss, reason = "places in a chart")]
fn latency_chart(title: &str, latency: &Histogram<u64>) -> String {
    if latency.is_empty() {
        return String::new();
    }
    let low = (latency.min().max(1) as f64).ln();
    let high = ((latency.max() + 1) as f64).ln().max(low + 0.01);
    let edge = |bar: u32| (low + (high - low) * f64::from(bar) / f64::from(BARS)).exp();
    let counts: Vec<f64> = (0..BARS)
        .map(|bar| {
            let recorded = latency.iter_recorded().filter(|value| {
                let micros = (value.value_iterated_to() as f64).min(latency.max() as f64);
                micros >= edge(bar) - 0.5 && (micros < edge(bar + 1) - 0.5 || bar + 1 == BARS)
            });
            recorded
                .map(|value| value.count_since_last_iteration() as f64)
                .sum()
        })
        .collect();
    let most = counts.iter().copied().fold(1.0, f64::max);
    let step = (WIDTH - 2.0 * MARGIN) / f64::from(BARS);
    let mut bars = String::new();
    for (bar, count) in (0..BARS).zip(&counts).filter(|(_, count)| **count > 0.0) {
        let height = count / most * (HEIGHT - 2.0 * MARGIN);
        let (x, y) = (MARGIN + step * f64::from(bar), HEIGHT - MARGIN - height);
        let _ = write!(
            bars,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"#4a7db5\"/>",
            step - 1.0
        );
    }
    for bar in (0..=BARS).step_by(12) {
        bars += &label(
            MARGIN + step * f64::from(bar),
            HEIGHT - MARGIN + 16.0,
            &format!("{:.2} ms", edge(bar) / 1000.0),
        );
    }
    let title = format!(
        "{title}: {} values, the most in one bar {most:.0}",
        latency.len()
    );
    chart(&title, &bars)
}

/// The rate over time.
fn rate_chart(rates: &[(f64, f64)]) -> String {
    let Some(&(end, _)) = rates.last() else {
        return String::new();
    };
    let most = rates.iter().map(|point| point.1).fold(1.0, f64::max);
    let place = |&(time, rate): &(f64, f64)| {
        let x = MARGIN + time / end * (WIDTH - 2.0 * MARGIN);
        let y = HEIGHT - MARGIN - rate / most * (HEIGHT - 2.0 * MARGIN);
        format!("{x:.1},{y:.1}")
    };
    let points: Vec<String> = rates.iter().map(place).collect();
    let mut drawn = format!(
        "<polyline fill=\"none\" stroke=\"#4a7db5\" stroke-width=\"1.5\" points=\"{}\"/>",
        points.join(" ")
    );
    for quarter in 0..=4_u32 {
        let part = f64::from(quarter) / 4.0;
        drawn += &label(
            MARGIN + part * (WIDTH - 2.0 * MARGIN),
            HEIGHT - MARGIN + 16.0,
            &format!("{:.1} s", part * end),
        );
    }
    chart(&format!("throughput, the most {most:.0}/s"), &drawn)
}

fn label(x: f64, y: f64, text: &str) -> String {
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>",
        escape(text)
    )
}

fn chart(title: &str, drawn: &str) -> String {
    let base = HEIGHT - MARGIN;
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\"><title>{title}</title>\
         <text x=\"{MARGIN}\" y=\"16\">{title}</text><line x1=\"{MARGIN}\" y1=\"{base}\" x2=\"{}\" y2=\"{base}\" stroke=\"#999\"/>{drawn}</svg>",
        WIDTH - MARGIN,
        title = escape(title)
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::figures::{Series, histogram, note};
    use crate::options::Mode;

    #[test]
    fn the_page_has_charts_and_needs_nothing_else() {
        let mut latency = histogram().expect("bounds");
        let mut series = Series::default();
        for ms in 1..=200 {
            note(&mut latency, Duration::from_millis(ms));
            series.note(Duration::from_millis(ms), 2.0);
        }
        let mut figures = Figures::time("J3", Mode::Embedded, "p50_ms", 1.0).with("case", "<odd>");
        figures.add_latency("", latency);
        figures.series = Some(series);
        let measured = Line::Measured {
            figures,
            earlier: None,
        };
        let page = render(&[measured], "memory");
        assert_eq!(page.matches("<svg").count(), 2);
        assert!(page.contains("<polyline") && page.contains("&lt;odd&gt;"));
        for outside in ["http:", "https:", "<script", "url(", "<link", "<img"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn every_value_is_in_one_bar() {
        let mut latency = histogram().expect("bounds");
        for value in [1, 10, 100, 1_000, 10_000, 1_000_000] {
            note(&mut latency, Duration::from_micros(value));
        }
        let chart = latency_chart("latency", &latency);
        assert_eq!(chart.matches("<rect").count(), 6, "{chart}");
    }
}
