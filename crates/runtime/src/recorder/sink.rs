//! Sends events to the server, one after the other.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use k8s_openapi::api::{core, events};
use serde_json::{Value, json};
use setpoint_api::Random;
use setpoint_api::clock::{rfc3339_micros, rfc3339_seconds};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::correlate::{Correlator, CorrelatorOptions, Refresh, Step, namespace};
use super::{Recorded, Unsent};
use crate::client::{Call, Doubt, Kind, Transport};
use crate::error::ClientError;
use crate::key::Key;
use crate::leader_clock::LeaderClock;
use crate::metrics::Metrics;
use crate::repeated::Repeated;
use crate::request_path::{Parameters, path};
use crate::user_agent::field_manager;

/// How often sending one event is tried when the server cannot be reached.
const TRIES: u32 = 12;
/// How long to wait between two tries.
const RETRY: Duration = Duration::from_secs(10);
/// How often the series that go on are looked through.
const SERIES_TICK: Duration = Duration::from_secs(60);
const MERGE_PATCH: &str = "application/merge-patch+json";
/// The longest message that the server takes.
const MESSAGE_BYTES: usize = 1024;
/// The longest name of a reporting instance that the server takes.
const INSTANCE_BYTES: usize = 128;

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
    /// One for each of the two APIs: they count differently.
    series: Correlator,
    counts: Correlator,
    instance: Arc<str>,
    random: Random,
    metrics: Metrics,
    start: Instant,
    /// The number in the name of the last event.
    newest: i128,
    /// Failures that were told in the last minute, by controller.
    repeated: Repeated<Arc<str>>,
}

impl Sink {
    pub(crate) fn new(
        transport: Transport,
        options: CorrelatorOptions,
        instance: &str,
        random: Random,
        metrics: Metrics,
    ) -> Self {
        Sink {
            transport,
            series: Correlator::new(options.clone(), true),
            counts: Correlator::new(options, false),
            instance: instance.into(),
            random,
            metrics,
            start: Instant::now(),
            newest: 0,
            repeated: Repeated::default(),
        }
    }

    /// Sends what arrives, until every recorder is gone.
    pub(crate) async fn run(mut self, mut events: mpsc::Receiver<Recorded>, unsent: Unsent) {
        let mut tick = Instant::now() + SERIES_TICK;
        loop {
            tokio::select! {
                biased;
                // First, and at a time that no event moves: the series must be told while events keep coming.
                () = tokio::time::sleep_until(tick), if self.series.has_series() => {
                    self.refresh().await;
                    tick = Instant::now() + SERIES_TICK;
                }
                event = events.recv() => match event {
                    None => return,
                    Some(event) => {
                        self.handle(event).await;
                        unsent.sent();
                    }
                },
            }
        }
    }

    /// Tells the server how far the series have come.
    async fn refresh(&mut self) {
        for refresh in self.series.refresh(self.start.elapsed()) {
            let Refresh { slot, namespace, name, count, observed, leader } = refresh;
            let patch = json!({"series": {"count": count, "lastObservedTime": rfc3339_micros(observed)}});
            let place = (EventApi::EventsV1, namespace.as_str(), Some(name.as_str()));
            let call = call(place, &self.instance, Method::PATCH, MERGE_PATCH, &patch);
            if let Err(error) = self.send(leader.as_ref(), &call).await {
                tracing::debug!(%error, name, "could not update the count of an event series");
                if error.is_not_found() {
                    self.series.gone(&slot);
                }
            }
        }
    }

    async fn handle(&mut self, event: Recorded) {
        let elapsed = self.start.elapsed();
        let (step, slot) = self.correlator(event.api).next_step(&event, elapsed);
        match step {
            Step::Drop => self.metrics.event_dropped("spam"),
            Step::Later => {}
            Step::Create { message, count, first } => {
                let name = self.name(&event);
                self.create(&event, (name, count, first), &message, &slot).await;
            }
            Step::Count { name, count, message, first } => {
                let patch = count_patch(&event, count, &message, first);
                let place = (event.api, namespace(&event), Some(name.as_str()));
                let call = call(place, &self.instance, Method::PATCH, MERGE_PATCH, &patch);
                if let Err(error) = self.send(event.leader.as_ref(), &call).await {
                    if error.is_not_found() {
                        self.correlator(event.api).gone(&slot);
                        // A count goes on where it was, under the name that it had; a series begins anew.
                        let again = match event.api {
                            EventApi::CoreV1 => (name, count, first),
                            EventApi::EventsV1 => (self.name(&event), 1, event.time),
                        };
                        self.create(&event, again, &message, &slot).await;
                    } else {
                        self.failed(&event, &error);
                    }
                }
            }
        }
    }

    fn correlator(&mut self, api: EventApi) -> &mut Correlator {
        match api {
            EventApi::EventsV1 => &mut self.series,
            EventApi::CoreV1 => &mut self.counts,
        }
    }

    async fn create(
        &mut self,
        event: &Recorded,
        (name, count, first): (String, u32, jiff::Timestamp),
        message: &str,
        slot: &super::correlate::Slot,
    ) {
        let body = self.body(event, (&name, count, first), message);
        let place = (event.api, namespace(event), None);
        let call = call(place, &self.instance, Method::POST, "application/json", &body);
        match self.send(event.leader.as_ref(), &call).await {
            Ok(_) => self.correlator(event.api).created(slot, &name),
            // The answer to the first try was lost; the name is nobody else's.
            Err(error) if error.is_already_exists() => self.correlator(event.api).created(slot, &name),
            Err(error) => self.failed(event, &error),
        }
    }

    fn failed(&mut self, event: &Recorded, error: &ClientError) {
        let (controller, reason) = (&*event.controller, &*event.reason);
        let name = event.regarding.name.as_deref().unwrap_or_default();
        let object = Key::new(event.regarding.namespace.as_deref(), name);
        if matches!(error, ClientError::NotLeader) {
            self.metrics.event_dropped("not-leader");
            tracing::debug!(controller, %object, reason, %error, "event not sent");
            return;
        }
        self.metrics.event_dropped("refused");
        // One cause mostly concerns all events of a controller: a missing right, or a namespace that is going.
        let cause = format!("{:?}", error.code());
        match self.repeated.failed(Arc::clone(&event.controller), &cause, Instant::now()) {
            Some(repeated) => {
                tracing::warn!(controller, %object, reason, %error, repeated, "could not send an event; dropping it");
            }
            None => {
                tracing::debug!(controller, %object, reason, %error, "could not send an event; dropping it")
            }
        }
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

    /// Object name, a dot and a number that grows: the time, and more where two events share a moment.
    fn name(&mut self, event: &Recorded) -> String {
        self.newest = event.time.as_nanosecond().max(self.newest + 1);
        let object = event.regarding.name.as_deref().unwrap_or("object");
        let name = format!("{object}.{:x}", self.newest);
        let valid = name.len() <= 253
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte));
        if valid { name } else { self.random.uid() }
    }

    fn body(
        &self,
        event: &Recorded,
        (name, count, first): (&str, u32, jiff::Timestamp),
        message: &str,
    ) -> Value {
        let metadata = json!({"name": name, "namespace": namespace(event)});
        match event.api {
            EventApi::EventsV1 => json!({
                "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": metadata,
                "eventTime": rfc3339_micros(event.time),
                "reportingController": &*event.controller,
                "reportingInstance": self.reporting_instance(event),
                "action": event.action, "reason": event.reason,
                "regarding": event.regarding, "related": event.related,
                "note": shorten(message, MESSAGE_BYTES), "type": event.kind.to_string(),
            }),
            EventApi::CoreV1 => json!({
                "apiVersion": "v1", "kind": "Event", "metadata": metadata,
                "involvedObject": event.regarding, "related": event.related,
                "reason": event.reason, "message": shorten(message, MESSAGE_BYTES), "type": event.kind.to_string(),
                "firstTimestamp": rfc3339_seconds(first), "lastTimestamp": rfc3339_seconds(event.time),
                "count": count, "source": source(event),
                "reportingComponent": &*event.controller, "reportingInstance": &*event.host,
            }),
        }
    }

    fn reporting_instance(&self, event: &Recorded) -> String {
        let instance = format!("{}-{}", event.controller, self.instance);
        shorten(&instance, INSTANCE_BYTES).to_owned()
    }
}

fn source(event: &Recorded) -> Value {
    match &*event.host {
        "" => json!({"component": &*event.controller}),
        host => json!({"component": &*event.controller, "host": host}),
    }
}

fn call(
    (api, namespace, name): (EventApi, &str, Option<&str>),
    manager: &str,
    method: Method,
    content_type: &'static str,
    body: &Value,
) -> Call {
    let resource = match api {
        EventApi::EventsV1 => events::v1::Event::api_resource(),
        EventApi::CoreV1 => core::v1::Event::api_resource(),
    };
    let mut path = path(&resource, Some(namespace), name, None);
    let mut parameters = Parameters::default();
    parameters.push("fieldManager", field_manager(manager));
    parameters.append_to(&mut path);
    Call {
        method,
        path,
        content_type,
        body: Bytes::from(body.to_string()),
        sender: None,
        doubt: Doubt::default(),
    }
}

fn count_patch(event: &Recorded, count: u32, message: &str, first: jiff::Timestamp) -> Value {
    match event.api {
        // Nothing else of an event may change there: the note stays that of the first.
        EventApi::EventsV1 => json!({
            "series": {"count": count, "lastObservedTime": rfc3339_micros(event.time)},
        }),
        EventApi::CoreV1 => json!({
            "count": count, "message": shorten(message, MESSAGE_BYTES), "firstTimestamp": rfc3339_seconds(first),
            "lastTimestamp": rfc3339_seconds(event.time),
        }),
    }
}

/// As much of the beginning as fits, in whole characters.
fn shorten(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}
