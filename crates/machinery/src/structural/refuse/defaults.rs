//! Defaults must be what they default: pruned and valid.

use crate::Interrupt;
use crate::structural::props::Props;
use crate::structural::{Structural, metadata, prune, validate};
use setpoint_api::cause::{Cause, Path};

/// Returns the faults of the defaults.
pub(super) fn check(structural: &Structural, path: &Path, interrupt: &Interrupt) -> Vec<Cause> {
    let mut causes = Vec::new();
    node(structural.props(), path, true, interrupt, &mut causes);
    causes
}

fn node(props: &Props, path: &Path, root: bool, interrupt: &Interrupt, causes: &mut Vec<Cause>) {
    if let Some(default) = &props.default {
        let path = path.child("default");
        let mut pruned = default.clone();
        prune::prune(&mut pruned, props, root || props.embedded_resource);
        if pruned != *default {
            causes.push(Cause::invalid(&path, default, "must not have unknown fields"));
        }
        let is_resource = root || props.embedded_resource;
        let mut errors: Vec<Cause> =
            metadata::malformed(default, props, &path, is_resource).into_iter().collect();
        if errors.is_empty() {
            errors = metadata::check(default, props, &path, is_resource);
        }
        if errors.is_empty() {
            // Here kube-apiserver does not know what may be an integer or a string.
            let any = Props { int_or_string: false, ..props.clone() };
            let props = if props.int_or_string { &any } else { props };
            errors = validate::values(default, None, props, &path, interrupt);
        }
        causes.extend(errors);
    }
    if let Some(items) = &props.items {
        node(items, &path.child("items"), false, interrupt, causes);
    }
    let is_resource = root || props.embedded_resource;
    for (name, property) in &props.properties {
        // The code that sets defaults decides which metadata a default may set.
        if is_resource && ["metadata", "apiVersion", "kind"].contains(&name.as_str()) {
            continue;
        }
        node(property, &path.child("properties").key(name), false, interrupt, causes);
    }
}
