//! `setpoint assets`: makes a folder for envtest (`KUBEBUILDER_ASSETS`).

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const EXAMPLES: &str = "Example:
  eval \"$(setpoint assets ~/.cache/setpoint-assets)\" && go test ./...";

/// Write executables named kube-apiserver and etcd, so that a Go suite that uses envtest runs on Setpoint.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The folder. It is created if it does not exist.
    folder: PathBuf,
}

/// Writes the folder.
pub fn run(arguments: &Arguments) -> Result<()> {
    let folder = &arguments.folder;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let program = std::env::current_exe()?;
    for name in ["kube-apiserver", "etcd"] {
        place(&program, &folder.join(name))?;
    }
    if let Some(kubectl) = on_path("kubectl") {
        let link = folder.join("kubectl");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(kubectl, link)?;
    }
    println!("export KUBEBUILDER_ASSETS={}", std::path::absolute(folder)?.display());
    Ok(())
}

/// Places the program under another name, which selects its role. A hard link if the file system allows it, so that a
/// rebuild of the original does not remove it.
fn place(program: &Path, target: &Path) -> Result<()> {
    match std::fs::remove_file(target) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    if std::fs::hard_link(program, target).is_err() {
        std::fs::copy(program, target).with_context(|| format!("cannot write {}", target.display()))?;
    }
    Ok(())
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
