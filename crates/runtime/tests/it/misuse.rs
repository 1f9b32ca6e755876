//! Mistakes of an operator's author and of a cluster, and the lines that tell of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;
use serde_json::{Value, json};
use setpoint::client::{controller_reference, set_controller_reference};
use setpoint::informer::Index;
use setpoint::leader_election::LeaderElection;
use setpoint::manager::{LogTarget, ManagerError};
use setpoint::{
    Action, ClientError, Context, Controller, Error, Key, Manager, ManagerOptions, Patch, Query, SetupError,
    Target, Watch,
};

use tokio::time::Instant;

use crate::controllers::{CONFIG_MAPS, beside, beside_panics, config_map};
use crate::fake::Fake;
use crate::logging::Listener;

type Reconcile = fn(Context, Key) -> BoxFuture<'static, Result<Action, Error>>;

/// Reconciles one ConfigMap, `default/a`, with a mistake for so long. Returns the lines about it, how often the mistake
/// was made, and the server.
async fn lines_of(mistake: Reconcile, seconds: u64) -> (Vec<String>, u32, Fake) {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    lines_over(fake, mistake, seconds, None).await
}

async fn lines_over(
    fake: Fake,
    mistake: Reconcile,
    seconds: u64,
    timeout: Option<Duration>,
) -> (Vec<String>, u32, Fake) {
    let listener = Listener::default();
    let guard = listener.listen();
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let mut controller = Controller::for_kind::<ConfigMap>(&manager);
    if let Some(timeout) = timeout {
        controller = controller.reconcile_timeout(timeout);
    }
    controller
        .register(move |ctx: Context, key: Key| {
            counted.fetch_add(1, Ordering::Relaxed);
            mistake(ctx, key)
        })
        .unwrap();
    beside_panics(&manager, tokio::time::sleep(Duration::from_secs(seconds))).await;
    drop(guard);
    let lines = listener.warnings();
    for line in &lines {
        for field in [r#""controller": "configmap""#, r#""object": "default/a""#, r#""reconcile_id": "#] {
            assert!(line.contains(field), "{field}: {line}");
        }
    }
    (lines, runs.load(Ordering::Relaxed), fake)
}

fn assert_one(lines: &[String], texts: &[&str]) {
    assert_eq!(lines.len(), 1, "{lines:#?}");
    for text in texts {
        assert!(lines[0].contains(text), "{text}: {}", lines[0]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_undeclared_read_is_terminal_and_says_what_to_declare() {
    let mistake: Reconcile = |ctx, key| {
        Box::pin(async move {
            ctx.client().get::<Secret>(&key).await?;
            Ok(Action::done())
        })
    };
    let (lines, runs, _) = lines_of(mistake, 600).await;
    assert_one(&lines, &["no informer keeps Secret", ".reads::<Secret>()", r#""terminal": "true""#]);
    assert_eq!(runs, 1);
}

#[tokio::test(start_paused = true)]
async fn an_undeclared_index_is_named() {
    let fake = Fake::new();
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let informer = manager.informer::<ConfigMap>();
    informer.add_index(Index::new("by-app", |_| Vec::new())).unwrap();
    let client = manager.client();
    beside(&manager, async {
        informer.wait_synced().await;
        let error =
            client.list::<ConfigMap>(Query::default().index("by-ap", "x")).await.unwrap_err().to_string();
        assert!(error.starts_with(r#"ConfigMap has no index "by-ap": declare it"#), "{error}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_failure_is_told_once_a_minute_with_how_often_it_came_meanwhile() {
    let mistake: Reconcile = |_, _| Box::pin(async { Err(Error::msg("the bucket is busy")) });
    let (lines, runs, _) = lines_of(mistake, 150).await;
    assert!(runs > 12, "{runs}");
    assert!((2..=3).contains(&lines.len()), "{lines:#?}");
    assert!(
        lines[0].contains(r#""repeated": "0""#) && !lines[1].contains(r#""repeated": "0""#),
        "{lines:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_told_once_a_minute() {
    let mistake: Reconcile = |_, _| Box::pin(async { panic!("index out of bounds") });
    let (lines, runs, _) = lines_of(mistake, 50).await;
    assert!(runs > 10, "{runs}");
    assert_one(&lines, &["reconcile panicked", "index out of bounds"]);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_is_told_once_a_minute() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let mistake: Reconcile = |_, _| Box::pin(std::future::pending());
    let (lines, runs, _) = lines_over(fake, mistake, 50, Some(Duration::from_secs(1))).await;
    assert!(runs > 5, "{runs}");
    assert_one(&lines, &["reconcile timed out", r#""after": "1s""#]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_names_verb_path_and_code() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    fake.refuse(|method, path| {
        (*method == Method::PATCH && path.ends_with("configmaps/a")).then_some((403, "Forbidden"))
    });
    let mistake: Reconcile = |ctx, key| {
        Box::pin(async move {
            ctx.client().patch::<ConfigMap>(&key, &Patch::Merge(json!({"data": {}}))).await?;
            Ok(Action::done())
        })
    };
    let (lines, ..) = lines_over(fake, mistake, 1, None).await;
    let told = "PATCH /api/v1/namespaces/default/configmaps/a: 403 Forbidden: refused: Forbidden";
    assert_one(&lines, &[told]);
    assert!(!lines[0].contains("fieldManager"), "the query is not told: {}", lines[0]);
}

fn widgets() -> ApiResource {
    let kind = kube::core::GroupVersionKind::gvk("example.org", "v1", "Widget");
    ApiResource::from_gvk_with_plural(&kind, "widgets")
}

/// A server that does not know the kind answers as kube-apiserver does: with a text, not a Status.
#[tokio::test(start_paused = true)]
async fn a_write_of_a_kind_that_is_not_installed_asks_whether_it_is() {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        let body = kube::client::Body::from(b"404 page not found\n".to_vec());
        Ok::<_, std::convert::Infallible>(http::Response::builder().status(404).body(body).unwrap())
    });
    let test = Context::for_test(kube::Client::new(service, "default"));
    let context = test.context();
    let resource = widgets();
    let client = context.client().dynamic(&resource);
    let widget = json!({"apiVersion": "example.org/v1", "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default"}});
    let error = client.create(&widget).await.unwrap_err().to_string();
    let told = "POST /apis/example.org/v1/namespaces/default/widgets: 404: 404 page not found; is the definition of \
                the kind installed?";
    assert_eq!(error, told);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_a_kind_that_is_not_installed_asks_whether_it_is_and_says_when_it_works() {
    let fake = Fake::new();
    let missing = Arc::new(AtomicU32::new(1));
    let installed = Arc::clone(&missing);
    fake.refuse(move |_, path| {
        (path.contains("widgets") && installed.load(Ordering::Relaxed) == 1).then_some((404, "NotFound"))
    });
    let listener = Listener::default();
    let guard = listener.listen();
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let informer = manager.informer_of(Target::resource(widgets()));
    beside(&manager, async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        missing.store(0, Ordering::Relaxed);
        informer.wait_synced().await;
    })
    .await;
    drop(guard);
    let failed = listener.lines("the request failed; retrying");
    assert_one(&failed, &["Widget", "is its definition installed?", "/apis/example.org/v1/widgets"]);
    assert_one(&listener.lines("the requests succeed again"), &["Widget"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_again_and_again_is_told_once_a_minute() {
    let fake = Fake::new();
    let turn = Arc::new(AtomicU32::new(0));
    fake.refuse(move |_, path| {
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        (path.contains("configmaps") && !turn.is_multiple_of(2)).then_some((403, "Forbidden"))
    });
    let listener = Listener::default();
    let guard = listener.listen();
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    manager.informer::<ConfigMap>();
    beside(&manager, async {
        for _ in 0..25 {
            tokio::time::sleep(Duration::from_secs(2)).await;
            fake.end_watches();
        }
    })
    .await;
    drop(guard);
    assert_one(&listener.lines("the request failed; retrying"), &["ConfigMap"]);
    assert_one(&listener.lines("the requests succeed again"), &["ConfigMap"]);
}

#[tokio::test(start_paused = true)]
async fn caches_that_do_not_sync_are_named_with_their_failure() {
    let fake = Fake::new();
    fake.refuse(|_, path| path.contains("widgets").then_some((404, "NotFound")));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    manager.informer_of(Target::resource(widgets()));
    let ended = manager.run(std::future::pending()).await.unwrap_err();
    assert!(matches!(ended, ManagerError::CacheSync { .. }));
    let ended = ended.to_string();
    assert!(ended.contains("Widget (") && ended.contains("is its definition installed?"), "{ended}");
}

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Counted {
    metadata: ObjectMeta,
    data: Data,
}

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Data {
    key: u16,
}

impl kube::Resource for Counted {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        "ConfigMap".into()
    }

    fn group((): &()) -> std::borrow::Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> std::borrow::Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        "configmaps".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_no_such_type_is_named_with_its_field() {
    let mistake: Reconcile = |ctx, key| {
        Box::pin(async move {
            ctx.client().get::<Counted>(&key).await?;
            Ok(Action::done())
        })
    };
    let (lines, ..) = lines_of(mistake, 1).await;
    assert_one(
        &lines,
        &["default/a (resourceVersion 101) does not decode", "data.key: invalid type: string"],
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_such_type_is_named_with_its_field() {
    let mistake: Reconcile = |ctx, key| {
        Box::pin(async move {
            ctx.client().patch::<Counted>(&key, &Patch::Merge(json!({"data": {"key": "much"}}))).await?;
            Ok(Action::done())
        })
    };
    let (lines, ..) = lines_of(mistake, 1).await;
    assert_one(&lines, &["the answer does not decode as ConfigMap: data.key: invalid type: string"]);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_differs_at_each_pass_is_a_hot_loop() {
    let mistake: Reconcile = |ctx, key| {
        Box::pin(async move {
            let at = ctx.reconcile_id().to_owned();
            ctx.client().patch::<ConfigMap>(&key, &Patch::Merge(json!({"data": {"seen": at}}))).await?;
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(Action::done())
        })
    };
    let (lines, runs, _) = lines_of(mistake, 30).await;
    assert!(runs > 100, "{runs}");
    assert_one(&lines, &["each pass changes its own object", r#""passes": "20""#]);
}

/// Also a write that changes nothing, where somebody else changes the object each time.
#[tokio::test(start_paused = true)]
async fn an_object_that_others_change_is_no_hot_loop() {
    let listener = Listener::default();
    let guard = listener.listen();
    let fake = Fake::new();
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    Controller::for_kind::<ConfigMap>(&manager)
        .register(move |ctx: Context, key: Key| {
            counted.fetch_add(1, Ordering::Relaxed);
            async move {
                ctx.client().patch::<ConfigMap>(&key, &Patch::Merge(json!({"data": {"own": "1"}}))).await?;
                Ok(Action::done())
            }
        })
        .unwrap();
    beside(&manager, async {
        for number in 0..100 {
            let mut object = config_map("a", &number.to_string());
            object["data"]["own"] = "1".into();
            fake.put(CONFIG_MAPS, object);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    drop(guard);
    assert!(runs.load(Ordering::Relaxed) >= 100);
    assert!(listener.warnings().is_empty(), "{:#?}", listener.warnings());
}

/// Not in paused time: a thread is blocked in earnest, until the warning has come from another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reconcile_that_blocks_its_thread_past_its_timeout_is_named_while_it_does() {
    let listener = Listener::default();
    listener.listen_everywhere();
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("blocking", "1"));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let (ended, mut end) = tokio::sync::mpsc::unbounded_channel();
    let heard = listener.clone();
    Controller::for_kind::<ConfigMap>(&manager)
        .named("blocker")
        .reconcile_timeout(Duration::from_millis(5))
        .register(move |_: Context, _: Key| {
            let (heard, ended) = (heard.clone(), ended.clone());
            async move {
                let began = Instant::now();
                let warnings = || {
                    heard
                        .lines(r#""controller": "blocker""#)
                        .iter()
                        .filter(|line| line.contains("blocks its thread"))
                        .count()
                };
                while warnings() == 0 && began.elapsed() < Duration::from_secs(60) {
                    std::thread::yield_now();
                }
                let _ = ended.send(warnings());
                Ok(Action::done())
            }
        })
        .unwrap();
    let warnings = beside(&manager, async { end.recv().await.unwrap() }).await;
    assert_eq!(warnings, 1);
    assert_one(&listener.lines("blocks its thread"), &[r#""object": "default/blocking""#, "spawn_blocking"]);
}

fn elsewhere(owner: &ConfigMap) -> Result<Secret, Error> {
    let metadata = ObjectMeta {
        name: Some("child".into()),
        namespace: Some("other".into()),
        owner_references: Some(vec![controller_reference(owner)?]),
        ..ObjectMeta::default()
    };
    Ok(Secret { metadata, ..Secret::default() })
}

#[tokio::test(start_paused = true)]
async fn a_child_in_another_namespace_is_refused_before_it_is_sent() {
    let creates: Reconcile = |ctx, key| {
        Box::pin(async move {
            let owner = ctx.client().get::<ConfigMap>(&key).await?.unwrap();
            ctx.client().create(&elsewhere(&owner)?).await?;
            Ok(Action::done())
        })
    };
    let applies: Reconcile = |ctx, key| {
        Box::pin(async move {
            let owner = ctx.client().get::<ConfigMap>(&key).await?.unwrap();
            ctx.client().apply(&elsewhere(&owner)?).await?;
            Ok(Action::done())
        })
    };
    let sets: Reconcile = |ctx, key| {
        Box::pin(async move {
            let owner = ctx.client().get::<ConfigMap>(&key).await?.unwrap();
            set_controller_reference(&*owner, &mut elsewhere(&owner)?)?;
            Ok(Action::done())
        })
    };
    for (mistake, told) in [
        (creates, "the Secret in namespace other cannot be owned by the ConfigMap default/a"),
        (applies, "the Secret in namespace other cannot be owned by the ConfigMap default/a"),
        (sets, "cross-namespace owner references are disallowed"),
    ] {
        let (lines, runs, fake) = lines_of(mistake, 600).await;
        assert_one(&lines, &[told, r#""terminal": "true""#]);
        assert_eq!((runs, fake.writes()), (1, Vec::new()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_without_a_namespace_is_refused_before_it_is_sent() {
    let mistake: Reconcile = |ctx, key| {
        Box::pin(async move {
            let owner = ctx.client().get::<ConfigMap>(&key).await?.unwrap();
            let metadata = ObjectMeta {
                name: Some("child".into()),
                owner_references: Some(vec![controller_reference(&*owner)?]),
                ..ObjectMeta::default()
            };
            ctx.client().create(&Namespace { metadata, ..Namespace::default() }).await?;
            Ok(Action::done())
        })
    };
    let (lines, runs, fake) = lines_of(mistake, 600).await;
    assert_one(&lines, &["the Namespace lives in no namespace"]);
    assert_eq!((runs, fake.writes()), (1, Vec::new()));
}

/// Another object of the same name and kind may own a child where it lives itself.
#[tokio::test(start_paused = true)]
async fn a_child_of_a_namesake_is_its_own_affair() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let mistake: Reconcile = |ctx, key| {
        Box::pin(async move {
            let mut namesake = (*ctx.client().get::<ConfigMap>(&key).await?.unwrap()).clone();
            namesake.metadata.uid = Some("another".into());
            ctx.client().create(&elsewhere(&namesake)?).await?;
            Ok(Action::done())
        })
    };
    let (lines, _, fake) = lines_over(fake, mistake, 1, None).await;
    assert!(lines.is_empty(), "{lines:#?}");
    assert_eq!(fake.writes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_mutate_function_that_renames_is_terminal() {
    let mistake: Reconcile = |ctx, key| {
        Box::pin(async move {
            let object = ConfigMap { metadata: key.metadata(), ..ConfigMap::default() };
            let rename = |object: &mut ConfigMap| {
                object.metadata.name = Some("b".into());
                Ok(())
            };
            ctx.client().create_or_update(object, rename).await?;
            Ok(Action::done())
        })
    };
    let (lines, runs, _) = lines_of(mistake, 600).await;
    assert_one(&lines, &["the mutate function must not rename ConfigMap default/a"]);
    assert_eq!(runs, 1);
}

#[tokio::test(start_paused = true)]
async fn names_and_places_that_no_object_can_have_are_refused() {
    let fake = Fake::new();
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let live = manager.client();
    let error = |result: Result<Option<Value>, ClientError>| result.unwrap_err().to_string();
    let of = |key: Key| {
        let live = live.clone();
        async move { live.live().get_value(&ApiResource::erase::<ConfigMap>(&()), key).await }
    };
    let slash = error(of(Key::namespaced("default", "a/b")).await);
    assert!(slash.contains("cannot be the namespace or name of a ConfigMap"), "{slash}");
    let restricted = live.in_namespace("default");
    let other = restricted.live().get::<ConfigMap>(("other", "a")).await.unwrap_err().to_string();
    assert_eq!(other, "this client works in namespace default, not in other");
    assert!(fake.reads("configmaps/a").is_empty());
}

#[tokio::test(start_paused = true)]
async fn declarations_that_make_no_sense_say_what_to_declare() {
    let fake = Fake::new();
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let nothing = |_: Context, _: Key| async { Ok(Action::done()) };
    let refused = |controller: Controller| controller.register(nothing).map(drop).unwrap_err();
    assert_eq!(refused(Controller::new(&manager, "x")), SetupError::NoSource("x".into()));
    let no_kind = refused(Controller::new(&manager, "x").owns::<Secret>());
    assert!(no_kind.to_string().contains("begin with `Controller::for_kind`"), "{no_kind}");
    let selector = Target::of::<Secret>().labels("a in b");
    let selector = refused(Controller::for_kind::<ConfigMap>(&manager).watches(Watch::of_target(selector)));
    assert!(selector.to_string().starts_with("controller \"configmap\": "), "{selector}");
    let _first = Controller::for_kind::<ConfigMap>(&manager).register(nothing).unwrap();
    let twice = refused(Controller::for_kind::<ConfigMap>(&manager));
    assert!(twice.to_string().contains("`.named(..)`"), "{twice}");
}

/// An operator's filter would otherwise show the lines of the cluster that its test runs on.
#[tokio::test(start_paused = true)]
async fn the_controllers_of_a_cluster_log_under_their_own_target() {
    for (log_target, prefix) in
        [(LogTarget::Runtime, "setpoint::"), (LogTarget::BuiltIn, "setpoint_controllers")]
    {
        let listener = Listener::default();
        let guard = listener.listen();
        let fake = Fake::new();
        fake.put(CONFIG_MAPS, config_map("a", "1"));
        fake.refuse(|_, path| path.contains("secrets").then_some((403, "Forbidden")));
        let manager =
            Manager::new(fake.client(), ManagerOptions::with(|options| options.log_target = log_target));
        Controller::for_kind::<ConfigMap>(&manager)
            .register(|_: Context, _: Key| async { Err(Error::msg("no")) })
            .unwrap();
        beside(&manager, async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            manager.informer::<Secret>();
            tokio::time::sleep(Duration::from_secs(1)).await;
        })
        .await;
        drop(guard);
        for message in ["starting workers", "reconcile failed", "the request failed; retrying"] {
            let lines = listener.lines(message);
            assert!(!lines.is_empty(), "{message}");
            let of_target = format!(r#""target": "{prefix}"#);
            assert!(lines.iter().all(|line| line.contains(&of_target)), "{lines:#?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_to_the_lease_is_told_once_a_minute() {
    let fake = Fake::new();
    fake.refuse(|_, path| path.contains("/leases").then_some((403, "Forbidden")));
    let listener = Listener::default();
    let guard = listener.listen();
    let options = ManagerOptions::with(|options| {
        options.leader_election = Some(LeaderElection::new("default", "cafe"));
    });
    let manager = Manager::new(fake.client(), options);
    beside(&manager, tokio::time::sleep(Duration::from_secs(50))).await;
    drop(guard);
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/cafe: 403 Forbidden";
    assert_one(&listener.lines("could not write the lease; retrying"), &["default/cafe", path]);
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_to_record_events_is_told_once_a_minute() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    fake.refuse(|method, path| {
        (*method == Method::POST && path.contains("/events")).then_some((403, "Forbidden"))
    });
    let mistake: Reconcile = |ctx, key| {
        Box::pin(async move {
            let object = ctx.client().get::<ConfigMap>(&key).await?.unwrap();
            ctx.recorder().normal(&*object, "Seen", format!("in {}", ctx.reconcile_id()));
            Ok(Action::requeue_after(Duration::from_secs(5)))
        })
    };
    let listener = Listener::default();
    let guard = listener.listen();
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    Controller::for_kind::<ConfigMap>(&manager).register(mistake).unwrap();
    beside(&manager, tokio::time::sleep(Duration::from_secs(50))).await;
    drop(guard);
    let lines = listener.lines("could not send an event");
    assert_one(
        &lines,
        &["configmap", "default/a", "Seen", "POST /apis/events.k8s.io/v1/namespaces/default/events: 403"],
    );
}
