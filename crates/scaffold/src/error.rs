//! The reasons why nothing was written.

use std::io;
use std::path::PathBuf;

/// The reason why nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScaffoldError {
    /// A name has a wrong form or a meaning of its own.
    #[error("{what} {value:?}: {why}")]
    Name {
        /// The thing that has the name.
        what: &'static str,
        /// The name.
        value: String,
        /// The rule that it breaks.
        why: String,
    },
    /// A file exists.
    #[error("{0} exists already; remove it or choose another name")]
    Exists(PathBuf),
    /// A folder holds no operator that `setpoint new` wrote.
    #[error("{folder} is not the folder of an operator: {why}")]
    NotAnOperator {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        why: String,
    },
    /// The operator has no such kind.
    #[error("the operator has no kind {kind}; it has {known}")]
    UnknownKind {
        /// The kind that was named.
        kind: String,
        /// The kinds that it has.
        known: String,
    },
    /// The operator has it already.
    #[error("the operator has {0} already")]
    Present(String),
    /// A file has lost the place where lines are added.
    #[error("{file} has no line `{marker}`; put it back, or add by hand:\n{text}")]
    NoMarker {
        /// The file.
        file: PathBuf,
        /// The marker.
        marker: String,
        /// The lines to add.
        text: String,
    },
    /// The folder given as Setpoint's source is something else.
    #[error("{0} has no crates/runtime/Cargo.toml; give the folder of a clone of Setpoint")]
    NoSource(PathBuf),
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl ScaffoldError {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> ScaffoldError {
        let path = path.into();
        move |source| ScaffoldError::File { path, source }
    }
}
