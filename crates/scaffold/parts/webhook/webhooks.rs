//! The webhooks of the operator. The manager serves them if it has an address for them.

use setpoint::webhook::Webhooks;

use crate::NAMESPACE;

/// The name of the Service and of the configurations.
pub const SERVICE: &str = "template-operator-webhooks";

/// All webhooks.
pub fn webhooks() -> Webhooks {
    Webhooks::new(NAMESPACE, SERVICE)
    // setpoint new: webhooks
}
