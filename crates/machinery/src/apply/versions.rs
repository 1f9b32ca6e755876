//! Other versions of the same object: managers own fields at the version they wrote in.

use serde_json::Value;

use setpoint_schema::Schema;

/// An object that could not be converted to another version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConversionError(pub String);

impl ConversionError {
    /// Says in what step the conversion failed.
    pub(super) fn within(self, step: &str) -> Self {
        ConversionError(format!("{step}: {self}"))
    }
}

/// How an object looks in another version.
pub trait Versions {
    /// The object at `api_version`, with that version's type; none if the version is not served. The object may
    /// be at any version, the wanted one included.
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, Schema)>;

    /// As [`Versions::convert`], for those who may fail to: the error says why. Owners are then not noted, and an apply
    /// is refused.
    fn try_convert(
        &self,
        object: &Value,
        api_version: &str,
    ) -> Result<Option<(Value, Schema)>, ConversionError> {
        Ok(self.convert(object, api_version))
    }
}

/// A kind that has one version.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneVersion;

impl Versions for OneVersion {
    fn convert(&self, _object: &Value, _api_version: &str) -> Option<(Value, Schema)> {
        None
    }
}
