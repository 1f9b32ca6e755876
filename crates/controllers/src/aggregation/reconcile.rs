//! The thin part: read the roles, apply the rules.

use k8s_openapi::api::rbac::v1::ClusterRole;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use setpoint::informer::{Index, Lister};
use setpoint::predicate::Change;
use setpoint::{
    Action, Context, Controller, Error, Key, Kind, Manager, Object, Query, Reconciler, SetupError, Watch,
};

use super::plan::{plan, selects};
use crate::object::selector::labels_of;

/// The controller, and the owner of the rules that it applies: tools know it from every cluster.
const NAME: &str = "clusterrole-aggregation-controller";
/// Finds the roles that have an `aggregationRule`, of which there are few.
const AGGREGATED: &str = "aggregated";

/// Registers the controller.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    let informer = manager.informer::<ClusterRole>();
    let index = Index::new(AGGREGATED, |role| is_aggregated(role).then(String::new).into_iter().collect());
    // A second manager's controller finds it there.
    let _ = informer.add_index(index);
    let roles = informer.lister::<ClusterRole>();
    Controller::new(manager, NAME)
        .cluster_scoped()
        .watches(Watch::of::<ClusterRole>().map_changes(move |change| concerned(change, &roles)))
        .reads::<ClusterRole>()
        .field_owner(NAME)
        .register(Aggregation)?;
    Ok(())
}

fn is_aggregated(role: &Object) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Part {
        aggregation_rule: Option<IgnoredAny>,
    }
    role.decode::<Part>().is_ok_and(|part| part.aggregation_rule.is_some())
}

/// Returns the aggregated roles that a change concerns: the changed role, and the roles that select it or did.
fn concerned(change: &Change<'_>, roles: &Lister<ClusterRole>) -> Vec<Key> {
    let own = change.object().map(Object::name);
    let labels: Vec<_> = change.objects().map(labels_of).collect();
    let aggregated = roles.by_index(AGGREGATED, "").unwrap_or_default();
    let names = aggregated.iter().filter_map(|role| {
        let name = role.metadata.name.as_deref()?;
        (own == Some(name) || labels.iter().any(|labels| selects(role, labels))).then_some(name)
    });
    names.map(Key::cluster).collect()
}

struct Aggregation;

impl Reconciler for Aggregation {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(role) = client.get::<ClusterRole>(&key).await? else { return Ok(Action::done()) };
        if role.aggregation_rule.is_none() {
            return Ok(Action::done());
        }
        let all = client.list_objects(&ClusterRole::api_resource(), Query::all()).await?;
        // Few of a cluster's many roles are selected. The others need not be decoded.
        let selected = all.iter().filter(|other| selects(&role, &labels_of(other)));
        let selected: Vec<ClusterRole> = selected.map(Object::decode).collect::<Result<_, _>>()?;
        let selected: Vec<&ClusterRole> = selected.iter().collect();
        let Some(rules) = plan(&role, &selected) else { return Ok(Action::done()) };
        // With its uid: a role that was deleted meanwhile is not made again.
        let metadata = json!({ "name": role.metadata.name, "uid": role.metadata.uid });
        let mut config = json!({ "metadata": metadata });
        if !rules.is_empty() {
            config["rules"] = json!(rules);
        }
        client.apply_partial::<ClusterRole>(&config).await?;
        Ok(Action::done())
    }
}
