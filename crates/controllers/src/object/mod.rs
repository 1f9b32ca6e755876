//! Reads of typed objects.

pub mod field;
pub mod node;
pub mod pod;
pub mod percent;
pub mod quantity;
pub mod selector;
pub mod time;
