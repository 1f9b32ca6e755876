//! Progress on stderr: one line that changes on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use setpoint_prove_blackbox::Stage;
use tokio::time::Instant;

/// The interval of plain lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// The printed progress of one proof.
pub struct Progress {
    terminal: bool,
    began: Instant,
    last: Mutex<Option<Instant>>,
}

impl Default for Progress {
    fn default() -> Self {
        let terminal = std::io::stderr().is_terminal();
        Progress { terminal, began: Instant::now(), last: Mutex::new(None) }
    }
}

impl Progress {
    /// Shows a stage.
    pub fn tell(&self, stage: Stage<'_>) {
        let seconds = self.began.elapsed().as_secs();
        match stage {
            Stage::Undisturbed => self.line(&format!("{seconds:>4} s  the undisturbed life"), true),
            Stage::Lived(patience) => self.permanent(&format!(
                "{seconds:>4} s  the longest pause of the undisturbed operator was {:.1} s: runs are judged after {:.1} s of \
                 rest, findings after {:.1} s",
                patience.pause.as_secs_f64(),
                patience.suspicion.as_secs_f64(),
                patience.confirmation.as_secs_f64(),
            )),
            Stage::Plans { done, all, found } => {
                self.line(&format!("{seconds:>4} s  {done} of {all} plans so far, {found} found"), false);
            }
            Stage::Found(finding) => {
                let first = finding.headline.lines().next().unwrap_or_default();
                self.permanent(&format!("{seconds:>4} s  ✗ {first}"));
            }
            Stage::Shrinking => self.line(&format!("{seconds:>4} s  shortening the lives of findings"), true),
        }
    }

    /// Removes the changing line.
    pub fn end(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }

    fn line(&self, text: &str, important: bool) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if self.terminal {
            eprint!("\r\x1b[K{text}");
            let _ = std::io::stderr().flush();
        } else if important || last.is_none_or(|last| last.elapsed() >= INTERVAL) {
            *last = Some(Instant::now());
            eprintln!("{text}");
        }
    }

    fn permanent(&self, text: &str) {
        let _one_at_a_time = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        eprintln!("{clear}{text}");
    }
}
