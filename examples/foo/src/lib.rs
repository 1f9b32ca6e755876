//! sample-controller in Rust, on the low layer: shared informers, listers, event handlers, a rate-limited queue,
//! workers. It does by hand what [`setpoint::Controller`] does for the other two examples.

mod controller;
pub mod types;

use kube::CustomResourceExt;
use serde_json::Value;
use setpoint::manifests::{Installation, Rule};
use setpoint::{Manager, SetupError};

pub use types::{Foo, FooSpec, FooStatus};

/// Its name in events, as field manager, and of its lease.
pub const NAME: &str = "sample-controller";
/// How many keys are worked on at a time.
const WORKERS: usize = 2;

/// Runs the controller while this process is the leader.
pub fn register(manager: &Manager) -> Result<(), SetupError> {
    let controller = controller::Controller::new(manager);
    manager.add(NAME, move |stop| controller.run(WORKERS, stop))
}

/// The custom resource definition.
pub fn definition() -> Value {
    serde_json::to_value(Foo::crd()).expect("a definition has a JSON form")
}

/// Everything that it needs to run in a cluster, with the rights that it uses and no other.
pub fn manifests(image: &str) -> Vec<Value> {
    let installation = Installation {
        name: NAME.into(),
        namespace: "sample-system".into(),
        image: image.into(),
        command: vec![env!("CARGO_PKG_NAME").into()],
        args: vec!["--leader-elect".into(), "--health-probe-bind-address=0.0.0.0:8081".into()],
        rules: Rule::parse(include_str!("../rights.yaml")).expect("the trial of rights reads the file"),
    };
    std::iter::once(definition()).chain(installation.manifests()).collect()
}
