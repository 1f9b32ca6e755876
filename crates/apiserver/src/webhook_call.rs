//! The call of a webhook, over a connection that is kept for the next call.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls_pki_types::{InvalidDnsNameError, ServerName};
use serde_json::Value;
use tokio::sync::AcquireError;

use crate::dial::{DialError, Endpoint, dial};
use crate::local_webhooks::Answering;
use crate::server::Server;
use crate::service::{self, ResolveError};
use crate::webhook::answer::{self, Answer, AnswerError, Room};
use crate::webhook::trust::{self, TrustError};
use crate::webhook::{AddressError, Patience, Place, Webhook};

/// The most connections kept for later calls. Others are closed.
const IDLE: usize = 8;

/// The reason why a webhook gave no answer, in the words of Go's client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error("Post \"{url}\": {why}")]
    Unanswered { url: Uri, why: Unanswered },
    #[error("{0}")]
    Refused(String),
    #[error("0-length response with status code: {0} and content type: application/json")]
    Empty(u16),
    #[error("couldn't get version/kind; json parse error: {0}")]
    Unreadable(#[from] serde_json::Error),
}

/// The part of a call that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unanswered {
    #[error("{0}")]
    Late(&'static str),
    #[error(transparent)]
    Closed(#[from] AcquireError),
    #[error(transparent)]
    Request(#[from] http::Error),
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error(transparent)]
    Name(#[from] InvalidDnsNameError),
    #[error("tls: failed to verify certificate: {}", distrust(.0))]
    Tls(std::io::Error),
    #[error(transparent)]
    Http(#[from] hyper::Error),
    #[error(transparent)]
    Answer(#[from] AnswerError),
}

impl Webhook {
    /// Posts JSON and reads JSON. A long answer takes room of the server, of the webhook, and of the request that asks
    /// (`own`).
    pub(crate) async fn call(
        &self,
        server: &Server,
        body: &Value,
        patience: Patience,
        own: &Room,
    ) -> Result<Value, CallError> {
        let url = self.url(patience.time)?;
        let failed = |why: Unanswered| CallError::Unanswered { url: url.clone(), why };
        let asked =
            tokio::time::timeout(patience.time, self.ask(server, &url, body.to_string().into(), own)).await;
        let (status, answer) =
            asked.map_err(|_| failed(Unanswered::Late(patience.exceeded)))?.map_err(failed)?;
        let bytes = &answer.bytes;
        if !status.is_success() {
            return Err(CallError::Refused(status_message(bytes).unwrap_or_else(|| refusal(status))));
        }
        if bytes.is_empty() {
            return Err(CallError::Empty(status.as_u16()));
        }
        Ok(serde_json::from_slice(bytes)?)
    }

    async fn ask(
        &self,
        server: &Server,
        url: &Uri,
        body: Bytes,
        own: &Room,
    ) -> Result<(StatusCode, Answer), Unanswered> {
        let _call = self.calls.acquire().await?;
        let limit = answer::limit(body.len());
        let request = |body: Bytes| {
            Request::post(url.path_and_query().map_or("/", |path| path.as_str()))
                .header(HOST, url.authority().map_or("", |authority| authority.as_str()))
                .header(CONTENT_TYPE, "application/json")
                .header(ACCEPT, "application/json, */*")
                .header(USER_AGENT, "kube-apiserver-admission")
                .body(Full::new(body))
        };
        let inside = self.call_inside(server, request(body.clone())?.map(|_| body.clone()));
        if let Some(answering) = inside {
            let (parts, bytes) = answering.await.into_parts();
            let rooms = [own, &self.room, &server.0.webhook_room];
            return Ok((parts.status, answer::read(Full::new(bytes), limit, rooms).await?));
        }
        // A kept connection may have ended meanwhile. The call then goes out again on a new one.
        if let Some(mut kept) = self.kept()
            && let Ok(response) = kept.send_request(request(body.clone())?).await
        {
            return self.read_answer(server, kept, response, limit, own).await;
        }
        let mut sender = self.dial(server, url).await?;
        let response = sender.send_request(request(body)?).await?;
        self.read_answer(server, sender, response, limit, own).await
    }

    /// Begins the call of a webhook inside this process.
    fn call_inside(&self, server: &Server, request: Request<Bytes>) -> Option<Answering> {
        let Some(Place::Service { namespace, name, .. }) = &self.place else { return None };
        server.options().webhooks.as_ref()?.call(namespace, name, request)
    }

    async fn read_answer(
        &self,
        server: &Server,
        sender: SendRequest<Full<Bytes>>,
        response: http::Response<hyper::body::Incoming>,
        limit: usize,
        own: &Room,
    ) -> Result<(StatusCode, Answer), Unanswered> {
        let status = response.status();
        let rooms = [own, &self.room, &server.0.webhook_room];
        let answer = answer::read(response.into_body(), limit, rooms).await?;
        let mut idle = self.idle.lock().expect("no holder of this lock panics");
        if idle.len() < IDLE && !sender.is_closed() {
            idle.push(sender);
        }
        Ok((status, answer))
    }

    fn kept(&self) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle.lock().expect("no holder of this lock panics");
        while let Some(sender) = idle.pop() {
            if sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    async fn dial(&self, server: &Server, url: &Uri) -> Result<SendRequest<Full<Bytes>>, Unanswered> {
        let host = url.host().unwrap_or("").trim_matches(['[', ']']).to_owned();
        let endpoint = match &self.place {
            Some(Place::Service { namespace, name, port, .. }) => {
                service::resolve(&server.store().snapshot(), namespace, name, *port)?
            }
            _ => Endpoint { host: host.clone(), port: url.port_u16().unwrap_or(443), pod: None },
        };
        let socket = dial(server, &endpoint).await?;
        let tls = self
            .tls
            .get_or_init(|| trust::client_config(&self.authority, &server.options().clock))
            .clone()?;
        let name = ServerName::try_from(host)?;
        let stream = tokio_rustls::TlsConnector::from(tls).connect(name, socket).await;
        let stream = stream.map_err(Unanswered::Tls)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        server.own(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to a webhook ended");
            }
        });
        Ok(sender)
    }
}

/// The message of a Status that came instead of an answer.
fn status_message(answer: &[u8]) -> Option<String> {
    let status: Value = serde_json::from_slice(answer).ok()?;
    let message = status["message"].as_str().filter(|_| status["kind"] == "Status")?;
    Some(message.to_owned())
}

/// The error of Go's client for an answer that is no success.
fn refusal(status: StatusCode) -> String {
    match status {
        StatusCode::BAD_REQUEST => "the server rejected our request for an unknown reason".to_owned(),
        StatusCode::UNAUTHORIZED => "the server has asked for the client to provide credentials".to_owned(),
        StatusCode::FORBIDDEN => "unknown".to_owned(),
        StatusCode::NOT_FOUND => "the server could not find the requested resource".to_owned(),
        StatusCode::METHOD_NOT_ALLOWED => {
            "the server does not allow this method on the requested resource".to_owned()
        }
        StatusCode::SERVICE_UNAVAILABLE => "the server is currently unable to handle the request".to_owned(),
        status if status.is_server_error() => {
            "an error on the server (\"unknown\") has prevented the request from succeeding".to_owned()
        }
        status => format!(
            "the server responded with the status code {} but did not return more information",
            status.as_u16()
        ),
    }
}

/// Go's error for an untrusted certificate.
fn distrust(error: &std::io::Error) -> String {
    use rustls::{CertificateError, Error};
    match error.get_ref().and_then(|error| error.downcast_ref::<Error>()) {
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "x509: certificate signed by unknown authority".to_owned()
        }
        _ => error.to_string(),
    }
}
