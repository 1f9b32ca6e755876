//! Cases that are a start with flags: a flag that would protect something acts, or stops the start.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use setpoint_wire::attack::Case;

use crate::run::{self, Played};
use crate::servers::{Process, Starter};

/// Time within which a program says that it does not start.
const SAYS_WITHIN: Duration = Duration::from_secs(30);

/// A case without steps must not start, on both. A case with steps starts ours and plays them there.
pub async fn play(starter: &Starter, case: &Case, with_real: bool) -> Result<(Played, Option<Played>)> {
    if !case.attack.is_empty() {
        let mut server = starter.ours(&case.flags).await?;
        return Ok((run::steps(&mut server, case).await?, None));
    }
    let folder = tempfile::tempdir()?;
    let ours = refused(&mut starter.command(folder.path(), 0, &case.flags)?).await?;
    if !with_real || case.differs.is_some() {
        return Ok((ours, None));
    }
    // Flags are checked before anything is asked of etcd: it need not be there.
    let mut real = Command::new(setpoint_peers::program("kube-apiserver")?);
    real.current_dir(folder.path())
        .args(["--etcd-servers=http://127.0.0.1:1", "--secure-port=1", "--cert-dir=certs"])
        .args(["--service-account-issuer=https://kubernetes.default.svc"])
        .args(["--service-account-key-file=sa.pub", "--service-account-signing-key-file=sa.key"])
        .args(&case.flags)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(folder.path().join("real.log"))?);
    Ok((ours, Some(refused(&mut real).await?)))
}

/// Whether the program ends by itself with an error.
async fn refused(command: &mut Command) -> Result<Played> {
    let mut process = Process(command.spawn().context("cannot start")?);
    let deadline = Instant::now() + SAYS_WITHIN;
    loop {
        if let Some(status) = process.0.try_wait()? {
            let said = if status.success() { "ended" } else { "refused" };
            let broken = if status.success() { vec![format!("ended with {status}")] } else { Vec::new() };
            return Ok(Played { said: said.to_owned(), broken, ..Played::default() });
        }
        if Instant::now() > deadline {
            let broken = vec!["it started".to_owned()];
            return Ok(Played { said: "started".to_owned(), broken, ..Played::default() });
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
