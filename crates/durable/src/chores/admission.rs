//! Samples the system for admission.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Chore;
use crate::persistence::StoreResult;
use crate::reliability::BackpressureCoordinator;

/// Keeps the sample new by which starts are admitted: starts read the sample and never the store.
pub(crate) struct Admission {
    coordinator: Arc<BackpressureCoordinator>,
}

impl Admission {
    pub(crate) const fn new(coordinator: Arc<BackpressureCoordinator>) -> Self {
        Self { coordinator }
    }
}

#[async_trait]
impl Chore for Admission {
    fn name(&self) -> &'static str {
        "admission"
    }

    async fn tick(&self) -> StoreResult<Duration> {
        self.coordinator.refresh().await
    }

    async fn rung(&self) {
        self.coordinator.wanted().await;
    }
}
