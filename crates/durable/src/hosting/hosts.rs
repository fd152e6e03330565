//! Which hosts there are, and which of them is given a run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;

use super::{Activation, HostError, Hosting, Step, WorkflowHost};
use crate::persistence::model::HostedType;

/// A host that is attached, or was.
pub(crate) struct Attached {
    number: u64,
    host: Arc<dyn WorkflowHost>,
    types: BTreeSet<HostedType>,
    build: String,
    alive: AtomicBool,
    /// Activations it has not answered.
    busy: AtomicU64,
}

impl Attached {
    pub(crate) fn build(&self) -> &str {
        &self.build
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::SeqCst)
    }

    /// See [`WorkflowHost::turn`].
    pub(crate) async fn turn(&self, activation: Activation) -> Result<Vec<Step>, HostError> {
        /// Counted down also where the caller gives up waiting.
        struct Busy<'a>(&'a AtomicU64);
        impl Drop for Busy<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.busy.fetch_add(1, Ordering::Relaxed);
        let _busy = Busy(&self.busy);
        self.host.turn(activation).await
    }

    pub(super) fn forget(&self, run_id: uuid::Uuid) {
        if self.is_alive() {
            self.host.forget(run_id);
        }
    }
}

/// Hosts of workflows in other processes; they come and go.
#[derive(Default)]
pub(crate) struct WorkflowHosts {
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    /// In the order in which they came.
    hosts: BTreeMap<u64, Arc<Attached>>,
}

impl WorkflowHosts {
    pub(super) fn attach(
        &self,
        host: Arc<dyn WorkflowHost>,
        types: BTreeSet<HostedType>,
        build: String,
    ) -> u64 {
        let mut state = self.state.write();
        state.last += 1;
        let number = state.last;
        let attached = Attached {
            number,
            host,
            types,
            build,
            alive: AtomicBool::new(true),
            busy: AtomicU64::new(0),
        };
        state.hosts.insert(number, Arc::new(attached));
        number
    }

    pub(super) fn detach(&self, number: u64) {
        if let Some(gone) = self.state.write().hosts.remove(&number) {
            gone.alive.store(false, Ordering::SeqCst);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state.read().hosts.is_empty()
    }

    /// What can be turned now, by build: a claim passes over runs that are blocked for a build.
    pub(crate) fn hosted_by_build(&self) -> BTreeMap<String, Vec<HostedType>> {
        let mut newest: BTreeMap<&HostedType, &str> = BTreeMap::new();
        let state = self.state.read();
        for host in state.hosts.values() {
            newest.extend(host.types.iter().map(|hosted| (hosted, host.build())));
        }
        let mut by_build: BTreeMap<String, Vec<HostedType>> = BTreeMap::new();
        for (hosted, build) in newest {
            let types = by_build.entry(build.to_owned()).or_default();
            types.push(hosted.clone());
        }
        by_build
    }

    /// What can be turned now.
    pub(crate) fn hosted(&self) -> BTreeSet<HostedType> {
        let state = self.state.read();
        let types = state.hosts.values().flat_map(|host| &host.types);
        types.cloned().collect()
    }

    /// The versions of a type that can be turned now.
    pub(crate) fn versions(&self, workflow_type: &str) -> Vec<String> {
        let mut hosted = self.hosted();
        hosted.retain(|hosted| hosted.workflow_type == workflow_type);
        hosted.into_iter().map(|hosted| hosted.version).collect()
    }

    /// The host for a run: of those with the code that came last, one that answers, and of these the one with the least to do.
    pub(crate) fn pick(&self, workflow_type: &str, version: &str) -> Option<Arc<Attached>> {
        let wanted = HostedType {
            workflow_type: workflow_type.to_owned(),
            version: version.to_owned(),
        };
        let state = self.state.read();
        let able = state.hosts.values().rev();
        let able = able.filter(|host| host.types.contains(&wanted));
        let newest = able.clone().next()?;
        able.filter(|host| host.build == newest.build)
            .min_by_key(|host| {
                let busy = host.busy.load(Ordering::Relaxed);
                (host.host.is_stalled(), busy, host.number)
            })
            .cloned()
    }
}

/// A host's workflows are offered until this is dropped.
pub struct Attachment {
    hosting: Hosting,
    number: u64,
}

impl Attachment {
    pub(super) const fn new(hosting: Hosting, number: u64) -> Self {
        Self { hosting, number }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.hosting.detached(self.number);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    struct Host(AtomicBool);

    #[async_trait::async_trait]
    impl WorkflowHost for Host {
        async fn turn(&self, _: Activation) -> Result<Vec<Step>, HostError> {
            Ok(Vec::new())
        }

        fn forget(&self, _: Uuid) {}

        fn is_stalled(&self) -> bool {
            self.0.load(Ordering::SeqCst)
        }
    }

    #[test]
    fn a_host_that_does_not_answer_is_asked_only_where_no_other_has_its_code() {
        let hosts = WorkflowHosts::default();
        let hosted = HostedType {
            workflow_type: "trip".to_owned(),
            version: String::new(),
        };
        let attach = |build: &str| {
            let host = Arc::new(Host(AtomicBool::new(false)));
            let types = BTreeSet::from([hosted.clone()]);
            let number = hosts.attach(Arc::clone(&host) as _, types, build.to_owned());
            (host, number)
        };
        let picked = || hosts.pick("trip", "").map(|host| host.number);
        let (_, _) = attach("old");
        let (first, one) = attach("new");
        let (second, two) = attach("new");
        assert_eq!(picked(), Some(one));
        first.0.store(true, Ordering::SeqCst);
        assert_eq!(picked(), Some(two));
        second.0.store(true, Ordering::SeqCst);
        assert_eq!(picked(), Some(one), "not other code");
    }
}
