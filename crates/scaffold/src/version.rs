//! `setpoint new version`: another served version of a kind.

use crate::changes::Changes;
use crate::error::ScaffoldError;
use crate::names::{ApiVersion, KindName};
use crate::project::Project;
use crate::webhook;
use crate::words::Words;

/// Plans another served version of a kind: a copy of its types, and the webhook that converts it to the stored version
/// and back.
///
/// # Errors
/// If the operator has no such kind, has the version already, or a marker is missing.
pub fn version(project: &Project, kind: &KindName, version: &ApiVersion) -> Result<Changes, ScaffoldError> {
    let resource = project.resource(kind.as_str())?;
    let (module, words) = (kind.module(), Words::of(&project.name, resource));
    let mut changes = Changes::in_folder(&project.folder);
    let file = format!("src/{module}/{version}.rs");
    if resource.version == *version || changes.has(&file) {
        return Err(ScaffoldError::Present(format!("{kind} {version}")));
    }
    let types = changes.read(&format!("src/{module}/types.rs"))?;
    let copy = copy(&types, resource.version.as_str(), kind, version);
    changes.create(file, copy + &words.fill(include_str!("../parts/version/convert.rs")))?;
    webhook::served(&mut changes, &words)?;
    let (controller, conversion) = (format!("src/{module}/mod.rs"), format!("src/{module}/conversion.rs"));
    if !changes.has(&conversion) {
        let text = words.fill(include_str!("../parts/version/conversion.rs"));
        changes.create(&conversion, text)?;
        changes.insert(&controller, "modules", "pub mod conversion;")?;
        let convert = format!(".convert(crate::{module}::conversion::conversion())");
        changes.insert("src/webhooks.rs", "webhooks", &convert)?;
        let test = words.fill(include_str!("../parts/version/test.rs"));
        changes.create(format!("tests/it/{module}_versions.rs"), test)?;
        changes.insert("tests/it/main.rs", "modules", &format!("mod {module}_versions;"))?;
    }
    changes.insert(&controller, "modules", &format!("pub mod {version};"))?;
    changes.insert(&controller, "versions", &format!("{version}::{kind}::crd(),"))?;
    changes.insert(
        &conversion,
        "spokes",
        &format!(".spoke(super::{version}::up, super::{version}::down)"),
    )?;
    Ok(changes)
}

/// The types of the stored version as those of another one.
fn copy(types: &str, stored: &str, kind: &KindName, version: &ApiVersion) -> String {
    let code: Vec<&str> =
        types.lines().skip_while(|line| line.starts_with("//!") || line.is_empty()).collect();
    let code =
        code.join("\n").replacen(&format!("version = \"{stored}\""), &format!("version = \"{version}\""), 1);
    format!(
        "//! The version {version} of a {kind}. It begins as a copy of the stored version.\n\n\
         use super::conversion::same_fields;\nuse super::types;\n{code}\n"
    )
}
