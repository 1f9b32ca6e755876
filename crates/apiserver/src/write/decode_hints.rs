//! Facts about a patch that the decoder of its result needs.

/// How to decode the result of a patch, and how a refusal speaks of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecodeHints {
    /// The patch is a server-side apply: what it made is shaped a little differently.
    pub(crate) applied: bool,
    /// The namespace that an applied configuration names.
    pub(crate) namespace: String,
    /// The faults that a strict reader finds in the patch itself.
    pub(crate) faults: Vec<String>,
    /// A strategic merge as Go prints it, which refusals quote instead of the object.
    pub(crate) merge: Option<String>,
}
