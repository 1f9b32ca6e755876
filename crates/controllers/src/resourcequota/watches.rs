//! The kinds that quotas count: watched from the first quota that names one to the last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota, Service};
use kube::core::ApiResource;
use setpoint::controller::AddedWatch;
use setpoint::controller::ControllerHandle;
use setpoint::informer::Lister;
use setpoint::{Error, Manager, Target, Watch};
use setpoint_api::kind::GroupResource;
use setpoint_kinds::quota::Tracked;

use super::trigger;
use crate::discovery::{ServerResource, discover};

/// Time for which the answer "no such kind" is remembered.
pub(super) const UNKNOWN_FOR: Duration = Duration::from_secs(30);

pub(super) struct Watches {
    manager: Manager,
    quotas: Lister<ResourceQuota>,
    /// Known once the controller is registered, before it runs.
    pub(super) handle: OnceLock<ControllerHandle>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kinds: BTreeMap<Tracked, Watched>,
    /// Names that the server did not know at the last request.
    unknown: BTreeSet<Tracked>,
    asked: Option<Timestamp>,
}

struct Watched {
    resource: ApiResource,
    _watch: AddedWatch,
}

impl Watches {
    pub(super) fn new(manager: &Manager) -> Self {
        let quotas = manager.informer::<ResourceQuota>().lister();
        Watches { manager: manager.clone(), quotas, handle: OnceLock::new(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    /// Returns the kind of a counted resource, or `None` if the server has no such kind.
    pub(super) fn resource(&self, tracked: &Tracked) -> Option<ApiResource> {
        self.state().kinds.get(tracked).map(|watched| watched.resource.clone())
    }

    /// Ends the watch of a kind that is gone.
    pub(super) fn forget(&self, tracked: &Tracked) {
        self.state().kinds.remove(tracked);
    }

    /// Adapts the watches to the present quotas. Returns whether a watch was opened.
    pub(super) async fn refresh(&self, now: Timestamp) -> Result<bool, Error> {
        let Some(missing) = self.missing(now)? else { return Ok(false) };
        let found = discover(self.manager.client().kube()).await?;
        let by_name: BTreeMap<GroupResource, &ServerResource> =
            found.resources.iter().map(|found| (name_of(found), found)).collect();
        let mut begun = false;
        let mut unknown = BTreeSet::new();
        for tracked in missing {
            match by_name.get(&tracked.group_resource()).filter(|found| is_countable(found)) {
                Some(found) => {
                    self.begin(tracked, &found.resource)?;
                    begun = true;
                }
                None => drop(unknown.insert(tracked)),
            }
        }
        let mut state = self.state();
        state.unknown = unknown;
        state.asked = Some(now);
        Ok(begun)
    }

    /// Returns the names in quotas that have no watch, unless the server was asked for all of them a moment ago. Ends
    /// watches that no quota needs.
    fn missing(&self, now: Timestamp) -> Result<Option<Vec<Tracked>>, Error> {
        let quotas = self.quotas.list()?;
        let hard = quotas.iter().filter_map(|quota| quota.spec.as_ref()?.hard.as_ref());
        let wanted: BTreeSet<Tracked> =
            hard.flat_map(|hard| hard.keys()).filter_map(|name| Tracked::named(name)).collect();
        let mut state = self.state();
        state.kinds.retain(|tracked, _| wanted.contains(tracked));
        let missing: Vec<Tracked> =
            wanted.into_iter().filter(|tracked| !state.kinds.contains_key(tracked)).collect();
        let wait = SignedDuration::try_from(UNKNOWN_FOR).unwrap_or(SignedDuration::MAX);
        let recently = state.asked.is_some_and(|asked| now.duration_since(asked) < wait);
        let known = recently && missing.iter().all(|tracked| state.unknown.contains(tracked));
        Ok((!missing.is_empty() && !known).then_some(missing))
    }

    fn begin(&self, tracked: Tracked, resource: &ApiResource) -> Result<(), Error> {
        let target = match &tracked {
            Tracked::Pods => self.manager.target::<Pod>(),
            Tracked::Services => self.manager.target::<Service>(),
            Tracked::Claims => self.manager.target::<PersistentVolumeClaim>(),
            // For kinds that are only counted, deletions suffice. The garbage collector watches their metadata too.
            Tracked::Objects(_) => Target::resource(resource.clone()).metadata_only(),
        };
        let handle = self.handle.get().ok_or_else(|| Error::msg("the controller is not registered yet"))?;
        let (quotas, clock, of) = (self.quotas.clone(), self.manager.clock().clone(), tracked.clone());
        let map = move |change: &setpoint::predicate::Change<'_>| {
            trigger::of_object(&of, change, &quotas, clock.now())
        };
        let watch = handle.watch(Watch::of_target(target).map_changes(map))?;
        self.state().kinds.insert(tracked, Watched { resource: resource.clone(), _watch: watch });
        Ok(())
    }
}

fn name_of(found: &ServerResource) -> GroupResource {
    GroupResource::new(&*found.resource.group, &*found.resource.plural)
}

fn is_countable(found: &ServerResource) -> bool {
    found.namespaced && found.can("list") && found.can("watch")
}
