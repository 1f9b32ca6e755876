//! Writes whose answers are lost: the server acted on them, and the next read shows it.

use std::convert::Infallible;
use std::io::ErrorKind;
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use setpoint::{Action, Client, Context, Controller, DeleteOptions, Key, Manager, ManagerOptions, Query};
use tokio::time::Instant;

use crate::consistency::with_client;
use crate::controllers::{CONFIG_MAPS, beside, config_map, until};
use crate::fake::Fake;

/// How the answers to writes get lost after the server has acted.
#[derive(Clone, Copy, Debug)]
pub enum Lost {
    /// No answer ever comes.
    Silence,
    /// This status comes in place of the answer.
    Status(u16, &'static str),
}

const LOST: [Lost; 4] =
    [Lost::Silence, Lost::Status(504, "Timeout"), Lost::Status(500, ""), Lost::Status(502, "")];

type Act = fn(Client) -> BoxFuture<'static, ()>;

/// Writes, and the names that a list finds after each of them: `a` was there before.
const WRITES: [(&str, Act, &[&str]); 5] = [
    ("create", |client| Box::pin(async move { drop(client.create(&named("b")).await) }), &["a", "b"]),
    (
        "create with a generated name",
        |client| {
            let mut object = named("");
            object.metadata.generate_name = Some("a-".to_owned());
            Box::pin(async move { drop(client.create(&object).await) })
        },
        &["a", "a-101"],
    ),
    ("apply", |client| Box::pin(async move { drop(client.apply(&named("b")).await) }), &["a", "b"]),
    (
        "delete",
        |client| Box::pin(async move { drop(client.delete::<ConfigMap>(("default", "a")).await) }),
        &[],
    ),
    (
        "delete a collection",
        |client| {
            Box::pin(async move {
                let options = DeleteOptions::default();
                drop(client.delete_collection::<ConfigMap>(Query::namespace("default"), &options).await);
            })
        },
        &[],
    ),
];

fn named(name: &str) -> ConfigMap {
    let mut object: ConfigMap = serde_json::from_value(config_map(name, "new")).unwrap();
    object.metadata.name = Some(name.to_owned()).filter(|name| !name.is_empty());
    object
}

#[tokio::test(start_paused = true)]
async fn a_read_after_a_write_without_an_answer_shows_what_became_of_it() {
    for (what, write, left) in WRITES {
        for lost in LOST {
            let fake = Fake::new();
            fake.put(CONFIG_MAPS, config_map("a", "old"));
            with_client(&fake, async |client, _| {
                client.get::<ConfigMap>(("default", "a")).await.unwrap().unwrap();
                fake.hold_watches(true);
                fake.lose_answers(Some(lost));
                // Silence ends with the drop of the future, as at the end of a reconcile's time.
                let _ = tokio::time::timeout(Duration::from_secs(1), write(client.clone())).await;
                fake.lose_answers(None);
                let began = Instant::now();
                let read = client.list::<ConfigMap>(Query::namespace("default")).await.unwrap();
                let names: Vec<&str> =
                    read.iter().map(|read| read.metadata.name.as_deref().unwrap()).collect();
                assert_eq!(names, left, "{what}, {lost:?}");
                assert_eq!(began.elapsed().as_secs(), 0, "{what}, {lost:?}: the list was asked for at once");
            })
            .await;
        }
    }
}

/// A ReplicaSet would otherwise make one pod more for each lost answer.
#[tokio::test(start_paused = true)]
async fn a_reconcile_counts_what_an_unanswered_create_made() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "old"));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let creates = |count: usize| fake.writes().len() == count;
    Controller::for_kind::<ConfigMap>(&manager)
        .reconcile_timeout(Duration::from_secs(1))
        .register(|ctx: Context, _: Key| async move {
            let made = ctx.client().list::<ConfigMap>(Query::namespace("default")).await?;
            if made.len() < 2 {
                let mut child = named("");
                child.metadata.generate_name = Some("a-".to_owned());
                ctx.client().create(&child).await?;
            }
            Ok(Action::done())
        })
        .unwrap();
    fake.lose_answers(Some(Lost::Silence));
    // Lists are answered.
    fake.hold_watches(true);
    beside(&manager, async {
        until("the first create", || creates(1)).await;
        fake.lose_answers(None);
        // The reconcile ends after a second, and its back-off calls it again many times within a minute.
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(fake.writes().len(), 1, "{:?}", fake.writes());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_surely_refused_costs_no_list() {
    for (code, reason) in
        [(409, "Conflict"), (403, "Forbidden"), (500, "InternalError"), (503, "ServiceUnavailable")]
    {
        let fake = Fake::new();
        fake.put(CONFIG_MAPS, config_map("a", "old"));
        with_client(&fake, async |client, _| {
            client.get::<ConfigMap>(("default", "a")).await.unwrap().unwrap();
            fake.refuse(move |method, _| (*method != http::Method::GET).then_some((code, reason)));
            let asked = fake.reads("/configmaps").len();
            client.create(&named("b")).await.unwrap_err();
            assert!(client.get::<ConfigMap>(("default", "b")).await.unwrap().is_none());
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(fake.reads("/configmaps").len(), asked, "{code} {reason}");
        })
        .await;
    }
}

/// A server that is not there did nothing; one that lost the connection may have.
#[tokio::test(start_paused = true)]
async fn only_a_connection_that_was_made_leaves_a_doubt() {
    for (kind, lists) in [(ErrorKind::ConnectionRefused, 0), (ErrorKind::ConnectionReset, 1)] {
        let fake = Fake::new();
        fake.put(CONFIG_MAPS, config_map("a", "old"));
        let inner = fake.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let mut fake = inner.clone();
            async move {
                if *request.method() != http::Method::GET {
                    return Err(std::io::Error::from(kind));
                }
                let Ok::<Response<_>, Infallible>(answer) = tower::Service::call(&mut fake, request).await;
                Ok(answer)
            }
        });
        let manager = Manager::new(kube::Client::new(service, "default"), ManagerOptions::default());
        manager.informer::<ConfigMap>();
        let client = manager.client();
        beside(&manager, async {
            client.get::<ConfigMap>(("default", "a")).await.unwrap().unwrap();
            let asked = fake.reads("/configmaps").len();
            client.create(&named("b")).await.unwrap_err();
            assert!(client.get::<ConfigMap>(("default", "b")).await.unwrap().is_none());
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(fake.reads("/configmaps").len() - asked, lists, "{kind}");
        })
        .await;
    }
}
