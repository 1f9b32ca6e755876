//! The options that all writes share, read once from the query.

use serde_json::{Value, json};
use setpoint_api::cause::{Cause, Path};

use crate::context::RequestContext;
use crate::error::{ApiError, Result};

/// The treatment of unknown and doubled fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl FieldValidation {
    fn as_str(self) -> &'static str {
        match self {
            FieldValidation::Ignore => "Ignore",
            FieldValidation::Warn => "Warn",
            FieldValidation::Strict => "Strict",
        }
    }
}

/// `CreateOptions`, `UpdateOptions` or `PatchOptions`, which differ in name only.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteOptions {
    /// The values of `dryRun` that were sent. The only valid one is `All`.
    dry_run: Vec<String>,
    pub(crate) field_manager: Option<String>,
    pub(crate) field_validation: Option<FieldValidation>,
}

/// The longest name of a field manager.
pub(crate) const MAX_MANAGER: usize = 128;

impl WriteOptions {
    /// Reads the options from the query. Errors name their kind, `kind`.
    pub(crate) fn read(ctx: &RequestContext, kind: &str) -> Result<Self> {
        let query = &ctx.info.query;
        let mut causes = Vec::new();
        let dry_run = dry_run(query.all("dryRun"), &mut causes);
        let field_validation = match query.get("fieldValidation") {
            None => None,
            Some("Warn") => Some(FieldValidation::Warn),
            Some("Ignore") => Some(FieldValidation::Ignore),
            Some("Strict") => Some(FieldValidation::Strict),
            Some(other) => {
                let path = Path::new("fieldValidation");
                causes.push(Cause::not_supported(&path, other, &["", "Ignore", "Strict", "Warn"]));
                None
            }
        };
        let manager = query.get("fieldManager").unwrap_or("");
        causes.extend(manager_causes(manager));
        if !causes.is_empty() {
            return Err(ApiError::invalid_options(kind, causes));
        }
        let field_manager = Some(manager).filter(|manager| !manager.is_empty()).map(str::to_owned);
        Ok(WriteOptions { dry_run, field_manager, field_validation })
    }

    /// The options of a deletion, whose body alone says whether it is a dry run.
    pub(crate) fn of_delete(dry_run: bool) -> Self {
        let dry_run = if dry_run { vec!["All".to_owned()] } else { Vec::new() };
        WriteOptions { dry_run, ..WriteOptions::default() }
    }

    /// Whether the write is a dry run.
    pub(crate) fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }

    /// The options as webhooks see them.
    pub(crate) fn to_value(&self, kind: &str) -> Value {
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if self.is_dry_run() {
            options["dryRun"] = json!(self.dry_run);
        }
        if let Some(manager) = &self.field_manager {
            options["fieldManager"] = json!(manager);
        }
        if let Some(validation) = self.field_validation {
            options["fieldValidation"] = json!(validation.as_str());
        }
        options
    }
}

/// The errors in the name of a field manager.
fn manager_causes(manager: &str) -> Vec<Cause> {
    let path = Path::new("fieldManager");
    let mut causes = Vec::new();
    if manager.len() > MAX_MANAGER {
        causes.push(Cause::too_long(&path, MAX_MANAGER));
    }
    if let Some((at, wrong)) = manager.char_indices().find(|(_, char)| char.is_control()) {
        let text = format!("invalid character U+{:04X} (at position {at})", u32::from(wrong));
        causes.push(Cause::invalid(&path, manager, &text));
    }
    causes
}

/// The values that were sent for `dryRun`. `All` is the only one; any other becomes a cause.
pub(crate) fn dry_run<'q>(values: impl Iterator<Item = &'q str>, causes: &mut Vec<Cause>) -> Vec<String> {
    let values: Vec<String> = values.filter(|value| !value.is_empty()).map(str::to_owned).collect();
    if values.iter().any(|value| *value != "All") {
        causes.push(Cause::not_supported(&Path::new("dryRun"), &json!(values), &["All"]));
    }
    values
}
