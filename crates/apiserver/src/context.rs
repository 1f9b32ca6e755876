//! One request for a resource.

use std::sync::Arc;

use crate::negotiate::Negotiated;
use crate::registry::Resource;
use crate::request::RequestInfo;
use crate::request_limits::Work;
use crate::review_webhook::Answers;
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
    /// The opinions of the authorization webhook so far.
    pub(crate) answers: Arc<Answers>,
}
