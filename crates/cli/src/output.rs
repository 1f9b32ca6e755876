//! Lines on the standard output.

use std::io::Write;

/// Prints a line. A reader that closes the pipe early has seen enough: `setpoint status | head -1` is no failure, and a
/// cluster goes on without its reader.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
