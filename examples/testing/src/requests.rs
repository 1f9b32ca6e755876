//! A client that writes down what is asked, and that can be made to fail.

use std::sync::{Arc, Mutex};

use futures::{FutureExt, StreamExt};
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyDataStream, BodyExt, StreamBody};
use kube::client::Body;
use serde_json::json;
use tokio::sync::watch;

/// One request with the answer's status; none while it waits.
#[derive(Clone, Debug)]
pub struct Sent {
    /// GET, POST, PUT, PATCH or DELETE.
    pub method: Method,
    /// The path without the query.
    pub path: String,
    /// The query.
    pub query: String,
    /// The HTTP status of the answer.
    pub status: Option<u16>,
}

impl Sent {
    /// Whether it watches.
    pub fn is_watch(&self) -> bool {
        self.query.contains("watch=true") || self.query.contains("watch=1")
    }

    /// Whether it is about a lease.
    pub fn is_lease(&self) -> bool {
        self.path.contains("/leases")
    }

    /// Whether it changes something.
    pub fn is_write(&self) -> bool {
        self.method != Method::GET
    }
}

/// The fault that the requests meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// The write of this number (from 1) never reaches the server.
    HoldBefore(usize),
    /// The write of this number reaches the server, and its answer never comes back.
    HoldAfter(usize),
    /// The server does not know how to stream a list, as servers before 1.32 do not.
    NoStreaming,
}

#[derive(Debug, Default)]
struct State {
    sent: Vec<Sent>,
    writes: usize,
    fault: Fault,
    held: bool,
    cut: bool,
}

type Answer = UnsyncBoxBody<bytes::Bytes, <Body as http_body::Body>::Error>;

/// The requests of one or more clients. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Requests {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<()>,
}

impl Requests {
    /// None yet.
    pub fn new(fault: Fault) -> Requests {
        let state = State { fault, ..State::default() };
        Requests { state: Arc::new(Mutex::new(state)), changed: watch::Sender::new(()) }
    }

    /// A client that asks through `inner`.
    pub fn client(&self, inner: kube::Client) -> kube::Client {
        let requests = self.clone();
        let namespace = inner.default_namespace().to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (requests, inner) = (requests.clone(), inner.clone());
            async move { requests.pass(&inner, request).await }
        });
        kube::Client::new(service, namespace)
    }

    /// All so far.
    pub fn sent(&self) -> Vec<Sent> {
        self.state.lock().unwrap().sent.clone()
    }

    /// Those that lacked the right.
    pub fn forbidden(&self) -> Vec<Sent> {
        self.sent().into_iter().filter(|sent| sent.status == Some(403)).collect()
    }

    /// Waits until one lacks the right.
    pub async fn until_forbidden(&self) {
        self.until(|state| state.sent.iter().any(|sent| sent.status == Some(403))).await;
    }

    /// Waits until the fault has struck.
    pub async fn until_held(&self) {
        self.until(|state| state.held).await;
    }

    /// Ends every watch that is open and refuses new ones, or lets them through again.
    pub fn cut_watches(&self, cut: bool) {
        self.state.lock().unwrap().cut = cut;
        self.changed.send_replace(());
    }

    async fn until(&self, condition: impl Fn(&State) -> bool) {
        let mut changed = self.changed.subscribe();
        while !condition(&self.state.lock().unwrap()) {
            changed.changed().await.unwrap();
        }
    }

    /// Writes the request down; gives its place and whether it is held before or after the server.
    fn note(&self, sent: Sent) -> (usize, bool, bool) {
        let mut state = self.state.lock().unwrap();
        if sent.is_write() {
            state.writes += 1;
        }
        let write = sent.is_write().then_some(state.writes);
        let before = write.is_some_and(|number| state.fault == Fault::HoldBefore(number));
        let after = write.is_some_and(|number| state.fault == Fault::HoldAfter(number));
        state.sent.push(sent);
        (state.sent.len() - 1, before, after)
    }

    async fn hold(&self) -> ! {
        self.state.lock().unwrap().held = true;
        self.changed.send_replace(());
        std::future::pending().await
    }

    async fn pass(&self, inner: &kube::Client, request: Request<Body>) -> kube::Result<Response<Answer>> {
        let uri = request.uri();
        let (path, query) = (uri.path().to_owned(), uri.query().unwrap_or_default().to_owned());
        let sent = Sent { method: request.method().clone(), path, query, status: None };
        let (streams, watches) = (sent.query.contains("sendInitialEvents=true"), sent.is_watch());
        let (place, before, after) = self.note(sent);
        let (fault, cut) = {
            let state = self.state.lock().unwrap();
            (state.fault, state.cut)
        };
        if before {
            self.hold().await;
        }
        let response = if watches && cut {
            refusal(503, "ServiceUnavailable", "the watch was cut")
        } else if streams && fault == Fault::NoStreaming {
            let message =
                "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
            refusal(422, "Invalid", message)
        } else {
            inner.send(request).await?
        };
        if after {
            self.hold().await;
        }
        self.state.lock().unwrap().sent[place].status = Some(response.status().as_u16());
        self.changed.send_replace(());
        Ok(if watches { self.cuttable(response) } else { response.map(|body| body.boxed_unsync()) })
    }

    /// A watch's answer that ends when watches are cut.
    fn cuttable(&self, response: Response<Body>) -> Response<Answer> {
        let requests = self.clone();
        let cut = async move { requests.until(|state| state.cut).await }.boxed();
        response.map(|body| {
            let frames =
                BodyDataStream::new(body).map(|data| data.map(http_body::Frame::data)).take_until(cut);
            StreamBody::new(frames).boxed_unsync()
        })
    }
}

fn refusal(code: u16, reason: &str, message: &str) -> Response<Body> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure",
        "code": code, "reason": reason, "message": message,
    });
    Response::builder().status(code).body(Body::from(status.to_string().into_bytes())).unwrap()
}
