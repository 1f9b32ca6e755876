//! The server: what it holds, and how one request goes through it.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use setpoint_api::Random;
use setpoint_store::{Store, TxnError, WriteError};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::admission::webhook::{Configured, Reviews};
use crate::auth::authn::Identity;
use crate::auth::{Caller, UNAUTHENTICATED, UserInfo, authn, authz, impersonate, legacy};
use crate::conversion::Conversions;
use crate::error::{ApiError, Result};
use crate::message::Kept;
use crate::metrics::Metrics;
use crate::negotiate::{Form, Format, Negotiated, Offer, negotiate, wants_pretty};
use crate::options::Options;
use crate::registry::Registry;
use crate::request::{Query, RequestInfo, is_escaped_well};
use crate::request_limits::{Deadline, Limits, Work};
use crate::{bootstrap, request_limits, respond, route};

/// What goes wrong inside a body while it is read or written.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of requests and answers.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// Marks the answer to a user whom the server could tell from everybody else.
#[derive(Clone, Copy)]
pub(crate) struct Known;

/// How long a read waits for a version that is not there yet.
const FUTURE_WAIT: Duration = Duration::from_secs(3);

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The objects that every cluster has could not be written.
    #[error("bootstrap: {0}")]
    Bootstrap(String),
}

/// An API server. Clones are handles to the same one.
#[derive(Clone)]
pub struct Server(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) registry: Registry,
    pub(crate) webhooks: Configured,
    /// Room for the answers of webhooks.
    pub(crate) webhook_room: Arc<Semaphore>,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
    pub(crate) discovery: crate::discovery::Cache,
    pub(crate) kept: Kept,
    /// When it was started.
    pub(crate) started: jiff::Timestamp,
    /// Where it listens, as the Service `kubernetes` says.
    pub(crate) advertised: OnceLock<SocketAddr>,
    /// Who vouches for clients, as PEM.
    pub(crate) client_authority: OnceLock<Arc<str>>,
    /// Set once the store has failed to write for good.
    pub(crate) write_failed: AtomicBool,
    /// Relayed streams and what is done beside requests: they end with the server.
    sessions: Mutex<JoinSet<()>>,
}

impl Server {
    /// Starts a server on a store: writes what every cluster has, where it is missing, and reads the custom
    /// resource definitions.
    pub async fn start(options: Options) -> Result<Server, StartError> {
        bootstrap::run(&options).await?;
        let registry = Registry::default();
        let webhooks = Configured::default();
        let snapshot = options.store.snapshot();
        registry.reload(&snapshot);
        webhooks.reload(&snapshot);
        Ok(Server(Arc::new(Inner {
            kept: Kept::new(options.kept_protobuf),
            started: options.clock.now(),
            limits: Limits::new(&options),
            options,
            registry,
            webhooks,
            webhook_room: crate::webhook::server_room(),
            metrics: Metrics::default(),
            discovery: crate::discovery::Cache::default(),
            advertised: OnceLock::new(),
            client_authority: OnceLock::new(),
            write_failed: AtomicBool::new(false),
            sessions: Mutex::default(),
        })))
    }

    /// The store behind it.
    pub fn store(&self) -> &Store {
        &self.0.options.store
    }

    /// What it was started with.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// Answers one request.
    pub async fn handle(&self, caller: Caller, request: Request<Body>) -> Response<Body> {
        let began = Instant::now();
        if !is_escaped_well(request.uri().path()) {
            return respond::bad_path();
        }
        let info = RequestInfo::parse(request.method(), request.uri());
        let audit_id = audit_id(&request, &self.0.options);
        let refusal = error_format(request.headers(), &info.query);
        let _in_flight = self.0.metrics.enter(&info);
        let mut response = match request_limits::timeout(&info, self.0.options.request_timeout) {
            Ok(timeout) => {
                let deadline = timeout.map(|timeout| began + timeout);
                self.answer_by(deadline, &caller, &info, request, refusal).await
            }
            Err(error) => respond::error(&error, refusal),
        };
        response.headers_mut().insert("audit-id", audit_id);
        self.0.metrics.record(&info, self.is_served(&info), response.status(), began.elapsed());
        response
    }

    /// Answers a request, or says after the deadline that it took too long. What it had begun is dropped then.
    async fn answer_by(
        &self,
        deadline: Option<Instant>,
        caller: &Caller,
        info: &RequestInfo,
        mut request: Request<Body>,
        refusal: Negotiated,
    ) -> Response<Body> {
        let Some(deadline) = deadline else { return self.answer(caller, info, request, refusal).await };
        request.extensions_mut().insert(Deadline(deadline));
        let answer = Box::pin(self.answer(caller, info, request, refusal));
        match tokio::time::timeout_at(deadline, answer).await {
            Ok(response) => response,
            Err(_) => respond::timed_out(),
        }
    }

    async fn answer(
        &self,
        caller: &Caller,
        info: &RequestInfo,
        mut request: Request<Body>,
        refusal: Negotiated,
    ) -> Response<Body> {
        let options = &self.0.options;
        let user = match self.identify(caller, info, request.headers()).await {
            Ok(user) => user,
            Err(error) => return respond::refusal(&error, refusal),
        };
        let Ok(_place) = self.0.limits.enter(info, &user) else { return respond::too_many() };
        if let Err(error) = authz::authorize_request(options, &options.store.snapshot(), &user, info) {
            return respond::refusal(&error, refusal);
        }
        authn::remove_credentials(options, request.headers_mut());
        let is_known = !user.is_in(UNAUTHENTICATED);
        // A defect in one request is one request's failure.
        let routed = AssertUnwindSafe(route::route(self, user, info.clone(), request));
        let routed = routed.catch_unwind().await.unwrap_or_else(|_| Err(ApiError::panicked(info)));
        let mut response = routed.unwrap_or_else(|error| respond::error(&error, refusal));
        if is_known {
            response.extensions_mut().insert(Known);
        }
        response
    }

    /// Whether metrics may name the request's resource: strangers must not make rows without end.
    fn is_served(&self, info: &RequestInfo) -> bool {
        let resource = self.0.registry.find(&info.group, &info.version, &info.resource);
        resource.is_some_and(|resource| {
            info.subresource.is_empty() || resource.subresource(&info.subresource).is_some()
        })
    }

    /// Who asks, or on whose behalf.
    async fn identify(&self, caller: &Caller, info: &RequestInfo, headers: &HeaderMap) -> Result<UserInfo> {
        let options = &self.0.options;
        let snapshot = options.store.snapshot();
        let Identity { user, secret } = authn::authenticate(options, &snapshot, caller, headers)?;
        if let Some(secret) = &secret {
            legacy::note_use(self, secret).await;
        }
        impersonate::impersonate(options, &snapshot, user, headers, info)
    }

    /// Waits a little for a version that a client saw elsewhere.
    pub(crate) async fn wait_for(&self, revision: u64) -> Result<()> {
        let store = &self.0.options.store;
        if store.revision() >= revision {
            return Ok(());
        }
        match tokio::time::timeout(FUTURE_WAIT, store.reached(revision)).await {
            Ok(()) => {
                // Requests that waited together must not all answer at once.
                crate::serve::room().await;
                Ok(())
            }
            Err(_) => Err(ApiError::future_version(revision, store.revision())),
        }
    }

    /// Runs something until it or the server ends.
    pub(crate) fn own(&self, session: impl Future<Output = ()> + Send + 'static) {
        let mut sessions = self.0.sessions.lock().expect("no holder of this lock panics");
        while sessions.try_join_next().is_some() {}
        sessions.spawn(session);
    }

    /// Whether the store still takes writes.
    pub(crate) fn is_writable(&self) -> bool {
        !self.0.write_failed.load(Ordering::Relaxed)
    }

    /// Remembers when writing has ended, and makes the answer.
    pub(crate) fn write_failed(&self, error: WriteError) -> ApiError {
        if matches!(error, WriteError::Failed(_)) {
            self.0.write_failed.store(true, Ordering::Relaxed);
        }
        error.into()
    }

    /// A change of a definition: what is served follows before the writer is answered.
    pub(crate) fn definitions_changed(&self) {
        self.0.registry.reload(&self.0.options.store.snapshot());
    }

    /// A change of a webhook's configuration: who is asked follows before the writer is answered.
    pub(crate) fn webhooks_changed(&self) {
        self.0.webhooks.reload(&self.0.options.store.snapshot());
    }

    /// Forgets expired objects and old history, and brings back what every cluster has. Connections call it now and then; so may the owner.
    pub async fn maintain(&self) {
        let now = u64::try_from(self.0.options.clock.now().as_millisecond()).unwrap_or(0);
        self.0.options.store.age(now);
        if let Err(error) = self.0.options.store.expire(now).await {
            tracing::warn!(%error, "expired objects stay for now");
        }
        if let Err(error) = bootstrap::restore(&self.0.options).await {
            tracing::warn!(%error, "what every cluster has is not back yet");
        }
        if let Some(address) = self.advertised()
            && let Err(error) = crate::advertise::keep(&self.0.options, address).await
        {
            tracing::warn!(%error, "the Service kubernetes does not lead here yet");
        }
        if let Some(authority) = self.0.client_authority.get()
            && let Err(error) = crate::clients::keep(&self.0.options, authority).await
        {
            tracing::warn!(%error, "the authority of clients is not published yet");
        }
    }
}

/// The client's audit id, or a new one.
fn audit_id(request: &Request<Body>, options: &Options) -> HeaderValue {
    let sent = request.headers().get("audit-id").filter(|value| !value.is_empty());
    sent.cloned()
        .or_else(|| HeaderValue::from_str(&options.random.uid()).ok())
        .unwrap_or(HeaderValue::from_static(""))
}

/// Errors are answered in the client's encoding too, where it is one of ours, and indented for people.
fn error_format(headers: &http::HeaderMap, query: &Query) -> Negotiated {
    let offer = Offer { protobuf: true, forms: true };
    negotiate(headers, query, offer).unwrap_or_else(|_| Negotiated {
        format: Format::Json,
        form: Form::Whole,
        pretty: wants_pretty(headers, query),
    })
}

impl From<TxnError<ApiError>> for ApiError {
    fn from(error: TxnError<ApiError>) -> Self {
        match error {
            TxnError::Decide(error) => error,
            TxnError::Write(error) => error.into(),
            other => ApiError::internal(other),
        }
    }
}

impl From<WriteError> for ApiError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Quota => ApiError::internal_plain("etcdserver: mvcc: database space exceeded"),
            other => ApiError::unavailable(other.to_string()),
        }
    }
}

/// One request for a resource, with everything known about it.
#[derive(Clone)]
pub(crate) struct RequestContext {
    pub(crate) server: Server,
    pub(crate) info: RequestInfo,
    pub(crate) resource: Arc<crate::registry::Resource>,
    pub(crate) user: UserInfo,
    pub(crate) headers: http::HeaderMap,
    pub(crate) work: Work,
    pub(crate) negotiated: crate::negotiate::Negotiated,
    /// What a webhook converted for this request; none where versions differ in name only.
    pub(crate) conversions: Option<Arc<Conversions>>,
    /// What admission webhooks said to this request; none where there is no webhook.
    pub(crate) reviews: Option<Arc<Reviews>>,
}

impl RequestContext {
    /// Where a decision draws from.
    pub(crate) fn random(&self) -> Random {
        self.reviews.as_ref().map_or_else(|| self.server.options().random.clone(), |reviews| reviews.random())
    }
}
