//! The trigger time of endpoints: the oldest change that they show, from which network programming latency is
//! measured.

use std::collections::BTreeMap;
use std::sync::Mutex;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use setpoint::Key;

use crate::object::pod::condition;

/// Annotation on endpoints: the time of the change that they show.
pub const LAST_CHANGE: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// Remembers, for every Service, the times that were seen last.
#[derive(Debug, Default)]
pub struct TriggerTimes(Mutex<BTreeMap<Key, Seen>>);

#[derive(Debug, Default)]
struct Seen {
    service: Option<Timestamp>,
    pods: BTreeMap<String, Timestamp>,
}

impl TriggerTimes {
    /// The earliest of the times that changed since the last look; for a Service not seen before, its creation.
    pub fn look(&self, key: &Key, service: &Service, pods: &[&Pod]) -> Option<Timestamp> {
        let mut all = self.0.lock().expect("no holder of this lock panics");
        let created = service.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let times: BTreeMap<String, Timestamp> = pods.iter().filter_map(|pod| time_of(pod)).collect();
        let Some(seen) = all.get_mut(key) else {
            all.insert(key.clone(), Seen { service: created, pods: times });
            return created;
        };
        let changed =
            times.iter().filter(|(name, time)| seen.pods.get(*name).is_none_or(|before| *time > before));
        let recreated = created.filter(|created| Some(*created) > seen.service);
        let earliest = changed.map(|(_, time)| *time).chain(recreated).min();
        *seen = Seen { service: created, pods: times };
        earliest
    }

    /// Forgets a Service that is gone.
    pub fn forget(&self, key: &Key) {
        self.0.lock().expect("no holder of this lock panics").remove(key);
    }
}

fn time_of(pod: &Pod) -> Option<(String, Timestamp)> {
    let since = condition(pod, "Ready")?.last_transition_time.as_ref()?.0;
    Some((pod.metadata.name.clone()?, since))
}

/// Sets the annotation, or removes an outdated one.
pub fn annotate(annotations: &mut Option<BTreeMap<String, String>>, trigger: Option<Timestamp>) {
    match (trigger, annotations) {
        (Some(time), annotations) => {
            annotations.get_or_insert_default().insert(LAST_CHANGE.into(), time.to_string());
        }
        (None, Some(annotations)) => drop(annotations.remove(LAST_CHANGE)),
        (None, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::endpointslice::tests::{pod, service};

    #[test]
    fn the_earliest_change_since_the_last_look_counts() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let ready = |number: usize, second: i64| {
            let mut pod = pod(number, true, 80);
            let conditions = pod.status.as_mut().unwrap().conditions.as_mut().unwrap();
            conditions[0].last_transition_time = Some(Time(at(second)));
            pod
        };
        let mut service = service(&[]);
        service.metadata.creation_timestamp = Some(Time(at(5)));
        let (times, key) = (TriggerTimes::default(), Key::new(Some("ns"), "web"));
        let look =
            |service: &Service, pods: &[Pod]| times.look(&key, service, &pods.iter().collect::<Vec<_>>());
        assert_eq!(look(&service, &[ready(0, 3)]), Some(at(5)));
        assert_eq!(look(&service, &[ready(0, 3)]), None);
        assert_eq!(look(&service, &[ready(0, 9), ready(1, 8)]), Some(at(8)));
        assert_eq!(look(&service, &[ready(0, 9)]), None);
        service.metadata.creation_timestamp = Some(Time(at(20)));
        assert_eq!(look(&service, &[ready(0, 30)]), Some(at(20)));
        times.forget(&key);
        assert_eq!(look(&service, &[]), Some(at(20)));
    }
}
