//! The thin part: read, plan, write pods and claims, tell.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use setpoint::recorder::EventApi;
use setpoint::{
    Action, Client, ClientError, Context, Controller, DeleteOptions, Error, Key, Manager, NotFoundExt,
    Reconciler, SetupError, Watch,
};

use super::identity::{is_member, name_of, revision};
use super::plan::{Plan, Step, plan};
use super::view::View;
use super::{revision as revisions, status};
use crate::children::adopt::{self, Owner, children_and_orphans};
use crate::children::claim::{Claimant, controller_reference};
use crate::children::trigger::Owners;
use crate::children::write;
use crate::controller_revision;
use crate::object::field::stateful_set_spec;
use crate::object::selector;
use crate::replicaset::slow_start;

/// Number of StatefulSets that are reconciled in parallel.
const CONCURRENCY: usize = 8;
/// Number of old revisions that are kept by default.
const HISTORY_LIMIT: i32 = 10;

/// Registers the controller.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    let pods = adopt::children_informer::<Pod>(manager);
    adopt::children_informer::<ControllerRevision>(manager);
    let lister = manager.informer::<StatefulSet>().lister();
    let owners = Owners { lister, selector: |set| Some(Cow::Borrowed(&stateful_set_spec(set).selector)) };
    Controller::for_kind::<StatefulSet>(manager)
        .watches(Watch::of_target(pods.target().clone()).map_changes(move |change| owners.of_child(change)))
        .reads::<PersistentVolumeClaim>()
        .named("statefulset-controller")
        .events("statefulset-controller", EventApi::CoreV1)
        .field_owner(crate::FIELD_OWNER)
        .concurrency(CONCURRENCY)
        .register(StatefulSetController)?;
    Ok(())
}

struct StatefulSetController;

impl Reconciler for StatefulSetController {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(set) = client.get::<StatefulSet>(&key).await? else { return Ok(Action::done()) };
        let spec = stateful_set_spec(&set);
        if selector::check(&spec.selector).is_err() {
            return Ok(Action::done());
        }
        let owner = Owner {
            key: key.clone(),
            claimant: Claimant {
                uid: set.metadata.uid.as_deref().unwrap_or_default(),
                deleting: set.metadata.deletion_timestamp.is_some(),
                selector: &spec.selector,
            },
            reference: controller_reference("apps/v1", "StatefulSet", &set.metadata),
        };
        let known = controller_revision::revisions::<StatefulSet>(client, &owner, &spec.selector).await?;
        if owner.claimant.deleting && known.is_empty() {
            return Ok(Action::done());
        }
        let pods = members(client, &set, &owner).await?;
        let versions = revisions::sync(client, &set, &owner, &known).await?;
        let view = View {
            set: &set,
            current: &versions.current,
            update: &versions.update,
            pods: &pods,
            claims: &claims(client, &set).await?,
            now: ctx.now(),
        };
        let plan = plan(&view);
        let carried_out = carry_out(ctx, &set, &plan).await;
        let status = status::status(&view, &plan, versions.collision_count);
        if set.status.as_ref() != Some(&status) {
            write::status(client, &key, &*set, set.status.as_ref(), &status).await?;
        }
        let live = |name: &str| {
            name == versions.current.name
                || name == versions.update.name
                || pods.iter().any(|pod| revision(pod) == name)
        };
        let limit = spec.revision_history_limit.unwrap_or(HISTORY_LIMIT);
        controller_revision::delete(client, &controller_revision::surplus(&known, live, limit)).await?;
        carried_out?;
        Ok(status::requeue(&view).map_or(Action::done(), Action::requeue_after))
    }
}

/// The StatefulSet's pods, adopted or released where need be.
async fn members(
    client: &Client,
    set: &StatefulSet,
    owner: &Owner<'_>,
) -> Result<Vec<Arc<Pod>>, ClientError> {
    let namespace = owner.key.namespace().unwrap_or_default();
    let mut pods = children_and_orphans::<Pod>(client, namespace, owner.claimant.uid).await?;
    pods.retain(|pod| is_member(set, pod));
    adopt::claim::<StatefulSet, Pod>(client, owner, pods).await
}

async fn claims(
    client: &Client,
    set: &StatefulSet,
) -> Result<BTreeMap<String, Arc<PersistentVolumeClaim>>, ClientError> {
    if stateful_set_spec(set).volume_claim_templates.as_ref().is_none_or(Vec::is_empty) {
        return Ok(BTreeMap::new());
    }
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let claims = client.list::<PersistentVolumeClaim>(setpoint::Query::namespace(namespace)).await?;
    Ok(claims.into_iter().map(|claim| (name_of(&claim.metadata).to_owned(), claim)).collect())
}

/// Carries the plan out, phase by phase, up to the first failure.
async fn carry_out(ctx: &Context, set: &StatefulSet, plan: &Plan) -> Result<(), Error> {
    for phase in &plan.phases {
        let mut rest = phase.iter();
        let sizes: Vec<usize> =
            if plan.parallel { slow_start(phase.len()).collect() } else { vec![1; phase.len()] };
        for size in sizes {
            let batch = rest.by_ref().take(size).map(|steps| take_steps(ctx, set, steps));
            let failed = join_all(batch).await.into_iter().find_map(Result::err);
            failed.map_or(Ok(()), Err)?;
        }
    }
    Ok(())
}

async fn take_steps(ctx: &Context, set: &StatefulSet, steps: &[Step]) -> Result<(), Error> {
    for step in steps {
        let taken = take(ctx, set, step).await;
        // The namespace is being deleted, so nothing can be created in it.
        let ending = matches!(&taken, Err(error) if error.client_error().is_some_and(ClientError::is_namespace_terminating));
        if ending {
            return Ok(());
        }
        taken?;
    }
    Ok(())
}

async fn take(ctx: &Context, set: &StatefulSet, step: &Step) -> Result<(), Error> {
    let client = ctx.client();
    let tell = |verb: &str, pod: &str, taken: Result<(), Error>| report(ctx, set, verb, pod, taken);
    match step {
        Step::CreateClaim { claim, pod } => create_claim(ctx, set, claim, pod).await,
        Step::OwnClaim { claim, contested } => own_claim(ctx, set, claim, *contested).await,
        Step::CreatePod(pod) => match client.create(&**pod).await {
            Err(error) if error.is_already_exists() || error.is_namespace_terminating() => Err(error.into()),
            created => tell("create", name_of(&pod.metadata), created.map(drop).map_err(Error::from)),
        },
        Step::UpdatePod(pod) => {
            let updated = client.update(&**pod).await;
            tell("update", name_of(&pod.metadata), updated.map(drop).map_err(Error::from))
        }
        Step::DeletePod(pod) => {
            let options = DeleteOptions::default().uid(pod.metadata.uid.clone().unwrap_or_default());
            let key = Key::new(pod.metadata.namespace.as_deref(), name_of(&pod.metadata));
            let deleted = client.delete_with::<Pod>(key, &options).await.ignore_not_found();
            tell("delete", name_of(&pod.metadata), deleted.map(drop).map_err(Error::from))
        }
        Step::Refuse { verb, pod, message } => tell(verb, pod, Err(Error::msg(message))),
    }
}

/// Writes an event about a pod, in kube-controller-manager's words.
fn report(
    ctx: &Context,
    set: &StatefulSet,
    verb: &str,
    pod: &str,
    taken: Result<(), Error>,
) -> Result<(), Error> {
    let (title, name) = (title(verb), name_of(&set.metadata));
    match &taken {
        Ok(()) => ctx.recorder().normal(
            set,
            &format!("Successful{title}"),
            format!("{title} Pod {pod} in StatefulSet {name} successful"),
        ),
        Err(error) => ctx.recorder().warning(
            set,
            &format!("Failed{title}"),
            format!("{title} Pod {pod} in StatefulSet {name} failed error: {}", error.message()),
        ),
    }
    taken
}

fn title(verb: &str) -> String {
    let mut letters = verb.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

async fn create_claim(
    ctx: &Context,
    set: &StatefulSet,
    claim: &PersistentVolumeClaim,
    pod: &str,
) -> Result<(), Error> {
    let (claim_name, name) = (name_of(&claim.metadata), name_of(&set.metadata));
    match ctx.client().create(claim).await {
        Ok(_) => {
            let message = format!("Create Claim {claim_name} Pod {pod} in StatefulSet {name} success");
            ctx.recorder().normal(set, "SuccessfulCreate", message);
            Ok(())
        }
        Err(error) if error.is_already_exists() || error.is_namespace_terminating() => Err(error.into()),
        Err(error) => {
            let message = format!(
                "Create Claim {claim_name} for Pod {pod} in StatefulSet {name} failed error: {}",
                error.message()
            );
            ctx.recorder().warning(set, "FailedCreate", message);
            report(
                ctx,
                set,
                "create",
                pod,
                Err(Error::msg(format!("failed to create PVC {claim_name}: {}", error.message()))),
            )
        }
    }
}

async fn own_claim(
    ctx: &Context,
    set: &StatefulSet,
    claim: &PersistentVolumeClaim,
    contested: bool,
) -> Result<(), Error> {
    if contested {
        let message = format!(
            "PersistentVolumeClaim {} has a conflicting OwnerReference that acts as a manging controller, the \
             retention policy is ignored for this claim",
            name_of(&claim.metadata)
        );
        ctx.recorder().warning(set, "ConflictingController", message);
    }
    ctx.client().update(claim).await?;
    Ok(())
}
