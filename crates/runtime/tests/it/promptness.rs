//! How soon an event is told.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use setpoint::Target;
use setpoint::informer::{
    FactoryOptions, InformerFactory, ListRequest, ListerWatcher, SharedInformer, SubscribeOptions,
    WatchFailure, WatchRequest, WatchStream,
};
use tokio::sync::mpsc;

const SYNCED: &str = concat!(
    r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
    "\n"
);

/// Longer than the events of a burst are apart.
const SILENCE: Duration = Duration::from_millis(1);

/// The pieces of a watch, and how many objects were cached each time that it was asked for more.
#[derive(Default)]
struct Talk {
    lines: Mutex<Option<mpsc::UnboundedReceiver<String>>>,
    informer: OnceLock<SharedInformer>,
    /// The objects cached, and whether there was an answer.
    asked: Mutex<Vec<(usize, bool)>>,
}

struct Watched(Arc<Talk>);

impl ListerWatcher for Watched {
    fn list(&self, _: ListRequest) -> BoxFuture<'static, Result<WatchStream, WatchFailure>> {
        futures::future::pending().boxed()
    }

    fn watch(&self, _: WatchRequest) -> BoxFuture<'static, Result<WatchStream, WatchFailure>> {
        let talk = Arc::clone(&self.0);
        let mut lines = talk.lines.lock().unwrap().take().expect("one watch does it all");
        let stream = futures::stream::poll_fn(move |context| {
            let answer = lines.poll_recv(context);
            let cached = talk.informer.get().unwrap().store().len();
            talk.asked.lock().unwrap().push((cached, answer.is_ready()));
            answer.map(|line| line.map(|line| Ok(Bytes::from(line))))
        });
        async move { Ok(stream.boxed()) }.boxed()
    }
}

fn added(name: &str, version: u32) -> String {
    let metadata = format!(r#"{{"namespace":"a","name":"{name}","resourceVersion":"{version}"}}"#);
    format!(r#"{{"type":"ADDED","object":{{"kind":"ConfigMap","apiVersion":"v1","metadata":{metadata}}}}}"#)
        + "\n"
}

/// An informer that has synced with nothing in it, and what it hears from now on.
async fn synced() -> (Arc<Talk>, SharedInformer, mpsc::UnboundedSender<String>) {
    let (say, lines) = mpsc::unbounded_channel();
    let talk = Arc::new(Talk { lines: Mutex::new(Some(lines)), ..Talk::default() });
    let watched = Arc::clone(&talk);
    let factory = InformerFactory::with_connect(
        Arc::new(move |_, _| Arc::new(Watched(Arc::clone(&watched)))),
        FactoryOptions::default(),
    );
    let informer = factory.informer(Target::of::<ConfigMap>());
    assert!(talk.informer.set(informer.clone()).is_ok());
    informer.start();
    say.send(SYNCED.to_owned()).unwrap();
    informer.wait_synced().await;
    (talk, informer, say)
}

#[tokio::test(start_paused = true)]
async fn the_first_event_after_a_silence_is_told_before_more_is_asked_for() {
    let (talk, informer, say) = synced().await;
    let mut events = informer.subscribe(&SubscribeOptions::default());
    for (number, name) in ["x", "y"].into_iter().enumerate() {
        tokio::time::sleep(SILENCE).await;
        say.send(added(name, number as u32 + 2)).unwrap();
        assert_eq!(events.recv().await.unwrap().key().as_str(), format!("a/{name}"));
    }
    let asked = talk.asked.lock().unwrap();
    let answered: Vec<usize> = (0..asked.len()).filter(|at| asked[*at].1).collect();
    let first_event = answered[1];
    assert_eq!(asked[first_event].0, 0, "{asked:?}");
    assert_eq!(asked[first_event + 1].0, 1, "asked for more before it was told: {asked:?}");
}

const LONG: usize = 4000;

fn long(name: &str) -> String {
    let text = "x".repeat(LONG);
    let metadata =
        format!(r#"{{"namespace":"a","name":"{name}","resourceVersion":"{}"}}"#, name.as_bytes()[0]);
    let object =
        format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{metadata},"data":{{"x":"{text}"}}}}"#);
    format!(r#"{{"type":"ADDED","object":{object}}}"#) + "\n"
}

#[tokio::test(start_paused = true)]
async fn an_event_that_comes_alone_is_told_as_it_came_and_made_small_after_that() {
    let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"101"}}}"#.to_owned() + "\n";
    let e = long("e");
    let (begun, rest) = e.split_at(e.len() / 2);
    let (silence, none) = (SILENCE, Duration::ZERO);
    let cases = [
        (silence, vec![long("a")], vec![("a", true)]),
        (silence, vec![long("b") + &long("c")], vec![("b", true), ("c", false)]),
        (none, vec![long("d")], vec![("d", false)]),
        (silence, vec![begun.to_owned(), rest.to_owned()], vec![("e", true)]),
        (silence, vec![bookmark, long("f")], vec![("f", false)]),
    ];
    let (_, informer, say) = synced().await;
    let mut events = informer.subscribe(&SubscribeOptions::default());
    let pass = async || {
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
    };
    for (silence, pieces, names) in cases {
        tokio::time::sleep(silence).await;
        for piece in pieces {
            say.send(piece).unwrap();
            pass().await;
        }
        for (name, as_it_came) in names {
            let told = events.recv().await.unwrap();
            assert_eq!(told.key().as_str(), format!("a/{name}"));
            assert_eq!(told.object().heap_bytes() > LONG, as_it_came, "{name}");
            let kept = informer.store().get(told.key().as_str()).unwrap();
            assert!(kept.heap_bytes() < LONG / 4, "it is made small: {name}");
            assert_eq!(kept.json(), told.object().json());
        }
    }
    // Six objects, one text.
    assert!(informer.store().bytes() < 2 * LONG as u64, "{}", informer.store().bytes());
}
