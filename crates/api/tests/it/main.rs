//! Recordings of the real server, replayed.

mod kinds;
