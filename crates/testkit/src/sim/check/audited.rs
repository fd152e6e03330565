//! The invariants that can be read from the store.

use super::Scene;
use crate::audit::audit_dump;

pub(super) fn check(scene: &Scene<'_>) {
    for violation in audit_dump(scene.dump).violations {
        scene.world.violated(violation.to_string());
    }
}
