//! Reads a request's body within its limit and within the limit of all bodies together.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use setpoint_api::status::Status;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bytes of one permit.
pub(super) const UNIT: usize = 4096;

/// Returns the body, and its place among all bodies. The place is given back when it is dropped.
pub(super) async fn read(
    body: Incoming,
    most: usize,
    room: &Arc<Semaphore>,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Status> {
    let too_large = || Status::request_entity_too_large(&format!("limit is {most}"));
    if body.size_hint().lower() > most as u64 {
        return Err(too_large());
    }
    let mut body = std::pin::pin!(body);
    let (mut bytes, mut held) = (BytesMut::new(), None::<OwnedSemaphorePermit>);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Status::bad_request(format!("the body ended early: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > most {
            return Err(too_large());
        }
        bytes.extend_from_slice(&data);
        let has = held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let needs = u32::try_from(bytes.len().div_ceil(UNIT).saturating_sub(has)).unwrap_or(u32::MAX);
        let Ok(more) = Arc::clone(room).try_acquire_many_owned(needs) else {
            return Err(Status::service_unavailable("the webhooks hold as many reviews as they may"));
        };
        match &mut held {
            Some(held) => held.merge(more),
            None => held = Some(more),
        }
    }
    Ok((bytes.freeze(), held))
}
