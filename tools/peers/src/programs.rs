//! The programs that Setpoint is compared with, built from their Go modules into a cache folder outside the
//! repository: `$SETPOINT_PEERS`, or `setpoint-peers` in the user's cache folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The version of Kubernetes whose API Setpoint serves; `peers/kubernetes/go.mod` pins the same.
pub const KUBERNETES_VERSION: &str = "v1.37.0";

/// A program, the folder under `peers/` whose go.mod pins it, and its package.
struct Peer {
    program: &'static str,
    module: &'static str,
    package: &'static str,
    version: &'static str,
}

const PEERS: &[Peer] = &[
    Peer {
        program: "kube-apiserver",
        module: "kubernetes",
        package: "k8s.io/kubernetes/cmd/kube-apiserver",
        version: KUBERNETES_VERSION,
    },
    Peer {
        program: "kubectl",
        module: "kubernetes",
        package: "k8s.io/kubernetes/cmd/kubectl",
        version: KUBERNETES_VERSION,
    },
    Peer {
        program: "kube-controller-manager",
        module: "kubernetes",
        package: "k8s.io/kubernetes/cmd/kube-controller-manager",
        version: KUBERNETES_VERSION,
    },
    Peer { program: "kubectl-1.32", module: "kubectl-1.32", package: ".", version: "v1.32.2" },
    Peer { program: "etcd", module: "etcd", package: ".", version: "v3.6.4" },
    Peer {
        program: "sample-controller",
        module: "sample-controller",
        package: "k8s.io/sample-controller",
        version: KUBERNETES_VERSION,
    },
];

/// The oldest API server that the runtime promises to work with. Few need it, so it is built only for who asks.
const OLDEST: Peer = Peer {
    program: "kube-apiserver-1.32",
    module: "kube-apiserver-1.32",
    package: "k8s.io/kubernetes/cmd/kube-apiserver",
    version: "v1.32.2",
};

/// Returns the folder of the programs.
pub fn folder() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("SETPOINT_PEERS") {
        return Ok(folder.into());
    }
    let cache = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").context("neither SETPOINT_PEERS nor HOME is set")?)
            .join(".cache"),
    };
    Ok(cache.join("setpoint-peers/bin"))
}

/// Builds the missing programs of tests and benchmarks, and returns their folder.
pub fn build_all() -> Result<PathBuf> {
    for peer in PEERS {
        build(peer)?;
    }
    folder()
}

/// The path of one program, built first when it is missing.
pub fn program(name: &str) -> Result<PathBuf> {
    match PEERS.iter().chain([&OLDEST]).find(|peer| peer.program == name) {
        Some(peer) => build(peer),
        None => bail!("{name} is not a peer"),
    }
}

fn build(peer: &Peer) -> Result<PathBuf> {
    let folder = folder()?;
    let target = folder.join(peer.program);
    if target.is_file() {
        return Ok(target);
    }
    std::fs::create_dir_all(&folder)?;
    eprintln!("building {} {}", peer.program, peer.version);
    // Built beside its place and renamed, so that an interrupted build leaves no half program behind.
    let partial = folder.join(format!("{}.partial", peer.program));
    let status = Command::new("go")
        .current_dir(modules().join(peer.module))
        .env("CGO_ENABLED", "0")
        .args(["build", "-buildvcs=false", "-ldflags", &link_flags(peer.version), "-o"])
        .arg(&partial)
        .arg(peer.package)
        .status()
        .with_context(|| format!("{} has to be built and go cannot be started", peer.program))?;
    if !status.success() {
        bail!("go build of {} ended with {status}", peer.program);
    }
    rename(&partial, &target)?;
    Ok(target)
}

/// The folder with a go.mod for each group of programs.
fn modules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers")
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    std::fs::rename(from, to).with_context(|| format!("cannot rename {} to {}", from.display(), to.display()))
}

/// Link settings of a release besides its version, so that all builds of it answer alike.
const RELEASED: [(&str, &str); 3] = [
    ("gitCommit", "0000000000000000000000000000000000000000"),
    ("gitTreeState", "clean"),
    ("buildDate", "2026-08-01T00:00:00Z"),
];

/// The version that the program reports: Kubernetes reads it from variables set at link time.
fn link_flags(version: &str) -> String {
    let minor = version.split('.').nth(1).unwrap_or_default();
    let mut flags = String::from("-s -w");
    for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
        flags += &format!(
            " -X {package}.gitVersion={version} -X {package}.gitMajor=1 -X {package}.gitMinor={minor}"
        );
        for (name, value) in RELEASED {
            flags += &format!(" -X {package}.{name}={value}");
        }
    }
    flags
}
