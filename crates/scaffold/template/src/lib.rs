//! The operator as a library, so that tests and proofs run it in their process.
//!
//! `setpoint new kind`, `new webhook` and `new version` add lines above the comments that begin with `setpoint new:`.

pub mod static_site;
// setpoint new: modules

use serde_json::Value;
use setpoint::manifests::{Installation, Rule};
use setpoint::{Manager, SetupError};

/// The operator's name: of its lease, its account and its program, and as field owner.
pub const NAME: &str = "template-operator";

/// The namespace that the operator runs in.
pub const NAMESPACE: &str = "template-operator-system";

/// Registers every controller.
///
/// # Errors
/// If the manager has stopped, or has one of the controllers already.
pub fn register(manager: &Manager) -> Result<(), SetupError> {
    static_site::register(manager)?;
    // setpoint new: register
    Ok(())
}

/// Everything that the operator needs in a cluster, with the rights that it uses and no other.
pub fn manifests(image: &str) -> Vec<Value> {
    let definitions = [
        static_site::definition(),
        // setpoint new: definitions
    ];
    let rules = [
        vec![Rule::new("events.k8s.io", &["events"], &["create", "patch"])],
        static_site::rules(),
        // setpoint new: rules
    ];
    let installation = Installation {
        name: NAME.into(),
        namespace: NAMESPACE.into(),
        image: image.into(),
        command: vec![NAME.into()],
        args: vec!["--leader-elect".into(), "--health-probe-bind-address=0.0.0.0:8081".into()],
        rules: rules.concat(),
    };
    let mut manifests = definitions.to_vec();
    manifests.extend(installation.manifests());
    // setpoint new: manifests
    manifests
}
