//! Validation of what is about to be stored.

use serde_json::Value;

use crate::error::Result;
use crate::write::Writer;

/// A new object.
pub(crate) fn create(_writer: &Writer<'_>, _object: &Value) -> Result<()> {
    Ok(())
}

/// A changed object.
pub(crate) fn update(_writer: &Writer<'_>, _new: &Value, _live: &Value) -> Result<()> {
    Ok(())
}
