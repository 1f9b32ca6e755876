//! The output of a process: its last lines, and the number of panics in it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

/// The most lines that are kept. Older ones are dropped.
const LINES: usize = 2_000;
/// The longest line that is kept. The rest of a longer one counts as the next line.
const LINE: u64 = 16 * 1024;
/// Texts with which programs say that they caught or died of a panic.
const PANICS: [&str; 4] =
    ["panic: ", "Observed a panic", "panicked at ", "fatal error: all goroutines are asleep"];

/// The output of all incarnations of a program in one run. Clones are handles to the same log.
#[derive(Clone, Default)]
pub struct Log {
    lines: Arc<Mutex<VecDeque<String>>>,
    panics: Arc<AtomicU64>,
}

impl Log {
    fn lines(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the same log for another incarnation, whose panics are counted apart.
    pub fn of_next_incarnation(&self) -> Log {
        Log { lines: self.lines.clone(), panics: Arc::default() }
    }

    /// Adds a line.
    pub fn add(&self, line: &str) {
        self.panics.fetch_add(u64::from(PANICS.iter().any(|panic| line.contains(panic))), Ordering::Relaxed);
        let mut lines = self.lines();
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }

    /// Returns the last lines.
    pub fn tail(&self, count: usize) -> Vec<String> {
        let lines = self.lines();
        lines.iter().skip(lines.len().saturating_sub(count)).cloned().collect()
    }

    /// Returns everything that is kept.
    pub fn text(&self) -> String {
        self.tail(LINES).into_iter().map(|line| line + "\n").collect()
    }

    /// Returns the number of lines of this incarnation that tell of a panic.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Adds all lines of an output, until it ends.
    pub async fn follow(self, output: impl AsyncRead + Unpin) {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        loop {
            line.clear();
            match (&mut output).take(LINE).read_until(b'\n', &mut line).await {
                Ok(0) | Err(_) => return,
                Ok(_) => self.add(String::from_utf8_lossy(&line).trim_end()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_log_keeps_the_last_lines_and_counts_panics() {
        let log = Log::default();
        let text = "one\npanic: index out of range\nthread 'main' panicked at src/main.rs:1:1\nlast";
        log.clone().follow(text.as_bytes()).await;
        let next = log.of_next_incarnation();
        assert_eq!((log.panics(), next.panics()), (2, 0));
        assert_eq!(next.tail(1), ["last"]);
        for number in 0..LINES + 5 {
            log.add(&number.to_string());
        }
        assert_eq!(log.tail(usize::MAX).len(), LINES);
        assert_eq!(log.tail(usize::MAX)[0], "5");
    }
}
