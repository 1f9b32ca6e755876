//! A server over TLS whose clients have certificates. A user is a short name, or is written out:
//! `CN=alice,O=dev` is a certificate with these attributes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request};
use http_body_util::{BodyExt, Full};
use rustls::ClientConfig;
use tokio::sync::Mutex;

use crate::message::{Received, Sent};
use crate::peer::Connection;
use crate::tls::{Pair, client_config};

/// Longest wait for one answer: an attack that hangs ends here and counts as no answer.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(150);

/// How often a request is sent again that was not begun.
const AGAIN: usize = 5;
const NOT_BEGUN: &str = "no answer: the connection was closed before the request";

/// Issues the certificate of a user.
pub type Issue = Box<dyn Fn(&str) -> Result<Pair> + Send + Sync>;

/// A user, and which of the user's connections.
type Slot = (String, usize);

/// A server and the clients that it knows.
pub struct Certified {
    /// `127.0.0.1:PORT`.
    pub address: String,
    /// Authorities of the server's certificate, as PEM.
    pub authority: Vec<u8>,
    issue: Issue,
    /// How often each request is sent at once. The last answer counts.
    pub copies: AtomicUsize,
    connections: Mutex<BTreeMap<Slot, Arc<Mutex<Connection>>>>,
}

impl Certified {
    pub fn new(address: String, authority: Vec<u8>, issue: Issue) -> Certified {
        let connections = Mutex::default();
        Certified { address, authority, issue, copies: AtomicUsize::new(1), connections }
    }

    /// A new connection of a user with HTTP/2.
    pub async fn connect(&self, user: &str) -> Result<Connection> {
        let tls = self.config(user, &[b"h2"])?;
        Connection::to(&self.address, tls).await
    }

    /// The TLS settings of a user.
    pub fn config(&self, user: &str, protocols: &[&[u8]]) -> Result<Arc<ClientConfig>> {
        let pair = if user == "anonymous" { None } else { Some((self.issue)(user)?) };
        client_config(&self.authority, pair.as_ref(), protocols)
    }

    async fn connection(&self, user: &str, copy: usize) -> Result<Arc<Mutex<Connection>>> {
        let mut connections = self.connections.lock().await;
        let slot = (user.to_owned(), copy);
        if let Some(open) = connections.get(&slot)
            && !open.lock().await.is_closed()
        {
            return Ok(open.clone());
        }
        let made = Arc::new(Mutex::new(self.connect(user).await?));
        connections.insert(slot, made.clone());
        Ok(made)
    }

    /// Sends a request on the user's connection, as many times at once as `copies` says.
    pub async fn send(self: &Arc<Self>, sent: &Sent) -> Result<Received> {
        let copies = self.copies.load(Ordering::Relaxed);
        let mut tasks = tokio::task::JoinSet::new();
        for copy in 0..copies {
            let (this, sent) = (self.clone(), sent.clone());
            tasks.spawn(async move { this.send_copy(&sent, copy).await });
        }
        let mut last = None;
        while let Some(ended) = tasks.join_next().await {
            last = Some(ended??);
        }
        last.context("no copies")
    }

    /// Sends a request once, on a connection beside those of [`Certified::send`].
    pub async fn send_once(&self, sent: &Sent) -> Result<Received> {
        self.send_copy(sent, usize::MAX).await
    }

    /// kube-apiserver closes the connection of a client that it refuses. A request that was not begun is sent again.
    async fn send_copy(&self, sent: &Sent, copy: usize) -> Result<Received> {
        for _ in 0..AGAIN {
            let received = self.try_copy(sent, copy).await?;
            if received.status != 0 || received.body != NOT_BEGUN {
                return Ok(received);
            }
            self.connections.lock().await.remove(&(sent.user.clone(), copy));
        }
        self.try_copy(sent, copy).await
    }

    async fn try_copy(&self, sent: &Sent, copy: usize) -> Result<Received> {
        let connection = self.connection(&sent.user, copy).await?;
        let ask = async {
            let request = self.request(sent)?;
            let answer = connection.lock().await.begin(request).await?;
            let (head, body) = answer.await?.into_parts();
            let body = body.collect().await?.to_bytes();
            anyhow::Ok(Received { status: head.status.as_u16(), headers: head.headers, body })
        };
        match tokio::time::timeout(PATIENCE, ask).await {
            Ok(Ok(received)) => Ok(received),
            Ok(Err(error)) if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled) => {
                Ok(nothing(NOT_BEGUN))
            }
            // An attack may end its connection: that is an answer too.
            Ok(Err(error)) => Ok(nothing(&format!("no answer: {error:#}"))),
            Err(_) => Ok(nothing("no answer: too late")),
        }
    }

    fn request(&self, sent: &Sent) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(sent.method.as_str())
            .uri(format!("https://{}{}", self.address, sent.path));
        for (name, value) in &sent.headers {
            request = request.header(name, HeaderValue::from_bytes(value.as_bytes())?);
        }
        Ok(request.body(Full::new(sent.body.clone()))?)
    }
}

fn nothing(why: &str) -> Received {
    Received { status: 0, headers: HeaderMap::new(), body: Bytes::from(why.to_owned()) }
}
