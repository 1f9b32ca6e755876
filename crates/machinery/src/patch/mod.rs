//! JSON patch (RFC 6902) and JSON merge patch (RFC 7386), as kube-apiserver applies them.

mod merge_patch;
mod json_patch;
mod document;
#[cfg(test)]
mod tests;

pub use json_patch::{MAX_OPERATIONS, PatchError, apply_json_patch};
pub use merge_patch::apply_merge_patch;
