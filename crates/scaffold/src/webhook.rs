//! `setpoint new webhook`: defaulting and validation of a kind.

use crate::changes::Changes;
use crate::error::ScaffoldError;
use crate::names::KindName;
use crate::project::Project;
use crate::words::Words;

/// The file of all webhooks of an operator.
const WEBHOOKS: &str = "src/webhooks.rs";

/// Plans the admission webhooks of a kind.
///
/// # Errors
/// If the operator has no such kind, has its webhooks already, or a marker is missing.
pub fn webhook(project: &Project, kind: &KindName) -> Result<Changes, ScaffoldError> {
    let resource = project.resource(kind.as_str())?;
    let (module, words) = (kind.module(), Words::of(&project.name, resource));
    let mut changes = Changes::in_folder(&project.folder);
    let file = format!("src/{module}/webhook.rs");
    if changes.has(&file) {
        return Err(ScaffoldError::Present(format!("webhooks of {kind}")));
    }
    changes.create(file, words.fill(include_str!("../parts/webhook/webhook.rs")))?;
    let test = words.fill(include_str!("../parts/webhook/test.rs"));
    changes.create(format!("tests/it/{module}_webhook.rs"), test)?;
    changes.insert("tests/it/main.rs", "modules", &format!("mod {module}_webhook;"))?;
    changes.insert(&format!("src/{module}/mod.rs"), "modules", "pub mod webhook;")?;
    served(&mut changes, &words)?;
    let lines = format!(
        ".mutate::<crate::{module}::{kind}, _>(crate::{module}::webhook::default)\n\
         .validate::<crate::{module}::{kind}, _>(crate::{module}::webhook::validate)"
    );
    changes.insert(WEBHOOKS, "webhooks", &lines)?;
    Ok(changes)
}

/// Plans the list of webhooks, if the operator has none yet.
pub(crate) fn served(changes: &mut Changes, words: &Words) -> Result<(), ScaffoldError> {
    if changes.has(WEBHOOKS) {
        return Ok(());
    }
    changes.create(WEBHOOKS, words.fill(include_str!("../parts/webhook/webhooks.rs")))?;
    changes.insert("src/lib.rs", "modules", "pub mod webhooks;")?;
    changes.insert("src/lib.rs", "register", "webhooks::webhooks().register(manager)?;")?;
    changes.insert("src/lib.rs", "manifests", "manifests = webhooks::webhooks().install(manifests);")?;
    let answer = words.fill(
        "cluster.webhooks().answer(template_operator::NAMESPACE, template_operator::webhooks::SERVICE, \
         |request| async { template_operator::webhooks::webhooks().call(request).await });",
    );
    changes.insert("tests/it/main.rs", "cluster", &answer)?;
    feature(changes)
}

/// Plans the feature of `setpoint` in the manifest.
fn feature(changes: &mut Changes) -> Result<(), ScaffoldError> {
    const FILE: &str = "Cargo.toml";
    let text = changes.read(FILE)?;
    let mut changed = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let named = line.starts_with("setpoint =") && !line.contains("\"webhooks\"");
        changed.push_str(&if named {
            line.replacen("[\"flags\"", "[\"flags\", \"webhooks\"", 1)
        } else {
            line.into()
        });
    }
    let has = |line: &str| line.starts_with("setpoint =") && line.contains("\"webhooks\"");
    if !changed.lines().any(has) {
        return Err(ScaffoldError::NoMarker {
            file: FILE.into(),
            marker: "setpoint = { .., features = [\"flags\"] }".into(),
            text: "the feature \"webhooks\" of setpoint".into(),
        });
    }
    changes.replace(FILE, changed);
    Ok(())
}
