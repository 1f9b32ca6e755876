//! Refusals that name a resource.

use setpoint_api::cause::Cause;
use setpoint_api::kind::{GroupKind, GroupResource};
use setpoint_api::status::{OBJECT_MODIFIED, Status};

use super::Resource;
use crate::error::ApiError;

impl ApiError {
    /// The object is not there.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        Status::not_found(&resource.group_resource(), name).into()
    }

    /// The name is taken.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        Status::already_exists(&resource.group_resource(), name).into()
    }

    /// `generateName` drew a taken name too often.
    pub fn generate_name_conflict(resource: &Resource, name: &str) -> Self {
        Status::generate_name_conflict(&resource.group_resource(), name).into()
    }

    /// Somebody wrote first.
    pub fn modified(resource: &Resource, name: &str) -> Self {
        ApiError::conflict(resource, name, OBJECT_MODIFIED)
    }

    /// A precondition does not hold.
    pub fn conflict(resource: &Resource, name: &str, text: &str) -> Self {
        Status::conflict(&resource.group_resource(), name, text).into()
    }

    /// The object breaks rules of its kind.
    pub fn invalid(resource: &Resource, name: &str, causes: Vec<Cause>) -> Self {
        let stored = resource.stored_kind();
        Status::invalid(&GroupKind::new(stored.group, stored.kind), name, causes).into()
    }

    /// The resource exists and does not have the verb.
    pub fn method_not_supported(resource: &Resource, verb: &str) -> Self {
        Status::method_not_supported(&resource.group_resource(), verb).into()
    }

    /// The representation of one object was asked for a list, or the other way round.
    pub fn wrong_representation(name: &str, list: bool, resource: &Resource) -> Self {
        let package = resource.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
        let text = match (list, resource.custom.is_some()) {
            (true, true) => "is a list (*unstructured.UnstructuredList)".to_owned(),
            (false, true) => "is not a list (*unstructured.Unstructured)".to_owned(),
            (true, false) => format!("is a list (*{package}.{})", resource.list_kind),
            (false, false) => format!("is not a list (*{package}.{})", resource.kind),
        };
        Status::not_acceptable(format!("you requested {name}, but the requested object {text}")).into()
    }

    /// An object's version is not what the deletion wants.
    pub fn delete_precondition(resource: &Resource, name: &str, text: &str) -> Self {
        Status::conflict(&GroupResource::new(&*resource.group, &*resource.kind), name, text).into()
    }
}
