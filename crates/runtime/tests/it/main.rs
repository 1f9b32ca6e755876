//! Integration tests of the runtime's public interface.

mod bad_server;
mod informers;
mod world;
