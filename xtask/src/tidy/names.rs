//! How many names stand at the root of `setpoint`: a reader meets all of them at once.

use std::fs;

use anyhow::Result;

use super::layers;
use super::ratchets::Ratchets;
use crate::run;

pub const RULE: &str = "root-names";
const CRATE: &str = "crates/runtime";

/// Counts them.
pub fn count(ratchets: &mut Ratchets) -> Result<()> {
    let text = fs::read_to_string(run::root().join(CRATE).join("src/lib.rs"))?;
    for name in layers::public_names(&text) {
        ratchets.count(RULE, CRATE, name);
    }
    Ok(())
}
