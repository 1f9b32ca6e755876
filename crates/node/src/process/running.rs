//! The task that follows one run of a container to its end.

use std::path::PathBuf;

use jiff::Timestamp;
use setpoint::Key;
use tokio::sync::watch;

use super::output::Output;
use super::pods::ProcessPods;
use super::supervised::{Condition, End};
use crate::annotation::Script;
use crate::log::Log;
use crate::plain_file;

/// Maximum length of a termination message. A longer one is cut, as in a kubelet.
const MESSAGE_BYTES: u64 = 4096;
/// Length of the end of the log that replaces a missing message.
const FALLBACK_BYTES: usize = 2048;
/// Bytes of the log that are read for the fallback. A line may have 16 KiB, and each has a time before it.
const FALLBACK_READ_BYTES: u64 = 64 * 1024;
const FALLBACK_LINES: usize = 80;

/// The location of a container's termination message.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// The file on the host that the program may write.
    pub file: Option<PathBuf>,
    /// Whether the end of the log replaces the missing message of a failed run.
    pub from_log: bool,
}

impl Message {
    /// Returns the message of a run that ended with `code`.
    fn read(&self, code: i32, log: &Log) -> Option<String> {
        let written = self.file.as_ref().and_then(|path| plain_file::read(path, MESSAGE_BYTES).ok());
        if let Some(bytes) = written.filter(|bytes| !bytes.is_empty()) {
            return Some(String::from_utf8_lossy(&bytes).into_owned());
        }
        if !self.from_log || code == 0 {
            return None;
        }
        let options =
            crate::log::LogOptions { tail_lines: Some(FALLBACK_LINES), ..crate::log::LogOptions::default() };
        let lines = options.select(&log.read_end(FALLBACK_READ_BYTES).ok()?, Timestamp::UNIX_EPOCH);
        let end = &lines[lines.len().saturating_sub(FALLBACK_BYTES)..];
        Some(String::from_utf8_lossy(end).into_owned()).filter(|text| !text.is_empty())
    }
}

/// The task that follows one run.
#[derive(Clone)]
pub(super) struct Watch {
    pub pods: ProcessPods,
    pub key: Key,
    pub name: String,
}

impl Watch {
    /// Waits for a program's end.
    pub async fn until_end(self, mut condition: watch::Receiver<Condition>, message: Message, log: Log) {
        let ended = condition.wait_for(|condition| matches!(condition, Condition::Ended(_))).await;
        let Ok(Condition::Ended(end)) = ended.map(|condition| condition.clone()) else { return };
        let words = message.read(end.code, &log);
        self.pods.ended(&self.key, &self.name, &end, words);
    }

    /// Plays the script of a simulated container.
    pub async fn simulate(self, script: Script, output: Output) {
        output.say(&format!("simulated container {} started", self.name));
        if !script.ready_delay.is_zero() {
            tokio::time::sleep(script.ready_delay).await;
            self.pods.change(&self.key, &self.name, |runs| runs.ready = true);
        }
        let Some(time) = script.run_for else { return };
        tokio::time::sleep(time.saturating_sub(script.ready_delay)).await;
        output.say(&format!("simulated container {} ended with code {}", self.name, script.exit_code));
        let _ = output.end();
        let end = End { code: script.exit_code, signal: None, message: None };
        self.pods.ended(&self.key, &self.name, &end, None);
    }
}
