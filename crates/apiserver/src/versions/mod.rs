//! The versions of an object: the version of the request, the stored one, and those that a webhook or its managers know.
//!
//! [`present`] shows a stored object in the version of the request. Two sources convert: [`builtin_views`] for the
//! built-in kinds with two views of one stored form, [`conversion`] for custom kinds that a webhook converts.

pub(crate) mod present;
pub(crate) mod builtin_views;
pub(crate) mod conversion;
