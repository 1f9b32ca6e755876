//! The admission webhooks of a StaticSite. What a schema can say belongs into `types.rs`.

use setpoint::webhook::{Allowed, Denied, FieldErrors, Review};

use super::types::StaticSite;

/// Changes an object before it is stored: here, the space around the message goes.
///
/// # Errors
/// If the object cannot be decided on.
pub fn default(_: &Review<StaticSite>, object: &mut StaticSite) -> Result<Allowed, Denied> {
    let trimmed = object.spec.message.trim();
    if trimmed.len() < object.spec.message.len() {
        object.spec.message = trimmed.to_owned();
    }
    Ok(Allowed::yes())
}

/// Checks an object: here, the message is not only the object's name.
///
/// # Errors
/// If the object is refused.
pub fn validate(review: &Review<StaticSite>) -> Result<Allowed, Denied> {
    // A deletion is always allowed.
    let Some(object) = &review.new else { return Ok(Allowed::yes()) };
    let mut errors = FieldErrors::default();
    if object.spec.message == review.key.name() {
        let message = object.spec.message.as_str();
        errors.invalid("spec.message", message, "the message must say more than the name");
    }
    review.verdict(errors)
}
