//! `cargo xtask schema`: the table of built-in kinds that `setpoint-schema` embeds, from the Go modules of
//! Kubernetes. Facts only: no sentence of the published descriptions goes into it.

mod resources;
mod types;
mod blob;
mod sources;

use std::fs;

use anyhow::{Context, Result};

use crate::run;

/// The table in this repository.
const TABLE: &str = "crates/schema/src/builtin.bin";

/// Protobuf that Go's own types wrote, for the tests.
const VECTORS: &str = "testdata/protobuf";

/// Reads the modules and writes the table and the test vectors.
pub fn generate() -> Result<()> {
    let sources = sources::load()?;
    let mut strings = blob::Strings::default();
    let types = types::collect(&sources, &mut strings)?;
    let resources = resources::collect(&sources, &mut strings)?;
    let kinds = types.kinds;
    let bytes = blob::assemble(&strings, &types.records, &kinds, &resources)?;
    let path = run::root().join(TABLE);
    fs::write(&path, &bytes).with_context(|| format!("cannot write {}", path.display()))?;
    println!(
        "{}: {} bytes, {} types, {} kinds, {} strings",
        TABLE,
        bytes.len(),
        types.records.len(),
        kinds.len(),
        strings.len()
    );
    let folder = run::root().join(VECTORS);
    fs::create_dir_all(&folder)?;
    sources::go(&["vectors".as_ref(), folder.as_os_str()]).map(drop)
}
