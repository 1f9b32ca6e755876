//! `cargo xtask ci [STAGE…]`: the gate, or single stages of it. Each prints its seconds.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{e2e, flags, run};

/// The oldest Kubernetes that the libraries compile for. The stage `packages` compiles them for the newest.
const OLDEST_KUBERNETES: &str = "1.33";
const NEWEST_KUBERNETES: &str = "1.37";

type Stage = (&'static str, fn() -> Result<()>);

const STAGES: &[Stage] = &[
    ("format", format),
    ("clippy", clippy),
    ("tidy", tidy),
    ("docs", docs),
    ("tests", tests),
    ("libraries", libraries),
    ("licences", licences),
    ("packages", packages),
    ("e2e", end_to_end),
];

pub fn run(names: &[String]) -> Result<()> {
    if let Some(unknown) = names.iter().find(|name| STAGES.iter().all(|(stage, _)| stage != name)) {
        let known: Vec<&str> = STAGES.iter().map(|(stage, _)| *stage).collect();
        bail!("no stage `{unknown}`; there are {}", known.join(", "));
    }
    let began = Instant::now();
    for (name, stage) in STAGES {
        if names.is_empty() || names.iter().any(|wanted| wanted == name) {
            println!("=== {name}");
            let began = Instant::now();
            let ended = stage();
            println!("=== {name}: {} s", began.elapsed().as_secs());
            ended.with_context(|| format!("{name} failed"))?;
        }
    }
    println!("=== all: {} s", began.elapsed().as_secs());
    Ok(())
}

/// cargo as a machine runs it: what is built once needs no incremental state.
fn cargo(words: &[&str]) -> Command {
    let mut command = run::cargo();
    command.env("CARGO_TERM_COLOR", "never").env("CARGO_INCREMENTAL", "0").args(words);
    command
}

fn format() -> Result<()> {
    run::check(&mut cargo(&["fmt", "--all", "--check"]))
}

fn clippy() -> Result<()> {
    run::check(&mut cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))
}

fn tidy() -> Result<()> {
    crate::tidy::run(&[])
}

/// With an example among them, cargo chooses the features as it does for clippy and the tests: what those checked is
/// used again. Programs are left out: one has the name of a library.
fn docs() -> Result<()> {
    let mut command = cargo(&["doc", "--workspace", "--no-deps", "--lib", "--examples", "--quiet"]);
    run::check(command.env("RUSTDOCFLAGS", "-D warnings"))
}

fn tests() -> Result<()> {
    run::check(&mut cargo(&["test", "--workspace", "--quiet"]))
}

/// The libraries that choose no Kubernetes compile for the oldest one.
fn libraries() -> Result<()> {
    let mut command = cargo(&["check", "--quiet", "--lib"]);
    for name in ["setpoint", "setpoint-controllers", "setpoint-node", "setpoint-cluster"] {
        command.args(["--package", name]);
    }
    run::check(command.env("K8S_OPENAPI_ENABLED_VERSION", OLDEST_KUBERNETES))
}

fn licences() -> Result<()> {
    ensure!(run::found("cargo-deny").is_some(), "cargo-deny is missing; `.ci/run` installs it");
    run::check(&mut cargo(&["deny", "--log-level", "error", "check", "licenses", "bans", "sources"]))
}

/// Every crate that is published compiles from its package alone, for the newest Kubernetes.
fn packages() -> Result<()> {
    // An earlier run unpacked and built packages of the same version numbers: cargo would take those for these.
    // It unpacks what comes from no host into folders whose names begin with a dash.
    for host in folders(&cargo_home().join("registry/src"), "-")? {
        remove_all(folders(&host, "setpoint")?)?;
    }
    let target = run::target_folder();
    if target.join("package").is_dir() {
        std::fs::remove_dir_all(target.join("package"))?;
        remove_all(folders(&target.join("debug/.fingerprint"), "setpoint")?)?;
    }
    let mut command = cargo(&["package", "--quiet", "--allow-dirty"]);
    for name in published()? {
        command.args(["--package", &name]);
    }
    // One folder to build in: by default each package builds all its dependencies in its own. Without debug
    // information, as the workspace builds them: what is built already is used again, and a small disk is enough.
    command.env("CARGO_TARGET_DIR", &target).env("CARGO_PROFILE_DEV_DEBUG", "false");
    run::check(command.env("K8S_OPENAPI_ENABLED_VERSION", NEWEST_KUBERNETES))
}

fn cargo_home() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo");
    std::env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from)
}

/// The folders in a folder whose names begin like this; none if it does not exist.
fn folders(folder: &Path, prefix: &str) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in folder.read_dir()? {
        let path = entry?.path();
        let begins = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
        if begins && path.is_dir() {
            found.push(path);
        }
    }
    Ok(found)
}

fn remove_all(folders: Vec<PathBuf>) -> Result<()> {
    for folder in folders {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}

/// The crates that may be published.
fn published() -> Result<Vec<String>> {
    let words = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let metadata: Value = serde_json::from_str(&run::read(&mut cargo(&words))?)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    // `publish = false` is an empty list of registries.
    let published = packages.filter(|package| package["publish"].is_null());
    Ok(published.filter_map(|package| package["name"].as_str()).map(str::to_owned).collect())
}

/// The parts that decide whether a user is broken, on the programs that the tests built.
fn end_to_end() -> Result<()> {
    e2e::run(&[])
}

/// `cargo xtask advisories --database FOLDER`: outside of the gate, as the answer changes with the day.
pub fn advisories(words: &[String]) -> Result<()> {
    flags::check(words, &["--database="])?;
    let Some([_, folder]) = words.get(..2) else {
        bail!("usage: cargo xtask advisories --database FOLDER (a clone of the RustSec advisory database)");
    };
    let folder = Path::new(folder).canonicalize().with_context(|| format!("no database in {folder}"))?;
    ensure!(
        folder.join("crates").is_dir() && folder.join(".git").exists(),
        "{} is no clone of the RustSec advisory database: it has no `crates` or no `.git`",
        folder.display()
    );
    ensure!(run::found("cargo-deny").is_some(), "cargo-deny is missing; `.ci/run` installs it");
    let own = tempfile::tempdir()?;
    let config = own.path().join("deny.toml");
    std::fs::write(&config, advisory_config(own.path()))?;
    let mut command = cargo(&["deny", "--log-level", "error", "--config"]);
    command.arg(&config).args(["check", "advisories"]);
    // Nothing is asked of any host: git clones the folder in place of the address, and cargo resolves from what is here.
    command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_VALUE_0", DATABASE);
    command.env("GIT_CONFIG_KEY_0", format!("url.{}.insteadOf", folder.display()));
    run::check(command.env("CARGO_NET_OFFLINE", "true"))
}

/// cargo-deny takes no folder for a database, only an address with a host. This one exists nowhere.
const DATABASE: &str = "https://database.invalid/advisories";

/// Whether a version was yanked stands in the index of the registry, and that would need the network.
fn advisory_config(own: &Path) -> String {
    format!(
        "[advisories]\ndb-urls = [{DATABASE:?}]\ndb-path = {:?}\ngit-fetch-with-cli = true\nyanked = \"allow\"\n",
        own.join("databases")
    )
}
