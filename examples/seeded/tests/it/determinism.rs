//! One seed gives one trace in every process.

use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Starts a process that prints the trace of a seed, in a folder and with an environment.
fn start(seed: &str, folder: &Path, environment: &[(&str, &str)]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_score"));
    command.args(["trace", seed]).current_dir(folder).env_clear().envs(environment.iter().copied());
    command.stdout(Stdio::piped()).spawn().unwrap()
}

fn trace(process: Child) -> String {
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn one_seed_gives_one_trace_whatever_surrounds_the_process() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let one = start("7", here, &[]);
    let surroundings =
        [("TZ", "Asia/Tokyo"), ("LANG", "de_DE.UTF-8"), ("HOME", "/nowhere"), ("RUST_LOG", "trace")];
    // Three at once: each is a load for the others.
    let two = start("7", Path::new("/"), &surroundings);
    let other = start("8", here, &[]);
    let (one, two, other) = (trace(one), trace(two), trace(other));
    assert!(one.contains("PATCH statefulsets.apps/a"), "{one}");
    let difference = one.lines().zip(two.lines()).find(|(one, two)| one != two);
    assert!(one == two, "{difference:?}");
    assert!(one != other, "another seed must draw other uids");
}
