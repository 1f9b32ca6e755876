//! The path of one request: authentication, authorization, and the handler that answers.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::time::Instant;

use crate::auth::access::{self, Access};
use crate::auth::authn::Identity;
use crate::auth::{Caller, authn, impersonate, legacy};
use crate::body::Body;
use crate::error::{ApiError, Result};
use crate::negotiate::{Format, Negotiated, Offer, Representation, negotiate, wants_pretty};
use crate::options::Options;
use crate::request::{Query, RequestInfo, is_escaped_well};
use crate::request_limits::Deadline;
use crate::respond::Known;
use crate::review_webhook::Answers;
use crate::server::Server;
use crate::user::{UNAUTHENTICATED, UserInfo};
use crate::{request_limits, respond, route};

impl Server {
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
        let mut response = match request_limits::timeout(&info, self.0.options.requests.timeout) {
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

    /// Answers a request, or answers a timeout after the deadline. The unfinished work is then dropped.
    async fn answer_by(
        &self,
        deadline: Option<Instant>,
        caller: &Caller,
        info: &RequestInfo,
        mut request: Request<Body>,
        refusal: Negotiated,
    ) -> Response<Body> {
        if let Some(deadline) = deadline {
            request.extensions_mut().insert(Deadline(deadline));
        }
        let answer = Box::pin(self.answer(caller, info, request, refusal));
        let Some(deadline) = deadline else { return answer.await };
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
        let answers = Answers::default();
        let chain = Access { options, answers: &answers };
        let snapshot = options.store.snapshot();
        if let Err(error) = access::authorize_request(chain, &snapshot, &user, info).await {
            return respond::refusal(&error, refusal);
        }
        authn::remove_credentials(options, request.headers_mut());
        let is_known = !user.is_in(UNAUTHENTICATED);
        // A panic in one request fails only that request.
        let routed = AssertUnwindSafe(route::route(self, user, info.clone(), request));
        let routed = routed
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Err(ApiError::panicked(info.verb.as_str(), &info.path)));
        let mut response = routed.unwrap_or_else(|error| respond::error(&error, refusal));
        if is_known {
            response.extensions_mut().insert(Known);
        }
        response
    }

    /// Whether metrics may name the request's resource. Otherwise any client could create rows without end.
    fn is_served(&self, info: &RequestInfo) -> bool {
        let resource = self.0.registry.find(&info.group, &info.version, &info.resource);
        resource.is_some_and(|resource| {
            info.subresource.is_empty() || resource.subresource(&info.subresource).is_some()
        })
    }

    /// The user of the request: the authenticated one, or the one whom that user impersonates.
    async fn identify(&self, caller: &Caller, info: &RequestInfo, headers: &HeaderMap) -> Result<UserInfo> {
        let options = &self.0.options;
        let snapshot = options.store.snapshot();
        let Identity { user, secret } = authn::authenticate(options, &snapshot, caller, headers).await?;
        if let Some(secret) = &secret {
            legacy::note_use(self, secret).await;
        }
        let chain = Access { options, answers: &Answers::default() };
        impersonate::impersonate(chain, &snapshot, user, headers, info).await
    }
}

/// The client's audit id, or a new one.
fn audit_id(request: &Request<Body>, options: &Options) -> HeaderValue {
    let sent = request.headers().get("audit-id").filter(|value| !value.is_empty());
    sent.cloned()
        .or_else(|| HeaderValue::from_str(&options.random.uid()).ok())
        .unwrap_or(HeaderValue::from_static(""))
}

/// The format of an error: the client's encoding if the server has it, and indented if the client wants that.
fn error_format(headers: &http::HeaderMap, query: &Query) -> Negotiated {
    let offer = Offer { protobuf: true, forms: true };
    negotiate(headers, query, offer).unwrap_or_else(|_| Negotiated {
        format: Format::Json,
        representation: Representation::Whole,
        pretty: wants_pretty(headers, query),
    })
}
