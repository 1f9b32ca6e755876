//! The record of what the operator sent and saw.

use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use serde_json::Value;

use crate::message;
use crate::resource::{NODES, ObjectName, is_background, of_path};

/// A request of the operator, as far as faults and records need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The HTTP method.
    pub verb: String,
    /// The object. The name of a collection is empty.
    pub object: ObjectName,
    /// The path of the object, without its subresource.
    pub path: String,
    /// The subresource, or nothing.
    pub subresource: String,
    /// Whether the request watches.
    pub watch: bool,
}

impl Call {
    /// Reads a request. Returns `None` for paths that name no resource.
    pub fn of(parts: &Parts, body: &[u8]) -> Option<Call> {
        let (mut object, subresource) = of_path(parts.uri.path())?;
        let verb = parts.method.to_string();
        if verb == "POST" && object.name.is_empty() {
            let (name, prefix) = message::names(body).unwrap_or_else(|| names(body));
            object.name = if name.is_empty() && !prefix.is_empty() { format!("{prefix}*") } else { name };
        }
        let query = parts.uri.query().unwrap_or_default();
        let watch = query.contains("watch=true") || query.contains("watch=1");
        let path = parts.uri.path().trim_end_matches(&format!("/{subresource}")).to_owned();
        Some(Call { verb, object, path, subresource, watch })
    }

    /// Returns whether the request writes and is work, not leader election or an Event.
    pub fn is_work(&self) -> bool {
        // Writes of Nodes go on at rest, but an operator is no kubelet.
        let background = is_background(&self.object.resource) && self.object.resource != NODES;
        self.verb != "GET" && !background && !self.is_review()
    }

    /// Returns whether the request writes a Lease.
    pub fn is_election(&self) -> bool {
        self.verb != "GET" && self.object.resource == "leases.coordination.k8s.io"
    }

    /// Questions that are asked by POST and store nothing.
    fn is_review(&self) -> bool {
        self.object.resource.ends_with("reviews.authorization.k8s.io")
            || self.object.resource.ends_with("reviews.authentication.k8s.io")
    }

    /// Returns whether an object is the one that the request names. A generated name is known by its prefix.
    pub fn is_about(&self, object: &ObjectName) -> bool {
        let same = match self.object.name.strip_suffix('*') {
            Some(prefix) => object.name.starts_with(prefix),
            None => object.name == self.object.name,
        };
        same && object.resource == self.object.resource && object.namespace == self.object.namespace
    }

    /// Returns the resource with its subresource.
    pub fn target(&self) -> String {
        match self.subresource.as_str() {
            "" => self.object.resource.clone(),
            subresource => format!("{}/{subresource}", self.object.resource),
        }
    }
}

/// Returns name and `generateName` of the object in a JSON body.
fn names(body: &[u8]) -> (String, String) {
    let sent: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |field: &str| sent["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("name"), text("generateName"))
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verb, self.object)?;
        if self.subresource.is_empty() { Ok(()) } else { write!(f, "/{}", self.subresource) }
    }
}

/// A request with its answer.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The time since the step began.
    pub at: Duration,
    /// The number of the process that sent it, from 1.
    pub incarnation: u32,
    /// The request.
    pub call: Call,
    /// The body of a write.
    pub body: Bytes,
    /// The number of the write among equal ones in the step, from 1. Zero for reads.
    pub nth: usize,
    /// The HTTP status of the server's answer. `None` if the server never got the request.
    pub status: Option<u16>,
    /// The revision that the store had before the server got the request.
    pub before: u64,
    /// The revision in which the write changed its object. `None` if it changed nothing.
    pub revision: Option<u64>,
    /// The fault that happened to it.
    pub fault: Option<String>,
    /// The replica that held the Lease when another one sent this write.
    pub rival: Option<String>,
}

/// An event that a watch delivered.
#[derive(Clone, Debug)]
pub struct Delivered {
    /// The time since the step began.
    pub at: Duration,
    /// The number of the process that got it, from 1.
    pub incarnation: u32,
    /// ADDED, MODIFIED or DELETED.
    pub kind: String,
    /// The object.
    pub object: ObjectName,
}
