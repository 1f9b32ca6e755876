//! An operator has the rights that it needs, and needs every one that it has.

use std::fmt::Write;
use std::path::PathBuf;

use serde_json::{Value, json};
use setpoint::manifests::{Answered, Right, Rights, Rule};
use setpoint_cluster::Cluster;

use crate::requests::Fault;
use crate::world::{TestedOperator, World};

/// The trial of an operator's rights against the file that its manifests are made of.
///
/// It lives the operator's whole life and compares the file with the declared watches and the sent requests. Then it lives
/// the life under the operator's service account: with all rights no request is refused, and with any one of them taken away
/// one is.
pub struct RightsTrial {
    operator: TestedOperator,
    file: PathBuf,
    untested: Vec<(Right, &'static str)>,
    rewrites: bool,
}

impl RightsTrial {
    /// The trial of an operator whose rules stand in a file: `concat!(env!("CARGO_MANIFEST_DIR"), "/rights.yaml")`.
    pub fn of(operator: TestedOperator, file: impl Into<PathBuf>) -> Self {
        RightsTrial { operator, file: file.into(), untested: Vec::new(), rewrites: false }
    }

    /// Declares a right that the life never asks for, and why the operator needs it nevertheless.
    #[must_use]
    pub fn untested(mut self, right: Right, reason: &'static str) -> Self {
        self.untested.push((right, reason));
        self
    }

    /// Rewrites the file where it differs. The trial fails all the same, so that nobody leaves this in.
    #[must_use]
    pub fn rewrite(mut self) -> Self {
        self.rewrites = true;
        self
    }

    /// Runs the trial. `life` makes the operator do everything that it can do.
    pub async fn check(self, life: impl AsyncFn(&mut World)) {
        let base = World::idle(self.operator).await;
        for object in
            (self.operator.manifests)("image").iter().filter(|object| object["kind"] != "Deployment")
        {
            base.apply(object).await;
        }
        self.compare(&base, &life).await;
        for fault in [Fault::None, Fault::NoStreaming] {
            let mut world = under_its_account(base.cluster.fork().await.unwrap(), self.operator, fault);
            life(&mut world).await;
            assert!(world.requests.forbidden().is_empty(), "{fault:?}: {:?}", world.requests.forbidden());
        }
        for (role, right) in granted(self.operator) {
            if !self.untested.iter().any(|(untested, _)| *untested == right) {
                self.check_needed(&base, &life, role, &right).await;
            }
        }
    }

    async fn check_needed(&self, base: &World, life: &impl AsyncFn(&mut World), role: &str, right: &Right) {
        // Without streaming, because that asks for list where a newer server is only asked for watch.
        let cluster = base.cluster.fork().await.unwrap();
        let mut world = under_its_account(cluster, self.operator, Fault::NoStreaming);
        world.apply(&role_without(self.operator, role, right)).await;
        let requests = world.requests.clone();
        let missed = tokio::select! {
            biased;
            () = requests.until_forbidden() => false,
            () = life(&mut world) => true,
        };
        assert!(!missed, "the {role} need not have: {right}");
    }

    /// Compares the file with what the operator does when it may do anything.
    async fn compare(&self, base: &World, life: &impl AsyncFn(&mut World)) {
        let mut derived = Rights::default();
        // A server that does not stream the first state is asked for a list.
        for fault in [Fault::None, Fault::NoStreaming] {
            let mut world = World::on(base.cluster.fork().await.unwrap(), self.operator, fault);
            let client = world.cluster.client();
            world.run(client, Some("replica"));
            life(&mut world).await;
            world.watched.iter().for_each(|right| derived.add(right.clone()));
            self.sent_by(&world).into_iter().for_each(|right| derived.add(right));
        }
        let untested = self.never_sent(&derived);
        let wanted = self.text(&derived);
        let found = std::fs::read_to_string(&self.file).unwrap_or_default();
        if found == wanted {
            return;
        }
        let file = self.file.display();
        if self.rewrites {
            std::fs::write(&self.file, wanted).unwrap();
            panic!("{file} was rewritten; take `rewrite()` out again");
        }
        let checked_in = Rights::of(&Rule::parse(&found).unwrap_or_default());
        let all: Rights = derived.iter().chain(untested.iter()).cloned().collect();
        let mut difference = String::new();
        all.without(&checked_in).for_each(|right| writeln!(difference, "+ {right}").unwrap());
        checked_in.without(&all).for_each(|right| writeln!(difference, "- {right}").unwrap());
        panic!(
            "{file} differs from what the operator watches and sends:\n{difference}`.rewrite()` on the trial rewrites it"
        );
    }

    /// The rights that the requests needed, without those that the election has in the operator's own namespace.
    fn sent_by(&self, world: &World) -> Vec<Right> {
        let own = rights_of(&self.operator.manifest("Role"));
        let namespace = self.operator.namespace();
        let mut rights = Vec::new();
        for sent in world.requests.sent() {
            let (method, path, query) = (sent.method.as_str(), &sent.path, &sent.query);
            let answered = Answered { method, path, query, status: sent.status.unwrap_or_default() };
            let is_own = answered.namespace() == Some(&namespace);
            rights.extend(answered.rights().into_iter().filter(|right| !is_own || !own.contains(right)));
        }
        rights
    }

    /// The declared rights that no test asks for.
    fn never_sent(&self, derived: &Rights) -> Rights {
        for (right, _) in &self.untested {
            assert!(!derived.contains(right), "the life asks for it: {right}");
        }
        self.untested.iter().map(|(right, _)| right.clone()).collect()
    }

    fn text(&self, derived: &Rights) -> String {
        let mut text = String::from(
            "# The rules of the operator's ClusterRole, derived from what it watches and sends by its trial of rights.\n",
        );
        text.push_str(&Rule::print(&derived.rules()));
        for (right, reason) in &self.untested {
            let rule = Rule::new(&right.group, &[&right.resource], &[&right.verb]);
            write!(text, "# No test asks for it: {reason}\n{}", Rule::print(&[rule])).unwrap();
        }
        text
    }
}

/// A replica that the server takes for the operator's service account.
fn under_its_account(cluster: Cluster, operator: TestedOperator, fault: Fault) -> World {
    let mut world = World::on(cluster, operator, fault);
    let namespace = operator.namespace();
    let user = format!("system:serviceaccount:{namespace}:{}", operator.name);
    let of_namespace = format!("system:serviceaccounts:{namespace}");
    let groups = ["system:serviceaccounts", &of_namespace, "system:authenticated"];
    let client = world.cluster.client_as(&user, &groups);
    world.run(client, Some("replica"));
    world
}

/// Every right of the operator's roles, with the kind of role.
fn granted(operator: TestedOperator) -> Vec<(&'static str, Right)> {
    let of =
        |role| rights_of(&operator.manifest(role)).iter().cloned().map(move |right| (role, right)).collect();
    let granted: Vec<Vec<_>> = ["ClusterRole", "Role"].into_iter().map(of).collect();
    granted.concat()
}

fn rights_of(role: &Value) -> Rights {
    let rules: Vec<Rule> = serde_json::from_value(role["rules"].clone()).unwrap();
    Rights::of(&rules)
}

/// The role with one right taken away.
fn role_without(operator: TestedOperator, role: &str, right: &Right) -> Value {
    let mut role = operator.manifest(role);
    let left: Rights = rights_of(&role).iter().filter(|other| *other != right).cloned().collect();
    let rules = left
        .rules()
        .into_iter()
        .map(|rule| json!({"apiGroups": [rule.group], "resources": rule.resources, "verbs": rule.verbs}));
    role["rules"] = rules.collect();
    role
}
