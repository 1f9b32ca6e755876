//! How the versions of a StaticSite become each other. The stored version is the hub.

use serde::Serialize;
use serde::de::DeserializeOwned;
use setpoint::webhook::Conversion;

use super::types::StaticSite;

/// All versions.
pub fn conversion() -> Conversion<StaticSite> {
    Conversion::of_hub()
    // setpoint new: spokes
}

/// Carries the fields over by their names. Where two versions differ, write out the fields instead.
///
/// # Errors
/// If the other version cannot express the object.
pub fn same_fields<Old: Serialize, New: DeserializeOwned>(object: &Old) -> Result<New, String> {
    let fields = serde_json::to_value(object).map_err(|error| error.to_string())?;
    serde_json::from_value(fields).map_err(|error| error.to_string())
}
