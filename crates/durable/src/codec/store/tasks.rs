//! Claimed tasks: handed out decoded, or put back.

use std::time::Duration;

use super::CodecStore;
use crate::persistence::StoreResult;
use crate::persistence::model::{ClaimedTask, TaskRelease};

/// How long tasks wait when what the codec needs cannot be reached.
const UNREACHABLE_PAUSE: Duration = Duration::from_secs(1);

impl CodecStore {
    /// Claimed tasks, decoded. Where that cannot be done for now, they are put back: otherwise each lease that runs out would
    /// count as a delivery.
    pub(super) async fn decoded_tasks(
        &self,
        tasks: Vec<ClaimedTask>,
    ) -> StoreResult<Vec<ClaimedTask>> {
        let leases: Vec<_> = tasks.iter().map(|task| task.lease.clone()).collect();
        let decoded = self.decoded_each(tasks).await;
        if decoded.is_err() {
            let park = |lease| TaskRelease::parked(lease, UNREACHABLE_PAUSE);
            let releases = leases.into_iter().map(park).collect();
            self.inner.release_tasks(releases, None).await?;
        }
        decoded
    }
}
