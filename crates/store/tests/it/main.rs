//! The store from outside.

mod behaviour;
