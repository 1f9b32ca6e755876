//! Scenarios on a cluster in this process.

mod controllers;
