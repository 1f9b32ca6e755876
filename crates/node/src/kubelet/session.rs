//! The parts of an exec or attach session, whatever protocol carries it.

use serde_json::Value;

use crate::process::attach::{self, Attachment};
use crate::process::exec::{self, ExecCommand};
use crate::process::streams::Client;
use crate::process::terminal::Size;

/// The node's side.
pub enum Session {
    /// A program beside the container's.
    Exec(ExecCommand),
    /// The container's own streams.
    Attach(Attachment),
}

impl Session {
    /// Carries the streams to their end, and returns the Status that reports it.
    pub async fn run(self, client: Client) -> Value {
        match self {
            Session::Exec(exec) => exec::run(exec, client).await,
            Session::Attach(attachment) => attach::run(attachment, client).await,
        }
    }
}

/// Window sizes as clients send them: JSON objects, one after the other.
#[derive(Debug, Default)]
pub struct Sizes(Vec<u8>);

/// Maximum length of an unfinished size message. A longer one is not a size.
const SIZE_BYTES: usize = 4096;

impl Sizes {
    /// Takes bytes. Returns the last complete size.
    pub fn push(&mut self, bytes: &[u8]) -> Option<Size> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Window {
            width: u16,
            height: u16,
        }
        self.0.extend_from_slice(bytes);
        let mut windows = serde_json::Deserializer::from_slice(&self.0).into_iter::<Window>();
        let mut last = None;
        let mut taken = 0;
        while let Some(Ok(window)) = windows.next() {
            last = Some(Size { width: window.width, height: window.height });
            taken = windows.byte_offset();
        }
        self.0.drain(..taken);
        if self.0.len() > SIZE_BYTES {
            self.0.clear();
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_whole_or_in_pieces() {
        let mut sizes = Sizes::default();
        assert_eq!(sizes.push(b"{\"Width\":80,"), None);
        assert_eq!(sizes.push(b"\"Height\":24}\n{\"Wi"), Some(Size { width: 80, height: 24 }));
        assert_eq!(sizes.push(b"dth\":1,\"Height\":2}"), Some(Size { width: 1, height: 2 }));
        assert_eq!(sizes.push(&vec![b'x'; 5000]), None);
        assert_eq!(sizes.push(b"{\"Width\":3,\"Height\":4}"), Some(Size { width: 3, height: 4 }));
    }
}
