//! Random sequences of requests to two servers, whose normalised answers must agree.

use anyhow::Result;

use crate::target::Target;

/// How long and from where.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seconds: u64,
    pub seed: u64,
    /// Go on after a difference and list every distinct one.
    pub keep_going: bool,
}

/// Plays sequence after sequence until the time is over.
pub async fn run(_real: &Target, _ours: &Target, _plan: &Plan) -> Result<()> {
    Ok(())
}
