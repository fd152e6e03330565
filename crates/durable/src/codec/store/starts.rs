//! A start stays the same start, however its input is encoded.

use crate::persistence::StoreResult;
use crate::persistence::model::{StartOutcome, StartRejection, StartRun};

use super::CodecStore;
use crate::codec::PayloadCodec;

/// The numbers under which a start may be known, the one to write first.
pub(crate) fn known_as(codec: &dyn PayloadCodec, start: &StartRun) -> Vec<i64> {
    let plain = start.fingerprint();
    let mut forms = codec.fingerprints(plain);
    forms.push(plain);
    forms
}

impl CodecStore {
    /// Fixes what stands for starts, before their inputs are encoded.
    pub(super) fn fingerprint<'a>(&self, starts: impl IntoIterator<Item = &'a mut StartRun>) {
        for start in starts {
            let forms = self.codec.fingerprints(start.fingerprint());
            start.sealed_fingerprint = forms.first().copied();
        }
    }

    /// The numbers under which each start may be known: with a key that has been replaced since, or before there was a codec.
    pub(super) fn known_as(&self, starts: &[StartRun]) -> Vec<Vec<i64>> {
        let forms = |start: &StartRun| known_as(&*self.codec, start);
        starts.iter().map(forms).collect()
    }

    /// A run that has the key may have been started by the same start under an older fingerprint.
    pub(super) async fn recognise(
        &self,
        outcome: StartOutcome,
        known_as: &[i64],
    ) -> StoreResult<StartOutcome> {
        let StartOutcome::Rejected(StartRejection::KeyConflict { run_id }) = outcome else {
            return Ok(outcome);
        };
        let only_one = known_as.iter().all(|form| *form == known_as[0]);
        if only_one {
            return Ok(outcome);
        }
        let run = self.inner.get_run(run_id).await?;
        Ok(match run {
            Some(run) if known_as.contains(&run.fingerprint) => StartOutcome::Existing { run_id },
            _ => outcome,
        })
    }
}
