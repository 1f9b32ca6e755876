//! controller-runtime's own suites, unchanged, on `setpoint assets` in the place of kube-apiserver and etcd.

use std::process::Command;

use anyhow::Result;

use super::{Missing, Setup};
use crate::run;

/// The suites for every change: the client against the API, verb by verb, and controllers on top of it.
const SHORT: &[&str] = &["client", "controller"];
/// The suites that need a server and no admission webhooks; `cargo xtask soak controller-runtime`.
const ALL: &[&str] = &[
    "builder",
    "cache",
    "client",
    "client/apiutil",
    "cluster",
    "controller",
    "controller/controllerutil",
    "handler",
    "internal/controller",
    "internal/recorder",
    "manager",
    "reconcile",
    "source",
];

pub fn short(setup: &Setup) -> Result<()> {
    test(setup, SHORT)
}

pub fn all(setup: &Setup) -> Result<()> {
    test(setup, ALL)
}

fn test(setup: &Setup, suites: &[&str]) -> Result<()> {
    if run::found("go").is_none() {
        return Err(Missing("go is not on the search path".into()).into());
    }
    let folder = super::folder::new()?;
    run::read(Command::new(&setup.setpoint).arg("assets").arg(folder.path()))?;
    let mut test = Command::new("go");
    test.current_dir(run::root().join("peers/controller-runtime-suites"))
        .env("CGO_ENABLED", "0")
        .env("KUBEBUILDER_ASSETS", folder.path())
        // One second unless a test says otherwise: too little beside a build.
        .env("GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT", "20s")
        // One after the other: their waits are made for a machine that does nothing else.
        .args(["test", "-buildvcs=false", "-count=1", "-p=1"])
        // These download a kube-apiserver that is too old to aggregate discovery.
        .args(["-skip", "/aggregatedDiscovery=false"])
        .args(suites.iter().map(|suite| format!("sigs.k8s.io/controller-runtime/pkg/{suite}")));
    run::check(&mut test)
}
