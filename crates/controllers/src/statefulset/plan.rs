//! Decides the next steps for the pods and claims of a StatefulSet.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use super::identity::{self, claims, is_identified, is_mounted, ordinal};
use super::retention::{Ownership, is_stale};
use super::rolling;
use super::view::{View, is_created, is_going};
use crate::object::pod::{is_terminal, phase};

/// One write, or the reason why it cannot be made.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    CreateClaim { claim: Box<PersistentVolumeClaim>, pod: String },
    OwnClaim { claim: Box<PersistentVolumeClaim>, contested: bool },
    CreatePod(Box<Pod>),
    UpdatePod(Box<Pod>),
    DeletePod(Arc<Pod>),
    Refuse { verb: &'static str, pod: String, message: String },
}

/// The steps. Each phase starts after the success of the one before. Each inner list runs from its beginning to its
/// end.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    pub phases: Vec<Vec<Vec<Step>>>,
    /// Whether the lists of a phase do not wait for each other.
    pub parallel: bool,
    /// Number of pods that are deleted because their revision is old.
    pub outdated: usize,
}

impl View<'_> {
    /// Returns the steps for the claims of a pod: create missing ones, and correct the owners of existing ones.
    fn claim_steps(&self, pod: &Pod, create: bool) -> Result<Vec<Step>, String> {
        let Some(ordinal) = ordinal(pod) else { return Ok(Vec::new()) };
        let mut steps = Vec::new();
        for (_, mut claim) in claims(self.set, ordinal) {
            let name = identity::name_of(&claim.metadata).to_owned();
            match self.claims.get(&name) {
                Some(found) if create && found.metadata.deletion_timestamp.is_some() => {
                    return Err(format!("pvc {name} is being deleted"));
                }
                Some(found) => {
                    let ownership = Ownership { set: self.set, pod, claim: found };
                    if !ownership.is_settled() {
                        let contested = ownership.is_contested();
                        let mut claim = PersistentVolumeClaim::clone(found);
                        claim.metadata.owner_references = Some(ownership.owners());
                        steps.push(Step::OwnClaim { claim: Box::new(claim), contested });
                    }
                }
                None if create => {
                    let owners = Ownership { set: self.set, pod, claim: &claim }.owners();
                    claim.metadata.owner_references = (!owners.is_empty()).then_some(owners);
                    let pod = identity::name_of(&pod.metadata).to_owned();
                    steps.push(Step::CreateClaim { claim: Box::new(claim), pod });
                }
                None => {}
            }
        }
        Ok(steps)
    }

    fn has_stale_claim(&self, pod: &Pod) -> bool {
        let claims = ordinal(pod).map(|ordinal| claims(self.set, ordinal)).unwrap_or_default();
        claims.iter().any(|(_, claim)| {
            let found = self.claims.get(identity::name_of(&claim.metadata));
            found.is_some_and(|found| is_stale(self.set, pod, found))
        })
    }
}

/// The steps for one pod, and whether the next pod may be looked at before this one has changed.
struct Verdict {
    steps: Vec<Step>,
    go_on: bool,
}

impl Verdict {
    fn stop(steps: Vec<Step>) -> Self {
        Verdict { steps, go_on: false }
    }

    fn refuse(verb: &'static str, pod: &Pod, message: String) -> Self {
        let pod = identity::name_of(&pod.metadata).to_owned();
        Verdict::stop(vec![Step::Refuse { verb, pod, message }])
    }
}

/// Decides.
pub fn plan(view: &View<'_>) -> Plan {
    let mut plan = Plan { parallel: view.is_parallel(), ..Plan::default() };
    if view.set.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let (replicas, condemned) = (view.replicas(), view.condemned());
    if !add_phase(&mut plan, &replicas, |pod| replica(view, pod)) {
        return plan;
    }
    let claims = |pod: &Arc<Pod>| match view.claim_steps(pod, false) {
        Ok(steps) => Verdict { steps, go_on: true },
        Err(message) => Verdict::refuse("update", pod, message),
    };
    add_phase(&mut plan, &condemned, claims);
    let first_unavailable =
        replicas.iter().chain(condemned.iter().rev()).find(|pod| view.is_unavailable(pod));
    let judge = |pod: &Arc<Pod>| surplus(view, pod, first_unavailable);
    if !add_phase(&mut plan, &condemned, judge) {
        return plan;
    }
    let outdated = rolling::outdated(view, &replicas);
    plan.outdated = outdated.len();
    plan.phases.push(outdated.into_iter().map(|pod| vec![Step::DeletePod(pod)]).collect());
    plan
}

/// Adds what each pod needs; in order, a pod that has to change first ends it. Says whether to go on.
fn add_phase(plan: &mut Plan, pods: &[Arc<Pod>], judge: impl Fn(&Arc<Pod>) -> Verdict) -> bool {
    let mut phase = Vec::new();
    let mut go_on = true;
    for pod in pods {
        let verdict = judge(pod);
        phase.push(verdict.steps);
        if !verdict.go_on && !plan.parallel {
            go_on = false;
            break;
        }
    }
    phase.retain(|steps| !steps.is_empty());
    plan.phases.push(phase);
    go_on
}

/// A pod that should be there.
fn replica(view: &View<'_>, pod: &Arc<Pod>) -> Verdict {
    if is_terminal(pod) {
        // The pod is created again once it is gone.
        let delete = (!is_going(pod)).then(|| Step::DeletePod(Arc::clone(pod)));
        return Verdict::stop(delete.into_iter().collect());
    }
    if !is_created(pod) {
        if view.has_stale_claim(pod) {
            return Verdict::stop(Vec::new());
        }
        return match view.claim_steps(pod, true) {
            Ok(mut steps) => {
                steps.push(Step::CreatePod(Box::new(Pod::clone(pod))));
                Verdict::stop(steps)
            }
            Err(message) => Verdict::refuse("create", pod, message),
        };
    }
    let mut steps = Vec::new();
    if phase(pod) == "Pending" {
        match view.claim_steps(pod, true) {
            Ok(missing) => steps = missing,
            Err(message) => return Verdict::refuse("update", pod, message),
        }
    }
    if !view.is_parallel() && (is_going(pod) || !view.is_serving(pod)) {
        return Verdict::stop(steps);
    }
    if steps.is_empty() {
        match correct(view, pod) {
            Ok(corrections) => steps = corrections,
            Err(message) => return Verdict::refuse("update", pod, message),
        }
    }
    Verdict { steps, go_on: true }
}

/// Returns the steps that restore a pod and its claims.
fn correct(view: &View<'_>, pod: &Arc<Pod>) -> Result<Vec<Step>, String> {
    let Some(ordinal) = ordinal(pod) else { return Ok(Vec::new()) };
    let (identified, mounted) = (is_identified(view.set, pod), is_mounted(view.set, pod, ordinal));
    let mut steps = view.claim_steps(pod, !mounted)?;
    if identified && mounted && steps.is_empty() {
        return Ok(steps);
    }
    let mut corrected = Pod::clone(pod);
    identity::identify(&mut corrected, ordinal);
    if !mounted {
        identity::mount(view.set, &mut corrected, ordinal);
    }
    steps.push(Step::UpdatePod(Box::new(corrected)));
    Ok(steps)
}

/// A surplus pod. In ordered mode it waits for the pods before it, unless they wait for this one.
fn surplus(view: &View<'_>, pod: &Arc<Pod>, first_unavailable: Option<&Arc<Pod>>) -> Verdict {
    if is_going(pod) {
        return Verdict::stop(Vec::new());
    }
    let blocks = first_unavailable.is_some_and(|first| Arc::ptr_eq(first, pod));
    if !view.is_parallel() && !view.is_serving(pod) && !blocks {
        return Verdict::stop(Vec::new());
    }
    Verdict::stop(vec![Step::DeletePod(Arc::clone(pod))])
}
