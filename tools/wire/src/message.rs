//! A request and its answer, as they are sent and received.

use bytes::Bytes;
use http::HeaderMap;

/// A request with everything filled in.
#[derive(Clone, Debug)]
pub struct Sent {
    pub method: String,
    pub path: String,
    pub user: String,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Received {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}
