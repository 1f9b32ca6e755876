//! Validation of a CustomResourceDefinition's schemas.

use serde_json::Value;
use setpoint_api::cause::{Cause, Path};
use setpoint_machinery::Interrupt;
use setpoint_machinery::structural::Structural;

use setpoint_cel as cel;

/// The errors in the schemas of a definition. On an update, `old` is the stored definition. The rest of the
/// definition is validated with the other kinds. They are void once the interrupt is raised.
pub(crate) fn validate(definition: &Value, old: Option<&Value>, interrupt: &Interrupt) -> Vec<Cause> {
    let mut causes = Vec::new();
    check_schemas(definition, old, interrupt, &mut causes);
    causes
}

fn versions(definition: &Value) -> &[Value] {
    definition.pointer("/spec/versions").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn check_schemas(definition: &Value, old: Option<&Value>, interrupt: &Interrupt, causes: &mut Vec<Cause>) {
    let all = versions(definition);
    let schema = |version: &Value| version.pointer("/schema/openAPIV3Schema").cloned();
    let one = all.windows(2).all(|pair| schema(&pair[0]) == schema(&pair[1]));
    for (index, version) in all.iter().enumerate() {
        let path = Path::new("spec.versions").index(index).child("schema").child("openAPIV3Schema");
        let Some(own) = schema(version).filter(Value::is_object) else {
            continue;
        };
        let before = old.and_then(|old| versions(old).iter().find(|other| other["name"] == version["name"]));
        if before.and_then(schema).as_ref() == Some(&own) {
            continue;
        }
        let path = if one { Path::new("spec.validation.openAPIV3Schema") } else { path };
        let status = version.pointer("/subresources/status").is_some();
        match Structural::compile_at(&own, &path, status, interrupt) {
            Err(refusals) => causes.extend(refusals),
            Ok(structural) => {
                causes.extend(cel::Rules::check(&structural, &path));
                let compiled = cel::Rules::compile(&structural, &path);
                causes.extend(compiled.iter().flat_map(|rules| rules.validate_defaults(&path)));
            }
        }
        if one || interrupt.is_raised() {
            break;
        }
    }
}
