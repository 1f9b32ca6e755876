//! Files that `setpoint new` writes, and changes that it refuses. `cargo xtask e2e scaffold` builds, tests and runs the result.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use setpoint_scaffold::{
    CustomResource, OperatorName, Project, ScaffoldError, Source, kind, operator, version, webhook,
};

fn resource(kind: &str) -> CustomResource {
    let kind: setpoint_scaffold::KindName = kind.parse().unwrap();
    let (group, version) = ("example.org".parse().unwrap(), "v1".parse().unwrap());
    CustomResource { group, version, plural: kind.plural(), kind }
}

fn name() -> OperatorName {
    "my-operator".parse().unwrap()
}

/// A new operator with the kind Website.
fn scaffolded() -> (tempfile::TempDir, Project) {
    let folder = tempfile::tempdir().unwrap();
    operator(folder.path(), &name(), &resource("Website"), &Source::Registry).unwrap().write().unwrap();
    let project = Project::open(folder.path()).unwrap();
    (folder, project)
}

/// All files of a folder, by their paths in it.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![folder.to_path_buf()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            found.insert(name, fs::read_to_string(path).unwrap());
        }
    }
    found
}

#[test]
fn a_new_operator_has_every_file_and_no_name_of_the_template() {
    let (folder, project) = scaffolded();
    assert_eq!((project.name, project.resources), (name(), vec![resource("Website")]));
    let files = files(folder.path());
    let expected = [
        ".dockerignore",
        ".github/workflows/ci.yml",
        ".gitignore",
        "Cargo.toml",
        "Dockerfile",
        "README.md",
        "samples/website.yaml",
        "src/lib.rs",
        "src/main.rs",
        "src/website/mod.rs",
        "src/website/types.rs",
        "tests/it/main.rs",
        "tests/it/website.rs",
    ];
    assert_eq!(files.keys().collect::<Vec<_>>(), expected);
    for (file, text) in &files {
        for word in
            ["template", "StaticSite", "static_site", "static-site", "staticsite", "group.example", "SOURCE"]
        {
            assert!(!text.contains(word), "{file} has {word}:\n{text}");
        }
    }
    assert!(files["src/website/types.rs"].contains("group = \"example.org\""));
    assert!(files["Cargo.toml"].contains("setpoint = { version = \"0.1\", features = [\"flags\"] }"));
}

#[test]
fn no_file_is_overwritten_and_a_refusal_leaves_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("README.md"), "mine").unwrap();
    let refused = operator(folder.path(), &name(), &resource("Website"), &Source::Registry).unwrap_err();
    assert!(matches!(refused, ScaffoldError::Exists(path) if path.ends_with("README.md")));
    assert_eq!(files(folder.path()), BTreeMap::from([("README.md".to_owned(), "mine".to_owned())]));
}

#[test]
fn a_file_that_was_made_since_the_plan_stays() {
    let folder = tempfile::tempdir().unwrap();
    let changes = operator(folder.path(), &name(), &resource("Website"), &Source::Registry).unwrap();
    fs::write(folder.path().join("README.md"), "mine").unwrap();
    assert!(matches!(changes.write(), Err(ScaffoldError::Exists(_))));
    assert_eq!(fs::read_to_string(folder.path().join("README.md")).unwrap(), "mine");
}

#[test]
fn the_crates_of_a_clone_are_named_by_their_absolute_path() {
    let clone = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = Source::Folder(clone.clone());
    operator(folder.path(), &name(), &resource("Website"), &source).unwrap().write().unwrap();
    let manifest: toml::Table = files(folder.path())["Cargo.toml"].parse().unwrap();
    for (table, name, part) in [
        ("dependencies", "setpoint", "runtime"),
        ("dev-dependencies", "setpoint-cluster", "cluster"),
        ("dev-dependencies", "setpoint-prove", "prove"),
    ] {
        let path = manifest[table][name]["path"].as_str().unwrap();
        assert_eq!(Path::new(path), clone.join("crates").join(part));
    }
    let elsewhere = Source::Folder(folder.path().join("src"));
    let refused =
        operator(&folder.path().join("other"), &name(), &resource("Website"), &elsewhere).unwrap_err();
    assert!(refused.to_string().ends_with("give the folder of a clone of Setpoint"), "{refused}");
}

#[test]
fn additions_go_above_the_markers_and_come_once() {
    let (folder, project) = scaffolded();
    kind(&project, &resource("DNSRecord")).unwrap().write().unwrap();
    let project = Project::open(folder.path()).unwrap();
    assert_eq!(project.resources.len(), 2);
    let website = resource("Website").kind;
    webhook(&project, &website).unwrap().write().unwrap();
    version(&project, &website, &"v1beta1".parse().unwrap()).unwrap().write().unwrap();
    let files = files(folder.path());
    let in_order = |file: &str, lines: &[&str]| {
        let mut text = files[file].as_str();
        for line in lines {
            text = text.split_once(line).unwrap_or_else(|| panic!("no {line} in {file}:\n{}", files[file])).1;
        }
    };
    in_order(
        "src/lib.rs",
        &["pub mod website;\npub mod dns_record;\npub mod webhooks;\n// setpoint new: modules\n"],
    );
    in_order("src/lib.rs", &["        website::rules(),\n        dns_record::rules(),\n"]);
    in_order(
        "src/lib.rs",
        &["    webhooks::webhooks().register(manager)?;\n    // setpoint new: register\n"],
    );
    in_order(
        "src/lib.rs",
        &["webhooks().install(manifests);\n    // setpoint new: manifests\n    manifests"],
    );
    in_order("src/webhooks.rs", &[".mutate::<", ".validate::<", ".convert(", "// setpoint new"]);
    in_order("src/website/mod.rs", &["v1beta1::Website::crd(),", "// setpoint new: versions"]);
    in_order("src/website/v1beta1.rs", &["version = \"v1beta1\"", "pub fn up", "pub fn down"]);
    in_order("Cargo.toml", &["features = [\"flags\", \"webhooks\"]"]);
    assert!(!files["src/website/v1beta1.rs"].contains("\"v1\""));

    let again = [
        kind(&project, &resource("Website")).unwrap_err().to_string(),
        webhook(&project, &website).unwrap_err().to_string(),
        version(&project, &website, &"v1".parse().unwrap()).unwrap_err().to_string(),
        version(&project, &website, &"v1beta1".parse().unwrap()).unwrap_err().to_string(),
        webhook(&project, &resource("Other").kind).unwrap_err().to_string(),
    ];
    let words = ["exists already", "already", "already", "already", "has DNSRecord, Website"];
    for (refused, words) in again.iter().zip(words) {
        assert!(refused.contains(words), "{refused}");
    }
    assert_eq!(self::files(folder.path()), files);
}

#[test]
fn a_lost_marker_is_named_with_the_line_to_add() {
    let (folder, project) = scaffolded();
    let library = folder.path().join("src/lib.rs");
    let text = fs::read_to_string(&library).unwrap();
    fs::write(&library, text.replace("    // setpoint new: register\n", "")).unwrap();
    let before = files(folder.path());
    let refused = kind(&project, &resource("Page")).unwrap_err().to_string();
    assert!(
        refused.contains("// setpoint new: register") && refused.contains("page::register(manager)?;"),
        "{refused}"
    );
    assert_eq!(files(folder.path()), before);
}

#[test]
fn a_folder_without_an_operator_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = Project::open(folder.path()).unwrap_err().to_string();
    assert!(refused.contains("is not the folder of an operator: Cargo.toml: No such file"), "{refused}");
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("Cargo.toml"), "[package]\nname = \"a\"\n").unwrap();
    let refused = Project::open(folder.path()).unwrap_err().to_string();
    assert!(refused.contains("derives a custom resource"), "{refused}");
}

/// The template is built here with the workspace's dependencies, and by its users with those of another manifest.
#[test]
fn both_manifests_of_the_template_name_the_same_crates() {
    let read = |path: &str| -> toml::Table {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        fs::read_to_string(path).unwrap().parse().unwrap()
    };
    let workspace = read("../../Cargo.toml");
    let ours = read("template/Cargo.toml");
    let folder = tempfile::tempdir().unwrap();
    operator(folder.path(), &name(), &resource("Website"), &Source::Registry).unwrap().write().unwrap();
    let theirs: toml::Table = files(folder.path())["Cargo.toml"].parse().unwrap();
    assert_eq!(theirs["package"]["edition"], workspace["workspace"]["package"]["edition"]);
    assert_eq!(theirs["package"]["rust-version"], workspace["workspace"]["package"]["rust-version"]);
    for table in ["dependencies", "dev-dependencies"] {
        let names =
            |manifest: &toml::Table| manifest[table].as_table().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&ours), names(&theirs));
        for name in names(&theirs).iter().filter(|name| !name.starts_with("setpoint")) {
            let version = |dependency: &toml::Value| dependency.get("version").unwrap_or(dependency).clone();
            let wanted = version(&workspace["workspace"]["dependencies"][name]);
            let wanted = wanted.as_str().unwrap();
            let given = version(&theirs[table][name]);
            assert!(
                wanted.starts_with(given.as_str().unwrap()),
                "{name}: {given:?} here, {wanted} in the workspace"
            );
        }
    }
}
