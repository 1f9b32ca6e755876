//! The table's binary layout. `setpoint_schema::table` reads it.
//!
//! All offsets are little-endian u32 from the start of the file:
//! `SPT1`, string count, string index, type count, type index, kind count, kinds, resources; then the parts.
//! An index has one offset more than entries. A kind is four u16: group, version, kind (strings) and type.
//! Records are unsigned LEB128 numbers; a string is its number in the string table; "or none" is plus one, 0 none.

use std::collections::HashMap;

use anyhow::{Result, bail, ensure};

/// The magic and version.
pub const MAGIC: &[u8; 4] = b"SPT1";
const HEADER: usize = 4 + 7 * 4;

/// Each text once.
#[derive(Default)]
pub struct Strings {
    order: Vec<String>,
    known: HashMap<String, u32>,
}

impl Strings {
    /// The number of a text.
    pub fn add(&mut self, text: &str) -> u32 {
        if let Some(at) = self.known.get(text) {
            return *at;
        }
        let at = u32::try_from(self.order.len()).expect("fewer texts than u32 counts");
        self.order.push(text.to_owned());
        self.known.insert(text.to_owned(), at);
        at
    }

    /// Returns the number of strings.
    pub fn len(&self) -> usize {
        self.order.len()
    }
}

/// One record under construction.
#[derive(Clone, Default)]
pub struct Record(Vec<u8>);

impl Record {
    /// A number.
    pub fn number(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A number or none.
    pub fn optional(&mut self, value: Option<u32>) {
        self.number(value.map_or(0, |value| value + 1));
    }

    /// A counted list of texts.
    pub fn texts<'a>(&mut self, texts: impl ExactSizeIterator<Item = &'a str>, strings: &mut Strings) {
        self.number(u32::try_from(texts.len()).expect("short list"));
        for text in texts {
            self.number(strings.add(text));
        }
    }
}

/// A kind: group, version, kind, type number.
pub type Kind = (String, String, String, u16);

/// The whole file.
pub fn assemble(strings: &Strings, types: &[Record], kinds: &[Kind], resources: &Record) -> Result<Vec<u8>> {
    ensure!(kinds.is_sorted(), "kinds are searched by halving");
    let mut out = vec![0; HEADER];
    let string_index = indexed(&mut out, strings.order.iter().map(|text| text.as_bytes()))?;
    let type_index = indexed(&mut out, types.iter().map(|record| record.0.as_slice()))?;
    let kinds_at = out.len();
    for (group, version, kind, number) in kinds {
        for text in [group, version, kind] {
            let Some(at) = strings.known.get(text) else { bail!("{text} is not in the string table") };
            out.extend(u16::try_from(*at)?.to_le_bytes());
        }
        out.extend(number.to_le_bytes());
    }
    let resources_at = out.len();
    out.extend(&resources.0);
    let header = [strings.len(), string_index, types.len(), type_index, kinds.len(), kinds_at, resources_at];
    out[..4].copy_from_slice(MAGIC);
    for (slot, value) in out[4..HEADER].chunks_exact_mut(4).zip(header) {
        slot.copy_from_slice(&u32::try_from(value)?.to_le_bytes());
    }
    Ok(out)
}

/// Writes the parts, then their index, and says where the index stands.
fn indexed<'a>(out: &mut Vec<u8>, parts: impl Iterator<Item = &'a [u8]>) -> Result<usize> {
    let mut offsets = Vec::new();
    for part in parts {
        offsets.push(u32::try_from(out.len())?);
        out.extend(part);
    }
    offsets.push(u32::try_from(out.len())?);
    let at = out.len();
    out.extend(offsets.into_iter().flat_map(u32::to_le_bytes));
    Ok(at)
}
