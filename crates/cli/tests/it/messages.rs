//! The lines that the program writes to stderr.

use std::process::Command;

/// The stderr of `setpoint controllers` with this kubeconfig, or with one that is not there.
fn stderr(kubeconfig: Option<&str>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    if let Some(text) = kubeconfig {
        std::fs::write(&file, text).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_setpoint"));
    command.args(["controllers", "--kubeconfig"]).arg(&file).env_remove("RUST_LOG").env_remove("NO_COLOR");
    let ended = command.output().unwrap();
    assert!(!ended.status.success());
    String::from_utf8(ended.stderr).unwrap().replace(&file.display().to_string(), "FILE")
}

#[test]
fn an_error_says_each_cause_once() {
    let said =
        "kubeconfig: failed to read kubeconfig from '\"FILE\"': No such file or directory (os error 2)";
    assert_eq!(stderr(None), format!("setpoint: {said}\n"));
}

#[test]
fn a_log_line_has_no_colours_where_no_terminal_reads_it() {
    // A server that is found, and a certificate that no client can be made with.
    let kubeconfig = r#"{"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "a", "user": {"client-certificate-data": "eA==", "client-key-data": "eA=="}}]}"#;
    let said = stderr(Some(kubeconfig));
    let warning = said.lines().next().unwrap();
    assert!(warning.contains(" WARN ") && warning.contains("no --client-ca-file"), "{said}");
    assert!(!said.contains('\u{1b}'), "{said}");
}

#[test]
fn flags_that_would_have_no_effect_are_refused() {
    let refused = |words: &[&str]| {
        let ended = Command::new(env!("CARGO_BIN_EXE_setpoint")).args(words).output().unwrap();
        assert!(!ended.status.success(), "{words:?}");
        String::from_utf8(ended.stderr).unwrap()
    };
    for (words, said) in [
        (&["up", "--no-controllers", "--nodes", "2"][..], "--nodes has no effect with --no-controllers"),
        (&["up", "--no-controllers", "--images", "x"], "leave out --no-controllers"),
        (&["up", "--nodes", "0", "--images", "x"], "leave out --nodes 0"),
        (&["up", "--fsync", "false"], "--data-dir <DIR>"),
        (&["up", "--no-controllers", "--only", "garbage"], "cannot be used with"),
        (&["controllers", "--only", "garbage", "--images", "x"], "--images has no effect without nodes"),
        (&["down", "--all", "second"], "cannot be used with"),
        (&["load", "x", "--name", "a", "--kubeconfig", "b"], "cannot be used with"),
    ] {
        let told = refused(words);
        assert!(told.contains(said), "{words:?}: {told}");
    }
}

#[test]
fn every_command_has_examples() {
    let help = |words: &[&str]| {
        let ended = Command::new(env!("CARGO_BIN_EXE_setpoint")).args(words).arg("--help").output().unwrap();
        String::from_utf8(ended.stdout).unwrap()
    };
    let all = help(&[]);
    let commands = all.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let names: Vec<&str> = commands
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !name.is_empty())
        .collect();
    assert!(names.contains(&"up") && names.len() > 8, "{names:?}");
    for name in names.into_iter().filter(|name| *name != "help") {
        assert!(help(&[name]).contains("Example"), "{name}");
    }
}
