//! Taints keep pods away from a node; tolerations let them in.

use k8s_openapi::api::core::v1::{Taint, Toleration};

/// Whether some toleration covers the taint.
pub fn is_tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

/// Whether the toleration covers the taint.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    fn text(given: &Option<String>) -> &str {
        given.as_deref().unwrap_or_default()
    }
    let (effect, key) = (text(&toleration.effect), text(&toleration.key));
    if (!effect.is_empty() && effect != taint.effect) || (!key.is_empty() && key != taint.key) {
        return false;
    }
    match text(&toleration.operator) {
        "" | "Equal" => text(&toleration.value) == text(&taint.value),
        "Exists" => true,
        _ => false,
    }
}

/// The taint that `kubectl cordon` amounts to, for pods that tolerate it.
pub fn unschedulable() -> Taint {
    Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        effect: "NoSchedule".into(),
        ..Default::default()
    }
}
