//! Waiting for something to become true.

use std::time::{Duration, Instant};

/// How often is looked.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Looks until there is an answer; none when the patience is at its end. An error of one look is
/// not the end: what is measured here may be overloaded on purpose.
pub(super) async fn until<T>(
    patience: Duration,
    look: impl AsyncFn() -> anyhow::Result<Option<T>>,
) -> Option<T> {
    let began = Instant::now();
    loop {
        if let Ok(Some(found)) = look().await {
            return Some(found);
        }
        if began.elapsed() >= patience {
            return None;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
