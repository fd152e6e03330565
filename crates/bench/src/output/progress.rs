//! Bars on standard error, where somebody watches; nothing where it is a file or a pipe.

use indicatif::{ProgressBar, ProgressStyle};

/// One bar; gone when dropped.
#[derive(Debug)]
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// A bar for something that comes to an end after so much of it.
    pub(crate) fn new(what: impl Into<String>, length: usize) -> Self {
        let bar = ProgressBar::new(length as u64);
        // The template is fixed; were it wrong, the plain bar does as well.
        if let Ok(style) = ProgressStyle::with_template(
            "{msg:<32} {bar:30} {human_pos}/{human_len} {per_sec:>12} {elapsed}",
        ) {
            bar.set_style(style);
        }
        bar.set_message(what.into());
        Self(bar)
    }

    /// So much is done.
    pub(crate) fn set(&self, done: usize) {
        self.0.set_position(done as u64);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
