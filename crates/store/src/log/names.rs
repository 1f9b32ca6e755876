//! Names of the files.

pub(crate) const TEMPORARY: &str = ".tmp";

pub(crate) fn log(generation: u64) -> String {
    format!("log-{generation:016x}")
}

pub(crate) fn checkpoint(generation: u64) -> String {
    format!("checkpoint-{generation:016x}")
}

pub(crate) fn blob(name: &str) -> String {
    format!("blob-{name}")
}

pub(crate) fn temporary(name: &str) -> String {
    format!("{name}{TEMPORARY}")
}

/// The meaning of a file's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Log(u64),
    Checkpoint(u64),
    Blob(String),
    /// Left by a crash while it was being written.
    Temporary,
    /// Not ours to touch.
    Other,
}

pub(crate) fn parse(name: &str) -> Name {
    let generation = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let ours = ["log-", "checkpoint-", "blob-"].iter().any(|prefix| name.starts_with(prefix));
    if ours && name.ends_with(TEMPORARY) {
        Name::Temporary
    } else if let Some(blob) = name.strip_prefix("blob-") {
        Name::Blob(blob.to_owned())
    } else if let Some(generation) = name.strip_prefix("log-").and_then(generation) {
        Name::Log(generation)
    } else if let Some(generation) = name.strip_prefix("checkpoint-").and_then(generation) {
        Name::Checkpoint(generation)
    } else {
        Name::Other
    }
}
