//! The table of admission plugins, beside the plugins that kube-apiserver 1.37 loads and beside the documentation.

use std::collections::BTreeMap;
use std::path::PathBuf;

use setpoint_kinds::admission::{Act, Initially, PLUGINS};

fn file(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_plugins_are_kube_apiservers_in_its_order_and_phases() {
    let recorded = file("testdata/admission/plugins.txt");
    let phases: BTreeMap<&str, Vec<&str>> = recorded
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(phase, names)| (phase, names.split(',').collect()))
        .collect();
    let known: Vec<String> = PLUGINS.iter().map(|row| row.plugin.to_string()).collect();
    for (phase, names) in &phases {
        let places: Vec<usize> =
            names.iter().map(|name| known.iter().position(|own| own == name).unwrap()).collect();
        assert!(places.is_sorted(), "{phase}: {names:?}");
    }
    for row in PLUGINS {
        let name = row.plugin.to_string();
        let is_in = |phase: &str| phases[phase].contains(&name.as_str());
        let loaded = is_in("mutating") || is_in("validating");
        assert_eq!(row.initially == Initially::On, loaded, "{name}");
        if let Act::Here { mutate, validate } = row.act
            && loaded
        {
            let phases = (mutate.is_some(), validate.is_some());
            assert_eq!(phases, (is_in("mutating"), is_in("validating")), "{name}");
        }
    }
}

#[test]
fn the_documentation_says_what_each_plugin_does() {
    let page = file("docs/admission.md");
    let table = page.split("| --- | --- | --- | --- |\n").nth(1).unwrap();
    let documented: Vec<Vec<&str>> = table
        .lines()
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.split('|').map(str::trim).skip(1).take(3).collect())
        .collect();
    let own: Vec<[String; 3]> = PLUGINS
        .iter()
        .map(|row| {
            let initially = if row.initially == Initially::On { "on" } else { "off" };
            let state = match row.act {
                Act::Here { .. } | Act::InServer => "acts",
                Act::Missing => "missing",
                Act::Idle => "idle",
            };
            [row.plugin.to_string(), initially.to_owned(), state.to_owned()]
        })
        .collect();
    assert_eq!(documented, own);
}
