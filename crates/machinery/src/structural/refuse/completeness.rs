//! Whatever a junctor validates must exist in the structure outside of it.

use crate::structural::props::Props;
use setpoint_api::cause::{Cause, Path};

/// Returns a cause for each part that is validated and not declared.
pub(super) fn check(props: &Props, path: &Path) -> Vec<Cause> {
    let mut causes = Vec::new();
    validation(props, props, path, path, &mut causes);
    causes
}

fn validation(props: &Props, own: &Props, own_path: &Path, path: &Path, causes: &mut Vec<Cause>) {
    if let Some(not) = &props.not {
        nested(not, Some(own), own_path, &path.child("not"), causes);
    }
    for (name, list) in [("allOf", &props.all_of), ("anyOf", &props.any_of), ("oneOf", &props.one_of)] {
        for (at, props) in list.iter().enumerate() {
            nested(props, Some(own), own_path, &path.child(name).index(at), causes);
        }
    }
}

fn nested(props: &Props, own: Option<&Props>, own_path: &Path, path: &Path, causes: &mut Vec<Cause>) {
    let Some(own) = own else {
        return causes.push(Cause::required(own_path, &format!("because it is defined in {path}")));
    };
    validation(props, own, own_path, path, causes);
    if let Some(items) = &props.items {
        nested(items, own.items.as_deref(), &own_path.child("items"), &path.child("items"), causes);
    }
    for (name, property) in &props.properties {
        let (own_path, path) = (own_path.child("properties").key(name), path.child("properties").key(name));
        nested(property, own.properties.get(name), &own_path, &path, causes);
    }
}
