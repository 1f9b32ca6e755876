//! Sends events to the server, one after the other.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use setpoint_api::Random;
use setpoint_api::clock::{rfc3339_micros, rfc3339_seconds};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::correlate::{Correlator, CorrelatorOptions, Refresh, Step};
use super::{Recorded, Unsent};
use crate::client::{Call, Transport};
use crate::error::ClientError;
use crate::lease::LeaderClock;
use crate::metrics::Metrics;

/// How often sending one event is tried when the server cannot be reached.
const TRIES: u32 = 12;
/// How long to wait between two tries.
const RETRY: Duration = Duration::from_secs(10);
/// How often the series that go on are looked through.
const SERIES_TICK: Duration = Duration::from_secs(60);
const MERGE_PATCH: &str = "application/merge-patch+json";
/// The longest message that the server takes.
const MESSAGE_BYTES: usize = 1024;

/// Which of the two event APIs to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventApi {
    /// `events.k8s.io/v1`: series. Needs create and patch rights on events of that group.
    #[default]
    EventsV1,
    /// `v1`: counts.
    CoreV1,
}

/// The task behind all recorders of a manager.
pub(crate) struct Sink {
    transport: Transport,
    correlator: Correlator,
    api: EventApi,
    instance: Arc<str>,
    random: Random,
    metrics: Metrics,
    start: Instant,
}

impl Sink {
    pub(crate) fn new(
        transport: Transport,
        api: EventApi,
        options: CorrelatorOptions,
        instance: &str,
        random: Random,
        metrics: Metrics,
    ) -> Self {
        Sink {
            transport,
            correlator: Correlator::new(options, api == EventApi::EventsV1),
            api,
            instance: instance.into(),
            random,
            metrics,
            start: Instant::now(),
        }
    }

    /// Sends what arrives, until every recorder is gone.
    pub(crate) async fn run(mut self, mut events: mpsc::Receiver<Recorded>, unsent: Unsent) {
        loop {
            let tick = self.start + self.start.elapsed() + SERIES_TICK;
            tokio::select! {
                biased;
                event = events.recv() => match event {
                    None => return,
                    Some(event) => {
                        self.handle(event).await;
                        unsent.sent();
                    }
                },
                () = tokio::time::sleep_until(tick), if self.correlator.has_series() => self.refresh().await,
            }
        }
    }

    /// Tells the server how far the series have come.
    async fn refresh(&mut self) {
        for Refresh { namespace, name, count, observed, leader } in
            self.correlator.refresh(self.start.elapsed())
        {
            let patch = json!({"series": {"count": count, "lastObservedTime": rfc3339_micros(observed)}});
            let call = self.call(&namespace, Method::PATCH, Some(&name), MERGE_PATCH, &patch);
            if let Err(error) = self.send(leader.as_ref(), &call).await {
                tracing::debug!(%error, name, "the count of a series was not told");
            }
        }
    }

    async fn handle(&mut self, event: Recorded) {
        let (step, slot) = self.correlator.judge(&event, self.start.elapsed());
        match step {
            Step::Drop => self.metrics.event_dropped("spam"),
            Step::Later => {}
            Step::Create { message } => self.create(&event, &message, &slot).await,
            Step::Count { name, count, message, first } => {
                let patch = self.count_patch(&event, count, &message, first);
                let call = self.call(namespace(&event), Method::PATCH, Some(&name), MERGE_PATCH, &patch);
                if let Err(error) = self.send(event.leader.as_ref(), &call).await {
                    if error.is_not_found() {
                        self.correlator.gone(&slot);
                        self.create(&event, &message, &slot).await;
                    } else {
                        self.failed(&event, &error);
                    }
                }
            }
        }
    }

    async fn create(&mut self, event: &Recorded, message: &str, slot: &super::correlate::Slot) {
        let name = self.name(event);
        let body = self.body(event, &name, message);
        let call = self.call(namespace(event), Method::POST, None, "application/json", &body);
        match self.send(event.leader.as_ref(), &call).await {
            Ok(_) => self.correlator.created(slot, &name),
            Err(error) => self.failed(event, &error),
        }
    }

    fn failed(&self, event: &Recorded, error: &ClientError) {
        let reason = if matches!(error, ClientError::NotLeader) { "not-leader" } else { "refused" };
        self.metrics.event_dropped(reason);
        tracing::debug!(%error, reason = event.reason, "event not sent");
    }

    /// Tries again only when the server could not be reached: what it refuses once it refuses again.
    async fn send(&self, leader: Option<&LeaderClock>, call: &Call) -> Result<Bytes, ClientError> {
        let mut tries = 1;
        loop {
            match self.transport.call(leader, call).await {
                Err(ClientError::Transport { .. } | ClientError::Timeout { .. }) if tries < TRIES => {
                    let stretch = if tries == 1 { self.random.unit() } else { 1.0 };
                    tokio::time::sleep(RETRY.mul_f64(stretch)).await;
                    tries += 1;
                }
                result => return result,
            }
        }
    }

    /// Object name, a dot and a number that grows.
    fn name(&self, event: &Recorded) -> String {
        let object = event.regarding.name.as_deref().unwrap_or("object");
        let name = format!("{object}.{:x}", event.time.as_nanosecond());
        let valid = name.len() <= 253
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte));
        if valid { name } else { self.random.uid() }
    }

    fn call(
        &self,
        namespace: &str,
        method: Method,
        name: Option<&str>,
        content_type: &'static str,
        body: &Value,
    ) -> Call {
        let group = match self.api {
            EventApi::EventsV1 => "/apis/events.k8s.io/v1",
            EventApi::CoreV1 => "/api/v1",
        };
        let mut path = format!("{group}/namespaces/{namespace}/events");
        if let Some(name) = name {
            path.push('/');
            path.push_str(name);
        }
        Call { method, path, content_type, body: Bytes::from(body.to_string()), reconcile_id: None }
    }

    fn body(&self, event: &Recorded, name: &str, message: &str) -> Value {
        let metadata = json!({"name": name, "namespace": namespace(event)});
        match self.api {
            EventApi::EventsV1 => json!({
                "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": metadata,
                "eventTime": rfc3339_micros(event.time),
                "reportingController": &*event.controller,
                "reportingInstance": self.reporting_instance(event),
                "action": event.action, "reason": event.reason,
                "regarding": event.regarding, "related": event.related,
                "note": shorten(message), "type": event.kind.to_string(),
            }),
            EventApi::CoreV1 => json!({
                "apiVersion": "v1", "kind": "Event", "metadata": metadata,
                "involvedObject": event.regarding, "related": event.related,
                "reason": event.reason, "message": shorten(message), "type": event.kind.to_string(),
                "firstTimestamp": rfc3339_seconds(event.time), "lastTimestamp": rfc3339_seconds(event.time),
                "count": 1, "source": {"component": &*event.controller},
                "reportingComponent": &*event.controller, "reportingInstance": "",
            }),
        }
    }

    fn reporting_instance(&self, event: &Recorded) -> String {
        let mut instance = format!("{}-{}", event.controller, self.instance);
        instance.truncate(128);
        instance
    }

    fn count_patch(&self, event: &Recorded, count: u32, message: &str, first: jiff::Timestamp) -> Value {
        match self.api {
            EventApi::EventsV1 => json!({
                "series": {"count": count, "lastObservedTime": rfc3339_micros(event.time)}, "note": shorten(message),
            }),
            EventApi::CoreV1 => json!({
                "count": count, "message": shorten(message), "firstTimestamp": rfc3339_seconds(first),
                "lastTimestamp": rfc3339_seconds(event.time),
            }),
        }
    }
}

/// Events about objects without a namespace live in `default`.
pub(super) fn namespace(event: &Recorded) -> &str {
    event.regarding.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

fn shorten(message: &str) -> &str {
    if message.len() <= MESSAGE_BYTES {
        return message;
    }
    let end = (0..=MESSAGE_BYTES).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
    &message[..end]
}
