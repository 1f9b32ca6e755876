//! Replicas that compete for a Lease: who leads, who is cut off, who sees nothing.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::process::Blind;
use super::{State, Wire};

/// Time for which the leader stays cut off after its Lease is over: the other replicas look at it every few seconds.
const AFTER_THE_LEASE: Duration = Duration::from_secs(10);
/// The duration of a Lease that names none.
const LEASE_SECONDS: u64 = 15;
/// Time for which a standby that has become the leader still sees nothing new in its open watches.
const STILL_BLIND: Duration = Duration::from_secs(6);

/// The Lease.
pub(super) struct Lease {
    /// Its key in the store.
    key: String,
    /// The last holder.
    holder: Option<String>,
    /// Whether the holder has changed in this step.
    changed: bool,
}

impl State {
    fn identity(&self, incarnation: u32) -> Option<&str> {
        self.processes.get(&incarnation)?.identity.as_deref()
    }
}

impl Wire {
    /// Says for which Lease the processes compete.
    pub fn elect(&self, namespace: &str, name: &str) {
        let key = format!("/registry/coordination.k8s.io/leases/{namespace}/{name}");
        self.state().lease = Some(Lease { key, holder: None, changed: false });
    }

    fn lease(&self) -> Option<Value> {
        let key = self.state().lease.as_ref()?.key.clone();
        serde_json::from_slice(&self.store.snapshot().get(key.as_bytes())?.value).ok()
    }

    fn holder(&self) -> Option<String> {
        let lease = self.lease()?;
        let holder = lease.pointer("/spec/holderIdentity")?.as_str()?;
        (!holder.is_empty()).then(|| holder.to_owned())
    }

    /// Notes the holder. `anew`: a step begins, and nobody has taken over in it yet.
    pub(super) fn look_at_lease(&self, anew: bool) {
        let Some(holder) = self.holder() else { return };
        let mut state = self.state();
        let Some(lease) = &mut state.lease else { return };
        let other = lease.holder.as_deref() != Some(&holder);
        lease.changed = !anew && (lease.changed || other);
        lease.holder = Some(holder.clone());
        if anew || !other {
            return;
        }
        let now = Instant::now();
        // The new leader begins to work.
        state.last_work = now;
        let sighted = now + STILL_BLIND;
        let leader = state.processes.values_mut().find(|process| process.identity.as_ref() == Some(&holder));
        if let Some(blind) = leader.and_then(|leader| leader.blind.as_mut()) {
            blind.until = Some(sighted);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Returns whether another process has become the leader in this step.
    pub fn changed_leader(&self) -> bool {
        self.state().lease.as_ref().is_some_and(|lease| lease.changed)
    }

    /// Returns the replica that holds the Lease, if a process competes for it and does not hold it.
    pub(super) fn rival(&self, incarnation: u32) -> Option<String> {
        let identity = self.state().identity(incarnation)?.to_owned();
        self.holder().filter(|holder| *holder != identity)
    }

    /// Cuts a process off from the server until its Lease is over and somebody else has it.
    pub fn cut_off(&self, incarnation: u32) {
        let seconds = self.lease().and_then(|lease| lease.pointer("/spec/leaseDurationSeconds")?.as_u64());
        let lease = Duration::from_secs(seconds.unwrap_or(LEASE_SECONDS));
        let until = Instant::now() + lease + AFTER_THE_LEASE;
        if let Some(process) = self.state().processes.get_mut(&incarnation) {
            process.cut_off = Some(until);
        }
    }

    /// Waits while a process is cut off.
    pub async fn connected(&self, incarnation: u32) {
        let until = self.state().processes.get(&incarnation).and_then(|process| process.cut_off);
        if let Some(until) = until {
            tokio::time::sleep_until(until).await;
        }
    }

    /// Lets the open watches of the other processes show nothing until they have led for some seconds.
    pub fn blind_others(&self, incarnation: u32) {
        let now = Instant::now();
        let mut state = self.state();
        for (_, process) in state.processes.iter_mut().filter(|(number, _)| **number != incarnation) {
            process.blind = Some(Blind { since: now, until: None });
        }
    }

    /// Waits until a watch of a process that began at `began` may go on.
    pub async fn sighted(&self, incarnation: u32, began: Instant) {
        loop {
            let changed = self.changed.notified();
            let blind = self.state().processes.get(&incarnation).and_then(|process| process.blind);
            match blind.filter(|blind| began <= blind.since) {
                None => return,
                Some(Blind { until: Some(until), .. }) => return tokio::time::sleep_until(until).await,
                Some(_) => changed.await,
            }
        }
    }
}
