//! PEM texts, as Go reads them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// One block of a PEM text.
pub(super) struct PemBlock {
    /// The words after `BEGIN`.
    pub(super) kind: String,
    /// Whether lines with a colon stand before the content.
    pub(super) has_headers: bool,
    /// The content.
    pub(super) bytes: Vec<u8>,
}

/// The blocks of a text. Like Go's decoder, this skips what is no block.
pub(super) fn pem_blocks(text: &str) -> Vec<PemBlock> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let begun = lines[at].strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----"));
        at += 1;
        let Some(kind) = begun else { continue };
        let end = format!("-----END {kind}-----");
        let Some(length) = lines[at..].iter().position(|line| *line == end) else { continue };
        let inner = &lines[at..at + length];
        let headers = inner.iter().take_while(|line| line.contains(':')).count();
        let encoded: String = inner[headers..].concat().split_ascii_whitespace().collect();
        if let Ok(bytes) = STANDARD.decode(encoded) {
            blocks.push(PemBlock { kind: kind.to_owned(), has_headers: headers > 0, bytes });
            at += length + 1;
        }
    }
    blocks
}
