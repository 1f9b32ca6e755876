//! Runs the crash test on many seeds: `cargo run --release -p setpoint-store --example crash -- COUNT [FIRST]`.
//! Prints each seed; a seed that fails panics with what was lost, and fails again when it is run alone.
#![allow(clippy::unwrap_used)] // This is a test.

#[path = "../tests/it/crash.rs"]
mod crash;

fn main() {
    let mut numbers =
        std::env::args().skip(1).map(|argument| argument.parse::<u64>().expect("a number of seeds"));
    let count = numbers.next().unwrap_or(1000);
    let first = numbers.next().unwrap_or(0);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime without I/O");
    let mut total = crash::Summary::default();
    for seed in first..first + count {
        total.add(runtime.block_on(crash::run(seed)));
    }
    println!("ok: {count} seeds from {first}: {total:?}");
}
