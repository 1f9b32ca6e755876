//! Validation of what is about to be stored.

use serde_json::Value;
use setpoint_api::cause::Cause;
use setpoint_api::validate;

use crate::error::{ApiError, Result};
use crate::object;
use crate::write::Writer;

fn judge(writer: &Writer<'_>, object: &Value, causes: Vec<Cause>) -> Result<()> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&writer.ask.resource, object::name(object), causes))
}

/// A new object.
pub(crate) fn create(writer: &Writer<'_>, object: &Value) -> Result<()> {
    let resource = &writer.ask.resource;
    let mut causes = validate::create(&resource.facts, object);
    if let Some(custom) = &resource.custom {
        causes.extend(custom.validate(&resource.version, object, None));
    }
    if resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
        causes.extend(crate::crd::validate(object, None));
    }
    judge(writer, object, causes)
}

/// A changed object.
pub(crate) fn update(writer: &Writer<'_>, new: &Value, live: &Value) -> Result<()> {
    let resource = &writer.ask.resource;
    let subresource = writer.ask.info.subresource.as_str();
    let status = subresource == "status";
    let mut causes = match subresource {
        "" | "scale" => validate::update(&resource.facts, new, live),
        subresource => validate::update_subresource(&resource.facts, subresource, new, live),
    };
    if let Some(custom) = &resource.custom {
        causes.extend(custom.validate(&resource.version, new, Some(live)));
    }
    if resource.is("apiextensions.k8s.io", "customresourcedefinitions") && !status {
        causes.extend(crate::crd::validate(new, Some(live)));
    }
    judge(writer, new, causes)
}
