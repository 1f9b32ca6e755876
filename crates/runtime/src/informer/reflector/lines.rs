//! Cuts the body of a watch into lines.

use memchr::memchr;

/// Longest event that is read. An object is at most a few MiB in any server; a longer line is no watch.
const LONGEST_LINE: usize = 64 * 1024 * 1024;

/// A line grew beyond its bound: the stream must be given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineTooLong;

/// Keeps the part of a line whose end has not come yet. Whole lines are read where they lie in the chunk.
#[derive(Default)]
pub(super) struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    /// Calls `line` for each line that ends in `chunk`, until it says to stop. A line that never ends is dropped
    /// with the stream: half an event is no event.
    pub fn split(
        &mut self,
        mut chunk: &[u8],
        mut line: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), LineTooLong> {
        while let Some(end) = memchr(b'\n', chunk) {
            let go_on = if self.begun.is_empty() {
                line(&chunk[..end])
            } else {
                self.begun.extend_from_slice(&chunk[..end]);
                let go_on = line(&self.begun);
                self.begun.clear();
                go_on
            };
            chunk = &chunk[end + 1..];
            if !go_on {
                return Ok(());
            }
        }
        if self.begun.len() + chunk.len() > LONGEST_LINE {
            return Err(LineTooLong);
        }
        self.begun.extend_from_slice(chunk);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_the_stream_is_cut() {
        let text = b"first\n\nthird line\nlast\nhalf";
        for size in 1..text.len() {
            let mut lines = Lines::default();
            let mut seen = Vec::new();
            for chunk in text.chunks(size) {
                lines
                    .split(chunk, |line| {
                        seen.push(String::from_utf8(line.to_vec()).unwrap());
                        true
                    })
                    .unwrap();
            }
            assert_eq!(seen, ["first", "", "third line", "last"], "{size}");
        }
    }
}
