//! Adding controllers to a manager.

use std::collections::BTreeSet;

use setpoint::{Manager, SetupError};

use crate::token::TokenSigner;
use crate::{
    aggregation, cronjob, daemonset, deployment, disruption, endpoints, endpointslice,
    endpointslicemirroring, garbage, job, namespace, nodelifecycle, podgc, protection, replicaset,
    resourcequota, rootca, scheduler, serviceaccount, statefulset, tainteviction, token, ttlafterfinished,
    volume,
};

/// The names of all controllers, as [`Options::only`] takes them.
pub const NAMES: &[&str] = &[
    "deployment",
    "replicaset",
    "replicationcontroller",
    "statefulset",
    "daemonset",
    "job",
    "cronjob",
    "ttl-after-finished",
    "garbage",
    "namespace",
    "serviceaccount",
    "serviceaccount-token",
    "rootca",
    "endpoints",
    "endpointslice",
    "endpointslicemirroring",
    "nodelifecycle",
    "podgc",
    "tainteviction",
    "disruption",
    "persistentvolume-binder",
    "persistentvolume-provisioner",
    "ephemeral-volume",
    "persistentvolumeclaim-protection",
    "persistentvolume-protection",
    "volumeattributesclass-protection",
    "resourcequota",
    "clusterrole-aggregation",
    "scheduler",
];

/// The controllers to run, and their settings.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The names of the controllers to run, or `None` for all of [`NAMES`]. Unknown names are ignored: a caller that
    /// takes names from people checks them with [`parse_names`].
    pub only: Option<BTreeSet<String>>,
    /// The API server's CA certificate in PEM, which `rootca` publishes; without it that controller does not run.
    pub root_ca: Option<String>,
    /// Signs the tokens in Secrets; without it `serviceaccount-token` does not run.
    pub token_signer: Option<TokenSigner>,
}

/// A name that is no controller's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no controller is called {0:?}: there are {list}", list = NAMES.join(", "))]
pub struct UnknownName(pub String);

/// Reads names separated by commas; `gc` is short for `garbage`. `also` are names that the caller knows what to do with.
///
/// ```
/// let names = setpoint_controllers::parse_names("gc,scheduler,node", &["node"]).unwrap();
/// assert!(names.contains("garbage") && names.contains("node"));
/// assert!(setpoint_controllers::parse_names("deploymnet", &[]).is_err());
/// ```
///
/// # Errors
/// When a name is unknown.
pub fn parse_names(text: &str, also: &[&str]) -> Result<BTreeSet<String>, UnknownName> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names
        .map(|name| match name {
            "gc" => Ok("garbage".to_owned()),
            name if NAMES.contains(&name) || also.contains(&name) => Ok(name.to_owned()),
            name => Err(UnknownName(name.to_owned())),
        })
        .collect()
}

type Register = fn(&Manager) -> Result<(), SetupError>;

/// Adds the controllers to the manager, which runs them.
///
/// # Errors
/// When the manager has stopped, or has controllers of the same names already.
pub fn register(manager: &Manager, options: &Options) -> Result<(), SetupError> {
    let wanted = |name: &str| options.only.as_ref().is_none_or(|only| only.contains(name));
    let plain: &[(&str, Register)] = &[
        ("deployment", deployment::register),
        ("replicaset", replicaset::register_sets),
        ("replicationcontroller", replicaset::register_controllers),
        ("statefulset", statefulset::register),
        ("daemonset", daemonset::register),
        ("job", job::register),
        ("cronjob", cronjob::register),
        ("ttl-after-finished", ttlafterfinished::register),
        ("garbage", garbage::register),
        ("namespace", namespace::register),
        ("serviceaccount", serviceaccount::register),
        ("endpoints", endpoints::register),
        ("endpointslice", endpointslice::register),
        ("endpointslicemirroring", endpointslicemirroring::register),
        ("nodelifecycle", nodelifecycle::register),
        ("podgc", podgc::register),
        ("tainteviction", tainteviction::register),
        ("disruption", disruption::register),
        ("persistentvolume-binder", volume::register_binder),
        ("persistentvolume-provisioner", volume::register_provisioner),
        ("ephemeral-volume", volume::register_ephemeral),
        ("persistentvolumeclaim-protection", protection::register_claims),
        ("persistentvolume-protection", protection::register_volumes),
        ("volumeattributesclass-protection", protection::register_classes),
        ("resourcequota", resourcequota::register),
        ("clusterrole-aggregation", aggregation::register),
        ("scheduler", scheduler::register),
    ];
    for (name, register) in plain.iter().copied() {
        if wanted(name) {
            register(manager)?;
        }
    }
    if let Some(signer) = options.token_signer.as_ref().filter(|_| wanted("serviceaccount-token")) {
        token::register(manager, signer, options.root_ca.as_deref())?;
    }
    match &options.root_ca {
        Some(bundle) if wanted("rootca") => rootca::register(manager, bundle),
        _ => Ok(()),
    }
}
