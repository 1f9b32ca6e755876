//! One request for a resource.

use std::sync::Arc;

use setpoint_api::Random;

use crate::admission::webhook::Reviews;
use crate::conversion::Conversions;
use crate::negotiate::Negotiated;
use crate::registry::Resource;
use crate::request::RequestInfo;
use crate::request_limits::Work;
use crate::server::Server;
use crate::user::UserInfo;

/// One request for a resource, with everything known about it.
#[derive(Clone)]
pub(crate) struct RequestContext {
    pub(crate) server: Server,
    pub(crate) info: RequestInfo,
    pub(crate) resource: Arc<Resource>,
    pub(crate) user: UserInfo,
    pub(crate) headers: http::HeaderMap,
    pub(crate) work: Work,
    pub(crate) negotiated: Negotiated,
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
