//! `cargo run -p setpoint-peers --example control_plane -- FOLDER`: a real control plane for looking at, until it is
//! interrupted.

#![allow(clippy::disallowed_methods)]

use std::path::PathBuf;

use anyhow::{Context, Result};
use setpoint_peers::{ControlPlane, Options};

fn main() -> Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).context("usage: control_plane FOLDER")?);
    std::fs::create_dir_all(&folder)?;
    let options = Options { controller_manager: Some(vec!["*".to_owned()]), ..Options::default() };
    let plane = ControlPlane::start(&folder, &options)?;
    println!("ready {}, kubeconfig {}; end of input stops it", plane.url(), plane.kubeconfig().display());
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}
