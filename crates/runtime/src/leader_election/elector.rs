//! The elector: acquires, renews and releases one Lease.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::ObjectMeta;
use setpoint_api::{Clock, Random};
use tokio::sync::watch;
use tokio::time::Instant;

use super::record::{Observer, Record};
use crate::client::{Call, Doubt, JSON, Kind, Transport, decode, encode};
use crate::error::{ClientError, NotFoundExt};
use crate::leader_clock::LeaderClock;
use crate::metrics::LeaderMetrics;
use crate::repeated::Repeated;
use crate::request_path::{Parameters, path};
use crate::user_agent::field_manager;

/// How far the wait between two tries of a candidate is stretched at random (client-go's jitter factor).
const JITTER: f64 = 1.2;

/// How one process takes part in an election.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LeaderElection {
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name: the same for all that compete.
    pub name: String,
    /// The name of this process: different for all that compete. The manager's name and a random part, if empty.
    pub identity: String,
    /// The field manager of the Lease. The manager's name, if empty.
    pub field_manager: String,
    /// How long a lease must stand still before another takes it.
    pub lease_duration: Duration,
    /// How long the holder may fail to renew before it stops.
    pub renew_deadline: Duration,
    /// How often it is renewed, and how often candidates look.
    pub retry_period: Duration,
    /// Whether a process that stops gives the lease up, so that the next one need not wait.
    pub release_on_stop: bool,
}

impl LeaderElection {
    /// client-go's defaults: 15 s, 10 s, 2 s; released on stop.
    pub fn new(namespace: &str, name: &str) -> Self {
        LeaderElection {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: String::new(),
            field_manager: String::new(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            release_on_stop: true,
        }
    }

    /// Sets the identity.
    #[must_use]
    pub fn identity(mut self, identity: &str) -> Self {
        self.identity = identity.to_owned();
        self
    }

    /// client-go's rules: lease > renew deadline > 1.2 × retry period > 0; the lease counts in whole seconds.
    ///
    /// # Errors
    /// When a rule is broken.
    pub fn validate(&self) -> Result<(), LeaderElectionError> {
        if self.name.is_empty() || self.namespace.is_empty() {
            return Err(LeaderElectionError::Nameless);
        }
        // Rivals read whole seconds.
        if Duration::from_secs(self.lease_duration.as_secs()) <= self.renew_deadline {
            return Err(LeaderElectionError::LeaseTooShort);
        }
        if self.renew_deadline.as_secs_f64() <= self.retry_period.as_secs_f64() * JITTER {
            return Err(LeaderElectionError::DeadlineTooShort);
        }
        if self.retry_period.is_zero() || self.lease_duration < Duration::from_secs(1) {
            return Err(LeaderElectionError::NotPositive);
        }
        Ok(())
    }
}

/// Durations with which no election works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaderElectionError {
    /// No name or namespace.
    #[error("leader election needs the namespace and name of a Lease")]
    Nameless,
    /// The lease must outlive the renew deadline.
    #[error("leaseDuration, in whole seconds, must be greater than renewDeadline")]
    LeaseTooShort,
    /// The renew deadline must allow for a retry.
    #[error("renewDeadline must be greater than retryPeriod*JitterFactor")]
    DeadlineTooShort,
    /// All durations must be positive, the lease at least a second.
    #[error("leaseDuration must be at least one second and retryPeriod greater than zero")]
    NotPositive,
}

/// Runs one election.
pub(crate) struct Elector {
    options: LeaderElection,
    transport: Transport,
    observer: Observer,
    lease: Option<Lease>,
    start: Instant,
    leader: LeaderClock,
    wall: Clock,
    random: Random,
    metrics: LeaderMetrics,
    holder: watch::Sender<Option<String>>,
    /// The failures that were told in the last minute: nothing else says why nobody leads.
    repeated: Repeated<()>,
}

impl Elector {
    pub(crate) fn new(
        transport: Transport,
        options: LeaderElection,
        leader: LeaderClock,
        wall: Clock,
        random: Random,
        metrics: LeaderMetrics,
        holder: watch::Sender<Option<String>>,
    ) -> Self {
        Elector {
            transport,
            observer: Observer::new(&options.identity, options.lease_duration),
            lease: None,
            start: Instant::now(),
            leader,
            wall,
            random,
            metrics,
            holder,
            options,
            repeated: Repeated::default(),
        }
    }

    /// Returns once this process is the leader.
    pub(crate) async fn acquire(&mut self) {
        loop {
            if self.attempt(Duration::MAX).await {
                self.metrics.status.set(1);
                tracing::info!(lease = %self.name(), identity = %self.options.identity, "became leader");
                return;
            }
            let stretch = 1.0 + JITTER * self.random.unit();
            tokio::time::sleep(self.options.retry_period.mul_f64(stretch)).await;
        }
    }

    /// Keeps the lease; returns when it was not renewed in time or somebody else has it.
    pub(crate) async fn hold(&mut self) {
        loop {
            tokio::time::sleep(self.options.retry_period).await;
            loop {
                let Some(deadline) = self.leader.until() else { return self.lose() };
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return self.lose();
                }
                if self.attempt(left).await {
                    break;
                }
                if self.observer.holder().is_some() && !self.observer.is_leader() {
                    return self.lose();
                }
                tokio::time::sleep_until(deadline.min(Instant::now() + self.options.retry_period)).await;
            }
        }
    }

    fn lose(&mut self) {
        self.leader.stop();
        self.metrics.status.set(0);
        tracing::warn!(lease = %self.name(), identity = %self.options.identity, "lost the lease");
    }

    /// Gives the lease up. Call it once nothing that needs the lease runs any more.
    pub(crate) async fn release(&mut self) {
        let held = self.leader.until().is_some();
        self.leader.stop();
        self.metrics.status.set(0);
        if !held || !self.options.release_on_stop {
            return;
        }
        let released = tokio::time::timeout(self.options.renew_deadline, async {
            while let Err(error) = self.write_release().await {
                if !error.is_conflict() {
                    tracing::warn!(lease = %self.name(), %error, "could not release the lease");
                    return;
                }
            }
        });
        if released.await.is_err() {
            tracing::warn!(lease = %self.name(), "releasing the lease timed out");
        }
    }

    async fn write_release(&mut self) -> Result<(), ClientError> {
        let mut lease = self.send(Method::GET, None).await?;
        let record = lease.spec.as_ref().map(Record::read).unwrap_or_default();
        self.observer.observe(&record, self.start.elapsed());
        if !self.observer.is_leader() {
            return Ok(());
        }
        self.observer.release(self.wall.now()).write(lease.spec.get_or_insert_default());
        self.send(Method::PUT, Some(&lease)).await?;
        self.holder.send_replace(None);
        Ok(())
    }

    /// How long one request may take. Two of them make a try where the Lease has to be read first.
    fn request_timeout(&self) -> Duration {
        (self.options.renew_deadline / 2).max(Duration::from_secs(1))
    }

    fn name(&self) -> String {
        format!("{}/{}", self.options.namespace, self.options.name)
    }

    /// One try to take or keep the lease.
    async fn attempt(&mut self, within: Duration) -> bool {
        let claimed = match tokio::time::timeout(within, self.try_acquire_or_renew()).await {
            Ok(Ok(claimed)) => claimed,
            Ok(Err(error)) => {
                // Another candidate was faster: that is how an election goes.
                let told = match error.is_conflict() || error.is_already_exists() {
                    true => None,
                    false => self.repeated.failed((), &error.to_string(), Instant::now()),
                };
                match told {
                    Some(repeated) => {
                        tracing::warn!(lease = %self.name(), %error, repeated, "could not write the lease; retrying");
                    }
                    None => tracing::debug!(lease = %self.name(), %error, "could not write the lease"),
                }
                None
            }
            Err(_) => {
                tracing::debug!(lease = %self.name(), ?within, "writing the lease timed out");
                None
            }
        };
        // An answer that comes after the deadline comes too late: the workers have stopped for good.
        let held = claimed.is_some_and(|claimed| self.leader.extend(claimed + self.options.renew_deadline));
        let holder = self.observer.holder().map(str::to_owned);
        self.holder.send_if_modified(|known| {
            let changed = *known != holder;
            if changed {
                tracing::info!(lease = %format_args!("{}/{}", self.options.namespace, self.options.name),
                    leader = holder.as_deref().unwrap_or(""), "leader changed");
                *known = holder.clone();
            }
            changed
        });
        held
    }

    /// Since when the lease is ours, if it is: from before the request that claimed it, which the server may have
    /// answered late.
    async fn try_acquire_or_renew(&mut self) -> Result<Option<Instant>, ClientError> {
        // Taken out: while it is unknown what the server made of a request, nothing is written blindly.
        if self.observer.may_renew_blindly(self.start.elapsed())
            && let Some(lease) = self.lease.take()
        {
            match self.write(lease).await {
                Ok(claimed) => return Ok(claimed),
                Err(error) => {
                    tracing::debug!(lease = %self.name(), %error, "renewing the lease without a read failed; reading it first");
                    self.metrics.slow_path.inc();
                }
            }
        }
        self.lease = None;
        let Some(lease) = self.send(Method::GET, None).await.ignore_not_found()? else {
            return self.create().await;
        };
        let record = lease.spec.as_ref().map(Record::read).unwrap_or_default();
        self.observer.observe(&record, self.start.elapsed());
        self.write(lease).await
    }

    async fn create(&mut self) -> Result<Option<Instant>, ClientError> {
        let claimed = Instant::now();
        let mut observer = Observer::new(&self.options.identity, self.options.lease_duration);
        let record = observer.claim(self.wall.now(), self.start.elapsed());
        let Some(record) = record.filter(|_| !self.leader.is_over()) else { return Ok(None) };
        let mut spec = LeaseSpec::default();
        record.write(&mut spec);
        let metadata = ObjectMeta {
            name: Some(self.options.name.clone()),
            namespace: Some(self.options.namespace.clone()),
            ..ObjectMeta::default()
        };
        let lease = Lease { metadata, spec: Some(spec) };
        let created = self.send(Method::POST, Some(&lease)).await?;
        observer.observe(&record, self.start.elapsed());
        self.observer = observer;
        self.lease = Some(created);
        Ok(Some(claimed))
    }

    /// Sent once: a lease that the server asks to send later is asked for anew.
    async fn send(&self, method: Method, lease: Option<&Lease>) -> Result<Lease, ClientError> {
        let resource = Lease::api_resource();
        let name = (method != Method::POST).then_some(self.options.name.as_str());
        let mut target = path(&resource, Some(&self.options.namespace), name, None);
        if method != Method::GET {
            let mut parameters = Parameters::default();
            parameters.push("fieldManager", field_manager(&self.options.field_manager));
            parameters.append_to(&mut target);
        }
        let call = Call {
            path: target,
            content_type: if lease.is_some() { JSON } else { "" },
            body: lease.map_or_else(|| Ok(Bytes::new()), |lease| encode(&resource, lease))?,
            sender: None,
            doubt: Doubt::default(),
            method,
        };
        let after = self.request_timeout();
        let answer = tokio::time::timeout(after, self.transport.call_once(&call)).await;
        let late = |_| ClientError::Timeout { verb: call.method.to_string(), path: call.path.clone(), after };
        decode(&resource.kind, &answer.map_err(late)??)
    }

    /// Claims `lease` if it may be claimed.
    async fn write(&mut self, mut lease: Lease) -> Result<Option<Instant>, ClientError> {
        let claimed = Instant::now();
        // A holder that was stopped past its deadline must not bring its claim back to life when it wakes up here.
        if self.leader.is_over() {
            return Ok(None);
        }
        let Some(record) = self.observer.claim(self.wall.now(), self.start.elapsed()) else {
            return Ok(None);
        };
        record.write(lease.spec.get_or_insert_default());
        let written = self.send(Method::PUT, Some(&lease)).await?;
        self.observer.observe(&record, self.start.elapsed());
        self.lease = Some(written);
        Ok(Some(claimed))
    }
}
