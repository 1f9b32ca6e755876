//! The log lines, and the content that they never have.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, Once};

use k8s_openapi::api::core::v1::Secret;
use serde_json::json;
use setpoint::{Action, Context, Controller, Error, Key, Manager, ManagerOptions, Patch};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::controllers::{SECRETS, beside, until};
use crate::fake::Fake;

/// Keeps every span and event as text, whatever its level.
#[derive(Clone, Default)]
pub struct Listener(Arc<Mutex<Heard>>);

#[derive(Default)]
struct Heard {
    spans: Vec<BTreeMap<String, String>>,
    events: Vec<(Level, String)>,
}

impl Listener {
    /// Hears what this thread says, until the guard is dropped.
    pub fn listen(&self) -> DefaultGuard {
        all_speak();
        tracing::subscriber::set_default(self.clone())
    }

    /// Hears what every thread says on which nobody else listens.
    pub fn listen_everywhere(&self) {
        all_speak();
        EVERYWHERE.lock().unwrap().push(self.clone());
    }

    /// The lines that contain a text, at the level of an information or above.
    pub fn lines(&self, text: &str) -> Vec<String> {
        let heard = self.0.lock().unwrap();
        let events = heard.events.iter().filter(|(level, line)| *level <= Level::INFO && line.contains(text));
        events.map(|(_, line)| line.clone()).collect()
    }

    /// The lines at the level of a warning, or of an error.
    pub fn warnings(&self) -> Vec<String> {
        let heard = self.0.lock().unwrap();
        heard.events.iter().filter(|(level, _)| *level <= Level::WARN).map(|(_, text)| text.clone()).collect()
    }
}

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl Subscriber for Listener {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = BTreeMap::from([("span".to_owned(), attributes.metadata().name().to_owned())]);
        attributes.record(&mut Fields(&mut fields));
        let mut heard = self.0.lock().unwrap();
        heard.spans.push(fields);
        Id::from_u64(heard.spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let target = event.metadata().target().to_owned();
        let mut fields = BTreeMap::from([("target".to_owned(), target)]);
        event.record(&mut Fields(&mut fields));
        self.0.lock().unwrap().events.push((*event.metadata().level(), format!("{fields:?}")));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

static EVERYWHERE: Mutex<Vec<Listener>> = Mutex::new(Vec::new());

/// A place in the code that first speaks on a thread where nobody listens is silent from then on, on every thread.
fn all_speak() {
    static ALL_SPEAK: Once = Once::new();
    ALL_SPEAK.call_once(|| {
        tracing::subscriber::set_global_default(Everywhere).unwrap();
        tracing::callsite::rebuild_interest_cache();
    });
}

/// Wants to hear everything, and tells those who listen everywhere.
struct Everywhere;

impl Subscriber for Everywhere {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        EVERYWHERE.lock().unwrap().iter().for_each(|listener| listener.event(event));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Hears only what a filter of warnings lets through: no span of a lower level, so no field of one.
#[derive(Clone, Default)]
struct Warnings(Listener);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        self.0.new_span(attributes)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.0.event(event);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A reconcile that fails in each way once, over a server that refuses some of its writes.
async fn play() {
    let fake = Fake::new();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default",
        "annotations": {"note": "marzipan"}}, "stringData": {"password": "marzipan"}});
    fake.put(SECRETS, secret);
    let refused = Mutex::new(vec![(409, "Conflict"), (422, "Invalid"), (500, "InternalError")]);
    fake.refuse(move |method, path| {
        (*method == http::Method::PATCH && path.contains("secrets")).then(|| refused.lock().unwrap().pop())?
    });
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let runs = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&runs);
    Controller::for_kind::<Secret>(&manager)
        .register(move |ctx: Context, key: Key| {
            let counted = Arc::clone(&counted);
            async move {
                let secret = ctx.client().get::<Secret>(&key).await?.unwrap();
                let patch = json!({"stringData": {"password": "marzipan and more"}});
                ctx.client().patch::<Secret>(&key, &Patch::Merge(patch)).await?;
                // Not this type: the error must not say what the object holds.
                let odd = ctx.client().patch::<Wrong>(&key, &Patch::Merge(json!({"x": "marzipan"}))).await;
                let error = Error::from(odd.unwrap_err());
                ctx.recorder().normal(&*secret, "Seen", "a secret");
                *counted.lock().unwrap() += 1;
                if *counted.lock().unwrap() == 1 { Err(error) } else { Ok(Action::done()) }
            }
        })
        .unwrap();
    beside(&manager, until("success", || *runs.lock().unwrap() >= 2)).await;
}

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Wrong {
    metadata: kube::api::ObjectMeta,
    x: u16,
}

impl kube::Resource for Wrong {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        "Secret".into()
    }

    fn group((): &()) -> std::borrow::Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> std::borrow::Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        "secrets".into()
    }

    fn meta(&self) -> &kube::api::ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut kube::api::ObjectMeta {
        &mut self.metadata
    }
}

#[tokio::test(start_paused = true)]
async fn each_reconcile_has_a_span_that_says_what_and_why_and_no_line_says_what_objects_hold() {
    let listener = Listener::default();
    let guard = listener.listen();
    play().await;
    drop(guard);
    let heard = listener.0.lock().unwrap();
    assert!(heard.events.len() > 3);
    let spans: Vec<_> = heard.spans.iter().filter(|span| span["span"] == "reconcile").collect();
    assert_eq!(
        (spans[0]["controller"].as_str(), spans[0]["object"].as_str(), spans[0]["attempt"].as_str()),
        ("secret", "default/s", "1")
    );
    assert_eq!(spans[0]["reasons"], "Secret initial");
    assert_eq!((spans[1]["attempt"].as_str(), spans[1]["reasons"].as_str()), ("2", "error"));
    let ids: std::collections::BTreeSet<_> = spans.iter().map(|span| &span["reconcile_id"]).collect();
    assert_eq!(ids.len(), spans.len(), "each has an id of its own");
    let texts = heard.events.iter().map(|(_, text)| text.clone());
    for text in texts.chain(heard.spans.iter().map(|span| format!("{span:?}"))) {
        assert!(!text.contains("marzipan"), "{text}");
    }
    let conflicts: Vec<_> =
        heard.events.iter().filter(|(_, text)| text.contains("somebody else wrote first")).collect();
    assert_eq!((conflicts.len(), conflicts[0].0), (1, Level::DEBUG), "a conflict is a debug line");
    let finished: Vec<_> =
        heard.events.iter().filter(|(_, text)| text.contains(r#""message": "reconcile finished""#)).collect();
    assert!(!finished.is_empty(), "a success is a line");
    for (level, text) in finished {
        assert_eq!(*level, Level::DEBUG);
        let success = r#""result": "\"success\"""#;
        for field in [r#""controller": "secret""#, r#""object": "default/s""#, success, r#""duration": "#] {
            assert!(text.contains(field), "{field}: {text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_filter_of_warnings_still_prints_what_failed_where() {
    let warnings = Warnings::default();
    // Makes every place in the code speak.
    drop(Listener::default().listen());
    let guard = tracing::subscriber::set_default(warnings.clone());
    play().await;
    drop(guard);
    let heard = warnings.0.0.lock().unwrap();
    assert!(heard.spans.is_empty(), "{:?}", heard.spans);
    let failed = heard.events.iter().find(|(_, text)| text.contains("reconcile failed"));
    let (level, text) = failed.expect("a line about the failure");
    assert_eq!(*level, Level::ERROR);
    for field in
        [r#""controller": "secret""#, r#""object": "default/s""#, r#""reconcile_id": "#, r#""error": "#]
    {
        assert!(text.contains(field), "{field}: {text}");
    }
}
