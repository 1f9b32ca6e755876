//! Whether rules cover other rules: decides which permissions a user may pass on, as kube-apiserver does.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use setpoint_api::go_format::quote;

use super::authz::{Rule, names_path};

/// The longest list of single permissions that is compared. A role of a few kilobytes can stand for billions of them,
/// and the comparison blocks all other writes. Rules that come to more than this are not covered.
const MAX_LENGTH: usize = 8 << 20;
/// The length that a single permission counts beside its texts.
const SINGLE_LENGTH: usize = 64;

/// One verb on one resource or path: covered by one rule, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Single<'a> {
    verb: &'a str,
    on: Target<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target<'a> {
    /// Without a name, all objects of the resource.
    Resource {
        group: &'a str,
        resource: &'a str,
        name: Option<&'a str>,
    },
    Path(&'a str),
}

impl Single<'_> {
    /// The permission as a rule of its own.
    pub(super) fn to_rule(self) -> Value {
        match self.on {
            Target::Resource { group, resource, name } => {
                let mut rule = json!({"apiGroups": [group], "resources": [resource], "verbs": [self.verb]});
                if let Some(name) = name {
                    rule["resourceNames"] = json!([name]);
                }
                rule
            }
            Target::Path(path) => json!({"nonResourceURLs": [path], "verbs": [self.verb]}),
        }
    }
}

/// The rules come to more permissions than are compared.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rules stand for more permissions than can be compared with those currently held")]
pub(super) struct TooMany;

/// The permissions of `wanted` that no rule of `owned` covers. A permission that several rules cover only together is
/// missing.
pub(super) fn missing<'a>(owned: &[Rule], wanted: &'a [Rule]) -> Result<Vec<Single<'a>>, TooMany> {
    if wanted.iter().map(length).fold(0, usize::saturating_add) > MAX_LENGTH {
        return Err(TooMany);
    }
    let mut missing = Vec::new();
    for rule in wanted {
        break_down(rule, |single| {
            if !owned.iter().any(|own| covers(own, single)) {
                missing.push(single);
            }
        });
    }
    Ok(missing)
}

/// The length of a rule when it is broken down.
fn length(rule: &Rule) -> usize {
    let product = |lists: &[&[String]]| {
        let count = |list: &[String]| list.len();
        let texts = |list: &[String]| list.iter().map(String::len).sum::<usize>();
        let times = |one: usize, other: usize| one.saturating_mul(other);
        let all = lists.iter().map(|list| count(list)).fold(1, times);
        let each = (0..lists.len()).map(|at| {
            let others = lists.iter().enumerate().filter(|(other, _)| *other != at);
            others.map(|(_, list)| count(list)).fold(texts(lists[at]), times)
        });
        each.fold(times(all, SINGLE_LENGTH), usize::saturating_add)
    };
    let no_name = [String::new()];
    let names = if rule.resource_names.is_empty() { &no_name[..] } else { &rule.resource_names };
    let resources = product(&[&rule.api_groups, &rule.resources, names, &rule.verbs]);
    resources.saturating_add(product(&[&rule.non_resource_urls, &rule.verbs]))
}

/// Calls `each` with the single permissions that a rule stands for.
fn break_down<'a>(rule: &'a Rule, mut each: impl FnMut(Single<'a>)) {
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let mut add = |name| each(Single { verb, on: Target::Resource { group, resource, name } });
                if rule.resource_names.is_empty() {
                    add(None);
                }
                rule.resource_names.iter().for_each(|name| add(Some(name)));
            }
        }
    }
    for path in &rule.non_resource_urls {
        for verb in &rule.verbs {
            each(Single { verb, on: Target::Path(path) });
        }
    }
}

fn covers(own: &Rule, single: Single<'_>) -> bool {
    let has = |list: &[String], item: &str| list.iter().any(|own| own == "*" || own == item);
    if !has(&own.verbs, single.verb) {
        return false;
    }
    match single.on {
        Target::Resource { group, resource, name } => {
            has(&own.api_groups, group)
                && own.resources.iter().any(|own| covers_resource(own, resource))
                && covers_name(&own.resource_names, name)
        }
        // A rule with names is about objects, whatever else it lists.
        Target::Path(path) => {
            own.resource_names.is_empty() && own.non_resource_urls.iter().any(|own| names_path(own, path))
        }
    }
}

fn covers_resource(own: &str, resource: &str) -> bool {
    let subresource = resource.split_once('/').map(|(_, subresource)| subresource);
    own == "*" || own == resource || own.strip_prefix("*/").is_some_and(|own| subresource == Some(own))
}

/// A star among names is an ordinary name.
fn covers_name(own: &[String], name: Option<&str>) -> bool {
    own.is_empty() || name.is_some_and(|name| own.iter().any(|own| own == name))
}

/// Permissions as refusals list them: the verbs of a resource together, a line for each, in order. The verbs of a path
/// stay apart, as they do in kube-apiserver.
pub(super) fn describe(missing: &[Single<'_>]) -> String {
    let mut verbs: BTreeMap<Target<'_>, Vec<&str>> = BTreeMap::new();
    for single in missing {
        verbs.entry(single.on).or_default().push(single.verb);
    }
    let mut lines = BTreeSet::new();
    for (on, verbs) in verbs {
        match on {
            Target::Resource { .. } => drop(lines.insert(line(on, &verbs))),
            Target::Path(_) => lines.extend(verbs.iter().map(|verb| line(on, &[verb]))),
        }
    }
    lines.into_iter().collect::<Vec<String>>().join("\n")
}

fn line(on: Target<'_>, verbs: &[&str]) -> String {
    let verbs = quoted(verbs);
    match on {
        Target::Resource { group, resource, name } => {
            let name = name.map(|name| format!(" ResourceNames:[{}],", quote(name))).unwrap_or_default();
            let (group, resource) = (quote(group), quote(resource));
            format!("{{APIGroups:[{group}], Resources:[{resource}],{name} Verbs:{verbs}}}")
        }
        Target::Path(path) => format!("{{NonResourceURLs:[{}], Verbs:{verbs}}}", quote(path)),
    }
}

/// Texts as Go's `%q` prints a list of them.
pub(super) fn quoted(items: &[impl AsRef<str>]) -> String {
    let items: Vec<String> = items.iter().map(|item| quote(item.as_ref())).collect();
    format!("[{}]", items.join(" "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};

    use super::super::authz::Attributes;
    use super::*;

    fn owned(list: &[&str]) -> Vec<String> {
        list.iter().map(|&text| text.to_owned()).collect()
    }

    fn rule(verbs: &[&str], resources: &[&str], names: &[&str]) -> Rule {
        Rule {
            verbs: owned(verbs),
            api_groups: owned(&[""]),
            resources: owned(resources),
            resource_names: owned(names),
            ..Rule::default()
        }
    }

    fn paths(verbs: &[&str], paths: &[&str]) -> Rule {
        Rule { verbs: owned(verbs), non_resource_urls: owned(paths), ..Rule::default() }
    }

    fn lacks(own: &Rule, wanted: &Rule) -> String {
        describe(&missing(std::slice::from_ref(own), std::slice::from_ref(wanted)).unwrap())
    }

    #[test]
    fn stars_subresources_and_names_cover() {
        let get = |resources, names| rule(&["get"], resources, names);
        for (own, wanted, covered) in [
            (rule(&["*"], &["*"], &[]), get(&["pods", "pods/log", "*", "*/log"], &[]), true),
            (get(&["*/log"], &[]), get(&["pods/log"], &[]), true),
            (get(&["*/log"], &[]), get(&["pods"], &[]), false),
            (get(&["*/log"], &[]), get(&["log"], &[]), false),
            (get(&["pods/*"], &[]), get(&["pods/log"], &[]), false),
            (get(&["pods"], &[]), get(&["pods/log"], &[]), false),
            (get(&["pods/log"], &[]), get(&["*/log"], &[]), false),
            (get(&["pods"], &[]), get(&["*"], &[]), false),
            (get(&["pods"], &[]), get(&["pods"], &["a"]), true),
            (get(&["pods"], &["a", "b"]), get(&["pods"], &["b"]), true),
            (get(&["pods"], &["a"]), get(&["pods"], &[]), false),
            (get(&["pods"], &["*"]), get(&["pods"], &["a"]), false),
            (get(&["pods"], &[]), rule(&["*"], &["pods"], &[]), false),
            (paths(&["get"], &["/a/*"]), paths(&["get"], &["/a/", "/a/b", "/a/*", "/a/b/*"]), true),
            (paths(&["get"], &["/a/*"]), paths(&["get"], &["/a"]), false),
            (paths(&["get"], &["/a/*"]), paths(&["get"], &["*"]), false),
            (paths(&["get"], &["*"]), paths(&["get"], &["/a*"]), true),
            (rule(&["*"], &["*"], &[]), paths(&["get"], &["/a"]), false),
            (paths(&["*"], &["*"]), get(&["pods"], &[]), false),
        ] {
            assert_eq!(lacks(&own, &wanted).is_empty(), covered, "{own:?} covers {wanted:?}");
        }
    }

    #[test]
    fn what_several_rules_cover_together_is_held() {
        let own = [rule(&["get"], &["pods"], &[]), rule(&["list"], &["pods", "secrets"], &[])];
        let wanted = [rule(&["get", "list"], &["pods", "secrets"], &[])];
        let missing = missing(&own, &wanted).unwrap();
        assert_eq!(describe(&missing), r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#);
    }

    #[test]
    fn a_rule_that_stands_for_billions_is_not_broken_down() {
        let many: Vec<String> = (0..3000).map(|number| number.to_string()).collect();
        let wide = Rule { verbs: many.clone(), api_groups: many.clone(), resources: many, ..Rule::default() };
        assert_eq!(missing(&[rule(&["*"], &["*"], &[])], &[wide]), Err(TooMany));
        let long = Rule { api_groups: vec!["g".repeat(1 << 20)], ..rule(&["a"; 20], &["r"], &[]) };
        assert_eq!(missing(&[], &[long]), Err(TooMany));
    }

    fn some(of: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
        subsequence(of, 0..=3).prop_map(|list| owned(&list))
    }

    const VERBS: [&str; 4] = ["get", "list", "bind", "*"];
    const GROUPS: [&str; 3] = ["", "apps", "*"];
    const RESOURCES: [&str; 6] = ["pods", "nodes", "pods/log", "nodes/log", "*/log", "*"];
    const NAMES: [&str; 4] = ["a", "b", "*", ""];
    const PATHS: [&str; 7] = ["*", "/*", "/a", "/a*", "/a/*", "/a/b", "/a/**"];

    fn any_rule() -> impl Strategy<Value = Rule> {
        let resources = (some(&VERBS), some(&GROUPS), some(&RESOURCES), some(&NAMES));
        let resources = resources.prop_map(|(verbs, api_groups, resources, resource_names)| Rule {
            verbs,
            api_groups,
            resources,
            resource_names,
            ..Rule::default()
        });
        let paths = (some(&VERBS), some(&PATHS));
        let paths =
            paths.prop_map(|(verbs, non_resource_urls)| Rule { verbs, non_resource_urls, ..Rule::default() });
        prop_oneof![3 => resources, 1 => paths]
    }

    fn any_rules() -> impl Strategy<Value = Vec<Rule>> {
        proptest::collection::vec(any_rule(), 0..4)
    }

    /// Any request, also for values that the rules do not name.
    fn any_request() -> impl Strategy<Value = Attributes<'static>> {
        let resource = (
            select(&["get", "list", "bind", "other"][..]),
            select(&["", "apps", "other"][..]),
            select(&["pods", "nodes", "other"][..]),
            select(&["", "log", "other"][..]),
            select(&["", "a", "b", "*", "other"][..]),
        );
        let resource = resource.prop_map(|(verb, group, resource, subresource, name)| Attributes {
            verb,
            is_resource: true,
            group,
            resource,
            subresource,
            name,
            ..Attributes::default()
        });
        let paths = select(&["/", "/a", "/ab", "/a/", "/a/b", "/a/*", "/a/b/c", "/other"][..]);
        let path = (select(&["get", "list", "other"][..]), paths);
        let path = path.prop_map(|(verb, path)| Attributes { verb, path, ..Attributes::default() });
        prop_oneof![3 => resource, 1 => path]
    }

    fn allow(rules: &[Rule], wanted: &Attributes<'_>) -> bool {
        rules.iter().any(|rule| rule.allows(wanted))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// The reference is the authorizer itself: covered rules allow nothing that the holder may not do.
        #[test]
        fn covered_rules_allow_nothing_new(
            own in any_rules(), wanted in any_rules(), requests in proptest::collection::vec(any_request(), 20)
        ) {
            // Only the covered rules, so that every case checks something.
            let covered = wanted.into_iter().filter(|rule| {
                missing(&own, std::slice::from_ref(rule)).unwrap().is_empty()
            });
            let covered: Vec<Rule> = covered.collect();
            for request in &requests {
                prop_assert!(!allow(&covered, request) || allow(&own, request), "{request:?}");
            }
        }

        /// The missing permissions are complete: together with them everything is held.
        #[test]
        fn with_what_is_missing_everything_is_held(own in any_rules(), wanted in any_rules()) {
            let lacking = missing(&own, &wanted).unwrap();
            let lacking = lacking.iter().map(|single| match single.on {
                Target::Resource { group, resource, name } => Rule {
                    verbs: owned(&[single.verb]),
                    api_groups: owned(&[group]),
                    resources: owned(&[resource]),
                    resource_names: name.map(str::to_owned).into_iter().collect(),
                    ..Rule::default()
                },
                Target::Path(path) => paths(&[single.verb], &[path]),
            });
            let all: Vec<Rule> = own.iter().cloned().chain(lacking).collect();
            prop_assert_eq!(missing(&all, &wanted), Ok(Vec::new()));
            prop_assert_eq!(missing(&wanted, &wanted), Ok(Vec::new()));
        }

        /// Without stars in the rules, covering is no stricter than the authorizer either.
        #[test]
        fn without_stars_what_is_missing_is_not_allowed(own in any_rules(), wanted in any_rules()) {
            let plain = |rules: Vec<Rule>| -> Vec<Rule> {
                let stars = |list: &[String]| list.iter().any(|text| text.contains('*'));
                let lists = |rule: &Rule| {
                    [&rule.verbs, &rule.api_groups, &rule.resources, &rule.non_resource_urls]
                        .into_iter().any(|list| stars(list))
                };
                rules.into_iter().filter(|rule| !lists(rule)).collect()
            };
            let (own, wanted) = (plain(own), plain(wanted));
            for single in missing(&own, &wanted).unwrap() {
                let request = match single.on {
                    Target::Resource { group, resource, name } => {
                        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                        let name = name.unwrap_or("a name that no rule has");
                        Attributes {
                            verb: single.verb, is_resource: true, group, resource, subresource, name,
                            ..Attributes::default()
                        }
                    }
                    Target::Path(path) => Attributes { verb: single.verb, path, ..Attributes::default() },
                };
                prop_assert!(!allow(&own, &request), "{request:?}");
            }
        }
    }
}
