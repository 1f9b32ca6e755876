//! DaemonSets on several nodes. Taints are put on the last node only, which the other scenarios keep away from.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::super::proxy::{MERGE, until};
use super::{Place, Scenario};

/// setpoint-0 to setpoint-3.
pub const NODES: u32 = 4;
const COMMON: &[&str] = &["setpoint-0", "setpoint-1", "setpoint-2"];
const TAINTED: &str = "setpoint-3";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "labels", run: labels },
    Scenario { name: "rolling", run: rolling },
    Scenario { name: "surge", run: surge },
    Scenario { name: "on-delete", run: on_delete },
    Scenario { name: "taints", run: taints },
    Scenario { name: "undo", run: undo },
    Scenario { name: "orphans", run: orphans },
    Scenario { name: "collision", run: collision },
    Scenario { name: "kubectl", run: kubectl },
];

/// A DaemonSet `d` for these nodes.
fn daemon(nodes: &[&str], strategy: &Value) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "d", "annotations": { "note": "kept" } },
        "spec": { "selector": { "matchLabels": { "app": "d" } }, "updateStrategy": strategy,
            "template": { "metadata": { "labels": { "app": "d" } }, "spec": { "terminationGracePeriodSeconds": 1,
                "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{ "matchExpressions": [
                        { "key": "kubernetes.io/hostname", "operator": "In", "values": nodes }] }] } } },
                "containers": [{ "name": "c", "image": "d:1" }] } } } })
}

fn limits(surge: &Value, unavailable: &Value) -> Value {
    json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable } })
}

fn path(place: &Place<'_>, name: &str) -> String {
    place.group("apps/v1", "daemonsets", name)
}

fn create(place: &Place<'_>, daemon: &Value) -> Result<()> {
    nodes(place)?;
    place.api.create(&path(place, ""), daemon).map(drop)
}

fn nodes(place: &Place<'_>) -> Result<()> {
    until("nodes that take pods", || {
        let nodes = place.api.items("/api/v1/nodes")?;
        let ready = nodes.iter().filter(|node| node["spec"]["taints"].is_null()).count();
        // The last one may be tainted just now.
        Ok((ready + 1 >= NODES as usize && nodes.len() == NODES as usize).then_some(()))
    })
}

fn change(place: &Place<'_>, kind: &str, change: &Value) -> Result<()> {
    place.api.patch(&path(place, "d"), kind, change).map(drop)
}

/// Another image.
fn image(place: &Place<'_>, image: &str) -> Result<()> {
    let containers = json!([{ "name": "c", "image": image }]);
    change(place, STRATEGIC, &json!({ "spec": { "template": { "spec": { "containers": containers } } } }))
}

/// As `kubectl rollout status` judges it, with this many pods.
fn rolled_out(place: &Place<'_>, count: i64) -> Result<()> {
    until(&format!("{count} daemons"), || {
        let daemon = place.api.get(&path(place, "d"))?;
        let status = &daemon["status"];
        let number = |name: &str| status[name].as_i64().unwrap_or(0);
        let done = status["observedGeneration"] == daemon["metadata"]["generation"]
            && ["desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable"].map(number)
                == [count; 3]
            && place.pods()?.len() as i64 == count;
        Ok(done.then_some(()))
    })
}

/// The pods' nodes and images.
fn shown(place: &Place<'_>) -> Result<Vec<String>> {
    let mut shown: Vec<String> = place
        .pods()?
        .iter()
        .map(|pod| format!("{} {}", pod["spec"]["nodeName"], pod["spec"]["containers"][0]["image"]))
        .collect();
    shown.sort();
    Ok(shown)
}

fn change_node(place: &Place<'_>, node: &str, change: &Value) -> Result<()> {
    place.api.patch(&format!("/api/v1/nodes/{node}"), MERGE, change).map(drop)
}

fn labels(place: &Place<'_>) -> Result<Value> {
    let label = |value: Value| json!({ "metadata": { "labels": { "e2e/daemon": value } } });
    let mut selective = daemon(COMMON, &limits(&json!(0), &json!(1)));
    selective["spec"]["template"]["spec"]["nodeSelector"] = json!({ "e2e/daemon": "yes" });
    create(place, &selective)?;
    let mut told = Vec::new();
    let mut look = |count: i64| {
        rolled_out(place, count)?;
        told.push(shown(place)?);
        anyhow::Ok(())
    };
    look(0)?;
    change_node(place, COMMON[0], &label(json!("yes")))?;
    change_node(place, COMMON[1], &label(json!("yes")))?;
    look(2)?;
    change_node(place, COMMON[2], &label(json!("yes")))?;
    look(3)?;
    change_node(place, COMMON[0], &label(json!("no")))?;
    look(2)?;
    Ok(json!(told))
}

fn rolling(place: &Place<'_>) -> Result<Value> {
    let mut manifest = daemon(COMMON, &limits(&json!(0), &json!("34%")));
    manifest["spec"]["revisionHistoryLimit"] = json!(1);
    create(place, &manifest)?;
    rolled_out(place, 3)?;
    change(place, MERGE, &json!({ "spec": { "minReadySeconds": 1 } }))?;
    for version in 2..5 {
        image(place, &format!("d:{version}"))?;
        rolled_out(place, 3)?;
    }
    revisions(place, 2)?;
    Ok(json!(shown(place)?))
}

/// Waits for so many revisions.
fn revisions(place: &Place<'_>, count: usize) -> Result<Vec<Value>> {
    until(&format!("{count} revisions"), || {
        let revisions = place.api.items(&place.group("apps/v1", "controllerrevisions", ""))?;
        Ok((revisions.len() == count).then_some(revisions))
    })
}

fn surge(place: &Place<'_>) -> Result<Value> {
    create(place, &daemon(COMMON, &limits(&json!(1), &json!(0))))?;
    rolled_out(place, 3)?;
    image(place, "d:2")?;
    rolled_out(place, 3)?;
    Ok(json!(shown(place)?))
}

fn on_delete(place: &Place<'_>) -> Result<Value> {
    create(place, &daemon(COMMON, &json!({ "type": "OnDelete" })))?;
    rolled_out(place, 3)?;
    image(place, "d:2")?;
    revisions(place, 2)?;
    let pods = place.pods()?;
    let first =
        pods.iter().find(|pod| pod["spec"]["nodeName"] == COMMON[0]).context("no pod on the first node")?;
    let name = first["metadata"]["name"].as_str().unwrap_or_default();
    place.api.delete(&place.core("pods", name), &Value::Null)?;
    until("one new pod", || {
        let status = place.api.get(&path(place, "d"))?["status"].take();
        Ok((status["updatedNumberScheduled"] == 1 && status["numberAvailable"] == 3).then_some(()))
    })?;
    Ok(json!(shown(place)?))
}

fn taints(place: &Place<'_>) -> Result<Value> {
    let taint = |effect: &str| json!({ "spec": { "taints": [{ "key": "e2e/daemon", "effect": effect }] } });
    let mut told = Vec::new();
    nodes(place)?;
    change_node(place, TAINTED, &taint("NoSchedule"))?;
    create(place, &daemon(&[COMMON[0], TAINTED], &limits(&json!(0), &json!(1))))?;
    rolled_out(place, 1)?;
    told.push(shown(place)?);
    change_node(place, TAINTED, &json!({ "spec": { "taints": null } }))?;
    rolled_out(place, 2)?;
    change_node(place, TAINTED, &taint("NoExecute"))?;
    until("the pod goes", || Ok((place.pods()?.len() == 1).then_some(())))?;
    told.push(shown(place)?);
    // A cordoned node takes daemons all the same.
    change_node(place, TAINTED, &json!({ "spec": { "taints": null, "unschedulable": true } }))?;
    rolled_out(place, 2)?;
    told.push(shown(place)?);
    change_node(place, TAINTED, &json!({ "spec": { "unschedulable": null } }))?;
    Ok(json!(told))
}

fn undo(place: &Place<'_>) -> Result<Value> {
    create(place, &daemon(COMMON, &limits(&json!(0), &json!(3))))?;
    rolled_out(place, 3)?;
    let first = revisions(place, 1)?.remove(0);
    image(place, "d:2")?;
    rolled_out(place, 3)?;
    // As `kubectl rollout undo` does it.
    change(place, STRATEGIC, &first["data"])?;
    rolled_out(place, 3)?;
    let mut numbers: Vec<Value> =
        revisions(place, 2)?.iter().map(|revision| revision["revision"].clone()).collect();
    numbers.sort_by_key(Value::to_string);
    Ok(json!([shown(place)?, numbers]))
}

fn orphans(place: &Place<'_>) -> Result<Value> {
    let manifest = daemon(COMMON, &limits(&json!(0), &json!(1)));
    create(place, &manifest)?;
    rolled_out(place, 3)?;
    let names = || -> Result<Vec<String>> {
        Ok(place.pods()?.iter().map(|pod| pod["metadata"]["name"].to_string()).collect())
    };
    let before = names()?;
    place.api.delete(&path(place, "d"), &json!({ "propagationPolicy": "Orphan" }))?;
    until("it is gone", || Ok(place.api.find(&path(place, "d"))?.is_none().then_some(())))?;
    create(place, &manifest)?;
    rolled_out(place, 3)?;
    ensure!(names()? == before, "the orphans were not taken over");
    revisions(place, 1)?;
    Ok(Value::Null)
}

fn collision(place: &Place<'_>) -> Result<Value> {
    let manifest = daemon(COMMON, &limits(&json!(0), &json!(1)));
    create(place, &manifest)?;
    rolled_out(place, 3)?;
    let taken = revisions(place, 1)?.remove(0)["metadata"]["name"].take();
    place.api.delete(&path(place, "d"), &json!({ "propagationPolicy": "Foreground" }))?;
    until("all of it is gone", || {
        let gone = place.api.find(&path(place, "d"))?.is_none() && place.pods()?.is_empty();
        Ok(gone.then_some(()))
    })?;
    let history = place.group("apps/v1", "controllerrevisions", "");
    revisions(place, 0)?;
    place.api.create(&history, &json!({ "metadata": { "name": taken }, "revision": 1, "data": {} }))?;
    create(place, &manifest)?;
    rolled_out(place, 3)?;
    let count = place.api.get(&path(place, "d"))?["status"]["collisionCount"].take();
    ensure!(count == 1, "{count} collisions");
    // Its name is a hash, and hashes are not compared.
    place.api.delete(&format!("{history}/{}", taken.as_str().unwrap_or_default()), &Value::Null)?;
    Ok(Value::Null)
}

/// Runs kubectl commands and returns their output. Of output that reports steps, returns the last line.
fn kubectl(place: &Place<'_>) -> Result<Value> {
    let manifest = daemon(COMMON, &limits(&json!(0), &json!(1)));
    create(place, &manifest)?;
    const D: &str = "daemonset/d";
    let session: &[&[&str]] = &[
        &["rollout", "status", D, "--timeout=60s"],
        &["annotate", D, "kubernetes.io/change-cause=second"],
        &["set", "image", D, "c=d:2"],
        &["rollout", "status", D, "--timeout=60s"],
        &["rollout", "history", D],
        &["rollout", "undo", D],
        &["rollout", "status", D, "--timeout=60s"],
        &["get", D, "-o", "jsonpath={..image}"],
        &["rollout", "history", D],
        &["rollout", "undo", D, "--to-revision=2"],
        &["rollout", "status", D, "--timeout=60s"],
        &["rollout", "history", D, "--revision=3"],
        &["rollout", "restart", D],
        &["rollout", "status", D, "--timeout=60s"],
        &["rollout", "history", D, "-o", "jsonpath={..image}"],
        &[
            "get",
            D,
            "--no-headers",
            "-o",
            "custom-columns=D:.status.desiredNumberScheduled,R:.status.numberReady",
        ],
        &["delete", D, "--cascade=foreground", "--timeout=60s"],
        &["get", "daemonsets,controllerrevisions,pods", "-o", "name"],
    ];
    let mut told = Vec::new();
    for words in session {
        let output =
            place.kubectl.command(&[*words, &["--namespace", &place.namespace]].concat()).output()?;
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        let said = said.trim();
        let said = if words[1] == "status" { said.lines().last().unwrap_or_default() } else { said };
        told.push(format!("{}: {}: {said}", words.join(" "), output.status.success()));
    }
    Ok(json!(told))
}
