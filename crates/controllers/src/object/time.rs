//! Times as Kubernetes stores them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// `metav1.Time` keeps no fraction; a condition that kept one would differ from itself read back.
pub fn whole_seconds(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).expect("a timestamp's own second is in range"))
}
