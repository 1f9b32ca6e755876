//! Clusters in the background: started, found, used and stopped by other commands.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};

/// The state of one user. The clusters that a failing test leaves are stopped.
struct User {
    home: tempfile::TempDir,
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = self.command(&["down", "--all"]).output();
    }
}

impl User {
    fn new() -> User {
        User { home: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_setpoint"));
        command.args(words).current_dir(self.home.path()).env("HOME", self.home.path());
        command.env_remove("XDG_STATE_HOME").env_remove("KUBECONFIG").env_remove("RUST_LOG");
        command
    }

    fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn ok(&self, words: &[&str]) -> String {
        let ended = self.output(words);
        assert!(ended.status.success(), "{words:?}: {ended:?}");
        String::from_utf8(ended.stdout).unwrap()
    }

    fn refused(&self, words: &[&str]) -> String {
        let ended = self.output(words);
        assert!(!ended.status.success(), "{words:?}: {ended:?}");
        String::from_utf8(ended.stderr).unwrap()
    }

    /// A column of the row of a cluster in `setpoint status`.
    fn status(&self, name: &str, column: usize) -> String {
        let table = String::from_utf8(self.output(&["status", name]).stdout).unwrap();
        table.lines().nth(1).unwrap().split_whitespace().nth(column).unwrap().to_owned()
    }
}

#[test]
fn clusters_are_started_found_and_stopped_by_name() {
    let user = User::new();
    assert!(user.ok(&["status"]).starts_with("no named cluster"));
    let said = user.ok(&["up", "--detach"]);
    let kubeconfig = user.path(".local/state/setpoint/clusters/default/kubeconfig");
    assert!(said.starts_with("ready https://127.0.0.1:"), "{said}");
    assert!(said.contains(&format!("export KUBECONFIG={}", kubeconfig.display())), "{said}");
    user.ok(&["up", "--detach", "--name", "second", "--data-dir", "data"]);
    assert_eq!([user.status("default", 1), user.status("second", 1)], ["running", "running"]);
    let process = user.status("default", 3);
    let refused = user.refused(&["up", "--detach"]);
    assert!(refused.contains(&format!("default is running already (process {process})")), "{refused}");
    assert_eq!(user.ok(&["kubeconfig", "print"]), fs::read_to_string(&kubeconfig).unwrap());

    user.ok(&["kubeconfig", "merge"]);
    let config = user.path(".kube/config");
    assert!(fs::read_to_string(&config).unwrap().contains("current-context: setpoint-default"));
    assert!(user.ok(&["down"]).contains("removed context setpoint-default"));
    assert!(!fs::read_to_string(&config).unwrap().contains("setpoint-default"));
    assert_eq!([user.status("default", 1), user.status("second", 1)], ["absent", "running"]);
    assert!(!kubeconfig.exists());
    user.ok(&["down", "--all"]);
    assert!(user.refused(&["down"]).contains("no cluster default is running"));
}

#[test]
fn who_holds_a_port_or_a_folder_is_named_with_what_to_do() {
    let user = User::new();
    user.ok(&["up", "--detach", "--data-dir", "data"]);
    let (server, process) = (user.status("default", 2), user.status("default", 3));
    let port = server.rsplit(':').next().unwrap();
    let holder = if cfg!(target_os = "linux") {
        format!("setpoint (process {process})")
    } else {
        "another process".into()
    };
    for words in [&["up"][..], &["up", "--detach", "--name", "second"]] {
        let said = user.refused(&[words, &["--port", port]].concat());
        let wanted = format!(
            "setpoint: port {port} of 127.0.0.1 is in use by {holder}; choose another one with --port"
        );
        assert!(said.starts_with(&wanted), "{said}");
        let said = user.refused(&[words, &["--port", "0", "--data-dir", "data"]].concat());
        let wanted = format!(
            "setpoint: the data folder data is in use by {holder}; stop it, or choose another --data-dir\n"
        );
        assert_eq!(said, wanted);
    }
    // A start that failed leaves nothing behind.
    assert_eq!(user.status("second", 1), "absent");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let user = User::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = user.command(&["status"]).stdout(writer).output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
}

#[test]
fn a_cluster_ends_with_the_input_that_its_parent_holds() {
    let user = User::new();
    let mut command = user.command(&["up", "--port", "0", "--until-stdin-closes"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("ready "), "{line}");
    assert!(child.try_wait().unwrap().is_none(), "the input is open");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_client_of_the_control_socket_that_says_nothing_holds_up_no_end() {
    let user = User::new();
    user.ok(&["up", "--detach"]);
    let silent = UnixStream::connect(user.path(".local/state/setpoint/clusters/default/control")).unwrap();
    assert!(user.ok(&["down"]).starts_with("stopped"));
    drop(silent);
}

#[test]
fn a_killed_cluster_is_found_and_cleared() {
    let user = User::new();
    user.ok(&["up", "--detach"]);
    let process = user.status("default", 3);
    let pid = nix::unistd::Pid::from_raw(process.parse().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    // The lock goes with the process.
    fs::File::open(user.path(".local/state/setpoint/clusters/default/lock")).unwrap().lock().unwrap();
    assert_eq!(user.status("default", 1), "crashed");
    user.ok(&["up", "--detach"]);
    assert_eq!(user.status("default", 1), "running");
    assert!(user.ok(&["down"]).starts_with("stopped"));
}

#[test]
fn a_folder_is_loaded_in_the_order_that_it_needs() {
    let user = User::new();
    fs::create_dir(user.path("manifests")).unwrap();
    fs::write(
        user.path("manifests/a.yaml"),
        "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: one, namespace: team}\nspec: {}\n---\n\
         apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n",
    )
    .unwrap();
    fs::write(
        user.path("manifests/b.yaml"),
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.org}\n\
         spec:\n  group: example.org\n  scope: Namespaced\n  names: {plural: things, kind: Thing}\n  versions:\n  \
         - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}}\n",
    )
    .unwrap();
    assert!(user.refused(&["load", "manifests"]).contains("no cluster default is running"));
    user.ok(&["up", "--detach"]);
    let said = user.ok(&["load", "manifests"]);
    let applied: Vec<&str> = said.lines().take(3).collect();
    assert_eq!(
        applied,
        [
            "applied namespaces/team",
            "applied customresourcedefinitions/things.example.org",
            "applied things/one in team"
        ]
    );
    fs::write(
        user.path("manifests/c.json"),
        r#"{"apiVersion": "v1", "kind": "Nope", "metadata": {"name": "a"}}"#,
    )
    .unwrap();
    let said = user.refused(&["load", "manifests"]);
    let wanted = "setpoint: manifests/c.json, document 1: v1 Nope a: the cluster has no kind v1 Nope\n";
    assert!(said.ends_with(wanted), "{said}");
}

#[test]
fn a_snapshot_is_a_cluster_again() {
    let user = User::new();
    user.ok(&["up", "--detach"]);
    let kubeconfig = user.path("first.yaml");
    fs::write(&kubeconfig, user.ok(&["kubeconfig", "print"])).unwrap();
    let config_map = |name: &str| {
        let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
        fs::write(user.path("object.yaml"), text).unwrap();
        user.ok(&["load", "object.yaml"]);
    };
    config_map("before");
    assert!(user.ok(&["snapshot", "save", "backup"]).starts_with("wrote revision "));
    assert!(user.refused(&["snapshot", "save", "backup"]).contains("is not an empty folder"));
    config_map("after");
    user.ok(&["snapshot", "save", "later"]);
    user.ok(&["down"]);

    let names = |words: &[&str]| {
        user.ok(&[&["up", "--detach"], words].concat());
        let names = config_maps(
            &fs::read_to_string(user.path(".local/state/setpoint/clusters/default/kubeconfig")).unwrap(),
        );
        user.ok(&["down"]);
        names
    };
    assert_eq!(names(&["--from", "backup"]), ["before"]);
    // A copy in memory leaves the folder as it is.
    assert_eq!(names(&["--from", "backup"]), ["before"]);
    user.ok(&["snapshot", "restore", "later", "--data-dir", "data"]);
    assert_eq!(names(&["--data-dir", "data"]), ["after", "before"]);
    user.ok(&["snapshot", "save", "third", "--data-dir", "data"]);
    assert_eq!(names(&["--from", "third"]), ["after", "before"]);

    fs::create_dir(user.path("empty")).unwrap();
    assert!(
        user.refused(&["snapshot", "restore", "empty", "--data-dir", "x"]).contains("empty holds no cluster")
    );
    assert!(
        user.refused(&["snapshot", "restore", "nowhere", "--data-dir", "x"]).contains("there is no folder")
    );
    user.ok(&["up", "--detach", "--data-dir", "data"]);
    let refused = user.refused(&["snapshot", "save", "fourth", "--data-dir", "data"]);
    assert!(refused.contains("data folder data is in use by") && refused.contains("--name"), "{refused}");
}

/// The ConfigMaps of the namespace default that no controller makes.
fn config_maps(kubeconfig: &str) -> Vec<String> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let api: Api<ConfigMap> = Api::default_namespaced(Client::try_from(config).unwrap());
        let listed = api.list(&ListParams::default()).await.unwrap();
        listed.iter().map(|object| object.name_any()).filter(|name| name != "kube-root-ca.crt").collect()
    })
}
