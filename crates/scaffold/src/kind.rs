//! `setpoint new kind`: another custom resource with its controller.

use crate::changes::Changes;
use crate::error::ScaffoldError;
use crate::project::Project;
use crate::words::{CustomResource, Words};

/// Plans another kind of an operator.
///
/// # Errors
/// If the operator has the kind or one of its files already, or a marker is missing.
pub fn kind(project: &Project, resource: &CustomResource) -> Result<Changes, ScaffoldError> {
    let module = resource.kind.module();
    let mut changes = Changes::in_folder(&project.folder);
    files(&mut changes, &Words::of(&project.name, resource), resource)?;
    for (marker, line) in [
        ("modules", format!("pub mod {module};")),
        ("register", format!("{module}::register(manager)?;")),
        ("definitions", format!("{module}::definition(),")),
        ("rules", format!("{module}::rules(),")),
    ] {
        changes.insert("src/lib.rs", marker, &line)?;
    }
    changes.insert("tests/it/main.rs", "modules", &format!("mod {module};"))?;
    Ok(changes)
}

/// Plans the files of one kind.
pub(crate) fn files(
    changes: &mut Changes,
    words: &Words,
    resource: &CustomResource,
) -> Result<(), ScaffoldError> {
    let module = resource.kind.module();
    for (file, text) in [
        (format!("src/{module}/mod.rs"), include_str!("../template/src/static_site/mod.rs")),
        (format!("src/{module}/types.rs"), include_str!("../template/src/static_site/types.rs")),
        (format!("tests/it/{module}.rs"), include_str!("../template/tests/it/static_site.rs")),
        (format!("samples/{module}.yaml"), include_str!("../template/samples/static_site.yaml")),
    ] {
        changes.create(file, words.fill(text))?;
    }
    Ok(())
}
