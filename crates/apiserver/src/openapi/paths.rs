//! The served paths with their operations, for both versions of OpenAPI.

use setpoint_schema::builtin;

use super::parameter;
use crate::registry::{Resource, Subresource};

/// A path with its operations.
pub(super) struct PathItem {
    pub(super) path: String,
    /// Names of parameters that all operations of the path have.
    pub(super) parameters: Vec<&'static str>,
    pub(super) operations: Vec<Operation>,
}

/// One method of a path.
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) id: String,
    pub(super) tag: String,
    pub(super) action: Option<&'static str>,
    /// Group, version and kind.
    pub(super) kind: Option<[String; 3]>,
    pub(super) parameters: Vec<&'static str>,
    pub(super) body: Body,
    pub(super) answers: &'static [u16],
    pub(super) answer: Answer,
    /// Whether the kind is served in protobuf.
    pub(super) builtin: bool,
}

/// The body of a request.
pub(super) enum Body {
    None,
    /// An object of that model.
    Model(String),
    /// Options, which may be left out.
    Options,
    /// A patch.
    Patch,
}

/// The body of an answer.
pub(super) enum Answer {
    Model(String),
    /// A list, which may be watched.
    List(String),
    Events,
    Status,
    Text,
    /// The log of a container.
    Log,
}

const LIST: [&str; 11] = [
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];
const DELETE: [&str; 5] = [
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];
const DELETE_MANY: [&str; 14] = [
    "continue",
    "dryRun",
    "fieldSelector",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "labelSelector",
    "limit",
    "orphanDependents",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
];
const WRITE: [&str; 3] = ["dryRun", "fieldManager", "fieldValidation"];
const PATCH: [&str; 4] = ["dryRun", "fieldManager", "fieldValidation", "force"];
const LOG: [&str; 9] = [
    "container",
    "follow",
    "insecureSkipTLSVerifyBackend",
    "limitBytes",
    "previous",
    "sinceSeconds",
    "stream",
    "tailLines",
    "timestamps",
];

/// Kinds whose delete answers with the object.
const RETURNS_DELETED: [&str; 16] = [
    "csidrivers",
    "csinodes",
    "deviceclasses",
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "podtemplates",
    "resourceclaims",
    "resourceclaimtemplates",
    "resourcequotas",
    "resourceslices",
    "serviceaccounts",
    "services",
    "storageclasses",
    "volumeattachments",
    "volumeattributesclasses",
];

/// The paths of one group-version's resources.
pub(super) fn paths<'a>(resources: impl Iterator<Item = &'a Resource>) -> Vec<PathItem> {
    let mut out = Vec::new();
    for resource in resources {
        let names = Names::of(resource);
        if out.is_empty() && names.builtin {
            out.push(names.root());
        }
        collection(resource, &names, &mut out);
        object(resource, &names, &mut out);
        for sub in &resource.subresources {
            subresource(resource, sub, &names, &mut out);
        }
        watches(resource, &names, &mut out);
    }
    out.iter_mut().for_each(share);
    out
}

/// Moves the parameters that all operations of a path take to the path.
fn share(item: &mut PathItem) {
    let Some((first, others)) = item.operations.split_first() else { return };
    let mut common = first.parameters.clone();
    common.retain(|name| others.iter().all(|other| other.parameters.contains(name)));
    for operation in &mut item.operations {
        operation.parameters.retain(|name| !common.contains(name));
    }
    item.parameters = with(&item.parameters, &common);
}

/// The forms of a group-version's name in paths, ids and models.
struct Names {
    root: String,
    id: String,
    tag: String,
    group: String,
    version: String,
    kind: String,
    builtin: bool,
}

impl Names {
    fn of(resource: &Resource) -> Names {
        let (group, version) = (resource.group.clone(), resource.version.clone());
        let root =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let short = group.strip_suffix(".k8s.io").unwrap_or(&group);
        let words: Vec<&str> = if short.is_empty() { vec!["core"] } else { short.split('.').collect() };
        let camel: String = words.iter().map(|word| upper(word)).collect();
        let tag = format!("{}_{version}", lower(&camel));
        Names {
            id: format!("{camel}{}", upper(&version)),
            builtin: resource.custom.is_none(),
            kind: resource.kind.clone(),
            root,
            tag,
            group,
            version,
        }
    }

    fn root(&self) -> PathItem {
        let operation = Operation {
            method: "get",
            id: format!("get{}APIResources", self.id),
            tag: self.tag.clone(),
            action: None,
            kind: None,
            parameters: Vec::new(),
            body: Body::None,
            answers: &[200],
            answer: Answer::Model(super::model::meta("APIResourceList")),
            builtin: true,
        };
        PathItem { path: format!("{}/", self.root), parameters: Vec::new(), operations: vec![operation] }
    }

    fn operation(&self, method: &'static str, action: &'static str, id: String) -> Operation {
        Operation {
            method,
            id,
            tag: self.tag.clone(),
            action: Some(action),
            kind: Some([self.group.clone(), self.version.clone(), self.kind.clone()]),
            parameters: Vec::new(),
            body: Body::None,
            answers: &[200],
            answer: Answer::Status,
            builtin: self.builtin,
        }
    }

    fn model(&self, kind: &str) -> String {
        model_name(&self.group, &self.version, kind, self.builtin)
    }

    /// `listAppsV1NamespacedDeployment`
    fn id(&self, verb: &str, namespaced: bool, rest: &str) -> String {
        let scope = if namespaced { "Namespaced" } else { "" };
        format!("{verb}{}{scope}{}{rest}", self.id, self.kind)
    }
}

/// The published name of a kind's type: the table's for built-in ones, else made from the reversed group.
pub(super) fn model_name(group: &str, version: &str, kind: &str, is_builtin: bool) -> String {
    let known = is_builtin.then(|| builtin().kind(group, version, kind)).flatten();
    match known.and_then(|schema| schema.name.as_deref()) {
        Some(name) => name.to_owned(),
        None => {
            let reversed: Vec<&str> = group.rsplit('.').collect();
            format!("{}.{version}.{kind}", reversed.join("."))
        }
    }
}

fn upper(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase().to_string()).unwrap_or_default() + letters.as_str()
}

fn lower(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_lowercase().to_string()).unwrap_or_default() + letters.as_str()
}

fn with(base: &[&'static str], more: &[&'static str]) -> Vec<&'static str> {
    let mut all: Vec<&str> = base.iter().chain(more).copied().collect();
    all.sort_unstable();
    all
}

fn collection(resource: &Resource, names: &Names, out: &mut Vec<PathItem>) {
    let (namespaced, plural) = (resource.namespaced, &resource.plural);
    let mut operations = Vec::new();
    if resource.has_verb("list") {
        let mut list = names.operation("get", "list", names.id("list", namespaced, ""));
        list.parameters = LIST.to_vec();
        list.answer = Answer::List(names.model(&resource.list_kind));
        operations.push(list);
    }
    if resource.has_verb("create") {
        let mut create = names.operation("post", "post", names.id("create", namespaced, ""));
        create.parameters = WRITE.to_vec();
        create.body = Body::Model(names.model(&resource.kind));
        create.answers = &[200, 201, 202];
        create.answer = Answer::Model(names.model(&resource.kind));
        operations.push(create);
    }
    if resource.has_verb("deletecollection") {
        let scope = if namespaced { "CollectionNamespaced" } else { "Collection" };
        let id = format!("delete{}{scope}{}", names.id, resource.kind);
        let mut delete = names.operation("delete", "deletecollection", id);
        delete.parameters = if names.builtin { DELETE_MANY.to_vec() } else { LIST.to_vec() };
        delete.body = if names.builtin { Body::Options } else { Body::None };
        operations.push(delete);
    }
    let scope: &[&str] = if namespaced { &["namespace", "pretty"] } else { &["pretty"] };
    let path = match namespaced {
        true => format!("{}/namespaces/{{namespace}}/{plural}", names.root),
        false => format!("{}/{plural}", names.root),
    };
    out.push(PathItem { path, parameters: scope.to_vec(), operations });
    if namespaced && resource.has_verb("list") {
        let id = format!("{}ForAllNamespaces", names.id("list", false, ""));
        let mut list = names.operation("get", "list", id);
        list.answer = Answer::List(names.model(&resource.list_kind));
        let parameters = with(&LIST, &["pretty"]);
        out.push(PathItem { path: format!("{}/{plural}", names.root), parameters, operations: vec![list] });
    }
}

fn object_path(resource: &Resource, names: &Names) -> String {
    match resource.namespaced {
        true => format!("{}/namespaces/{{namespace}}/{}/{{name}}", names.root, resource.plural),
        false => format!("{}/{}/{{name}}", names.root, resource.plural),
    }
}

fn object_parameters(resource: &Resource) -> &'static [&'static str] {
    if resource.namespaced { &["name", "namespace", "pretty"] } else { &["name", "pretty"] }
}

fn object(resource: &Resource, names: &Names, out: &mut Vec<PathItem>) {
    let verbs: Vec<&str> = resource.verbs.iter().map(String::as_str).collect();
    let mut operations = operations(resource, names, &verbs, "", names.model(&resource.kind));
    if verbs.contains(&"delete") {
        let mut delete = names.operation("delete", "delete", names.id("delete", resource.namespaced, ""));
        delete.parameters = DELETE.to_vec();
        delete.body = Body::Options;
        delete.answers = &[200, 202];
        if RETURNS_DELETED.contains(&&*resource.plural) && names.builtin {
            delete.answer = Answer::Model(names.model(&resource.kind));
        }
        operations.push(delete);
    }
    if !operations.is_empty() {
        let parameters = object_parameters(resource).to_vec();
        out.push(PathItem { path: object_path(resource, names), parameters, operations });
    }
}

/// Reading, replacing and patching an object or one of its subresources.
fn operations(
    resource: &Resource,
    names: &Names,
    verbs: &[&str],
    rest: &str,
    model: String,
) -> Vec<Operation> {
    let mut out = Vec::new();
    let has = |verb: &str| verbs.contains(&verb);
    if has("get") {
        let mut get = names.operation("get", "get", names.id("read", resource.namespaced, rest));
        if !names.builtin {
            get.parameters = vec!["resourceVersion"];
        }
        get.answer = Answer::Model(model.clone());
        out.push(get);
    }
    if has("update") {
        let mut put = names.operation("put", "put", names.id("replace", resource.namespaced, rest));
        put.parameters = WRITE.to_vec();
        put.body = Body::Model(model.clone());
        put.answers = &[200, 201];
        put.answer = Answer::Model(model.clone());
        out.push(put);
    }
    if has("patch") {
        let mut patch = names.operation("patch", "patch", names.id("patch", resource.namespaced, rest));
        patch.parameters = PATCH.to_vec();
        patch.body = Body::Patch;
        patch.answers = if names.builtin { &[200, 201] } else { &[200] };
        patch.answer = Answer::Model(model);
        out.push(patch);
    }
    out
}

fn subresource(resource: &Resource, sub: &Subresource, names: &Names, out: &mut Vec<PathItem>) {
    let rest = upper(&sub.name);
    let path = format!("{}/{}", object_path(resource, names), sub.name);
    let own = (names.group.clone(), names.version.clone());
    let (group, version) = sub.group_version.clone().unwrap_or(own);
    let verbs: Vec<&str> = sub.verbs.iter().map(String::as_str).collect();
    let mut parameters = object_parameters(resource).to_vec();
    let mut found = if sub.kind.ends_with("Options") {
        parameters.retain(|name| *name != "pretty");
        parameters = with(&parameters, connect_parameters(&sub.name));
        connect(resource, names, sub, &rest)
    } else {
        let is_builtin = names.builtin || sub.kind == "Scale";
        operations(resource, names, &verbs, &rest, model_name(&group, &version, &sub.kind, is_builtin))
    };
    if sub.name == "log" {
        parameters = with(&parameters, &LOG);
        found.iter_mut().for_each(|operation| operation.answer = Answer::Log);
    }
    if verbs.contains(&"create") && !sub.kind.ends_with("Options") {
        let model = model_name(&group, &version, &sub.kind, true);
        let mut create = names.operation("post", "post", names.id("create", resource.namespaced, &rest));
        create.body = Body::Model(model.clone());
        create.answers = &[200, 201, 202];
        create.answer = Answer::Model(model);
        parameters = with(&parameters, &WRITE);
        found.push(create);
    }
    // The scale of a custom resource has the resource's own kind.
    let of_kind = |mut operation: Operation| {
        if names.builtin {
            operation.kind = Some([group.clone(), version.clone(), sub.kind.clone()]);
        }
        operation
    };
    if sub.name == PROXY {
        let operations = connect(resource, names, sub, "ProxyWithPath").into_iter().map(of_kind).collect();
        let parameters = with(&parameters, &[parameter::REST]);
        out.push(PathItem { path: format!("{path}/{{path}}"), parameters, operations });
    }
    let operations = found.into_iter().map(of_kind).collect();
    out.push(PathItem { path, parameters, operations });
}

fn connect_parameters(name: &str) -> &'static [&'static str] {
    match name {
        "exec" => &["command", "container", "stderr", "stdin", "stdout", "tty"],
        "attach" => &["container", "stderr", "stdin", "stdout", "tty"],
        "portforward" => &["ports"],
        _ => &["path"],
    }
}

/// The subresource that takes every method, including those that are no verb.
const PROXY: &str = "proxy";

/// The operations of a subresource that connects: one for each method.
fn connect(resource: &Resource, names: &Names, sub: &Subresource, rest: &str) -> Vec<Operation> {
    let methods = [
        ("get", "get", "Get"),
        ("create", "post", "Post"),
        ("update", "put", "Put"),
        ("patch", "patch", "Patch"),
        ("delete", "delete", "Delete"),
        ("", "head", "Head"),
        ("", "options", "Options"),
    ];
    let scope = if resource.namespaced { "Namespaced" } else { "" };
    let wanted = methods.into_iter().filter(|(verb, ..)| match *verb {
        "" => sub.name == PROXY,
        verb => sub.verbs.iter().any(|has| has == verb),
    });
    wanted
        .map(|(_, method, word)| {
            let id = format!("connect{}{word}{scope}{}{rest}", names.id, resource.kind);
            let mut operation = names.operation(method, "connect", id);
            operation.answer = Answer::Text;
            operation
        })
        .collect()
}

/// The paths under `/watch`, which are deprecated and still in use.
fn watches(resource: &Resource, names: &Names, out: &mut Vec<PathItem>) {
    if !names.builtin || !resource.has_verb("watch") {
        return;
    }
    let root = format!("{}/watch", names.root);
    let plural = &resource.plural;
    let mut add = |path: String, action: &'static str, id: String, more: &[&'static str]| {
        let mut watch = names.operation("get", action, id);
        watch.answer = Answer::Events;
        out.push(PathItem { path, parameters: with(&LIST, more), operations: vec![watch] });
    };
    if resource.namespaced {
        let id = format!("{}ListForAllNamespaces", names.id("watch", false, ""));
        add(format!("{root}/{plural}"), "watchlist", id, &["pretty"]);
        let below = format!("{root}/namespaces/{{namespace}}/{plural}");
        add(below.clone(), "watchlist", names.id("watch", true, "List"), &["namespace", "pretty"]);
        add(
            format!("{below}/{{name}}"),
            "watch",
            names.id("watch", true, ""),
            &["name", "namespace", "pretty"],
        );
    } else {
        add(format!("{root}/{plural}"), "watchlist", names.id("watch", false, "List"), &["pretty"]);
        add(format!("{root}/{plural}/{{name}}"), "watch", names.id("watch", false, ""), &["name", "pretty"]);
    }
}
