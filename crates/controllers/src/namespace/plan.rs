//! The order in which a namespace is emptied.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;

use super::KUBERNETES;

/// The next step for a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The namespace is active, or another component's finalizer holds it.
    Nothing,
    /// Say that it is on its way out, then empty it.
    MarkTerminating,
    /// Empty it.
    Empty,
}

/// Decides.
pub fn step(namespace: &Namespace) -> Step {
    if namespace.metadata.deletion_timestamp.is_none() {
        return Step::Nothing;
    }
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
    let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_deref()).unwrap_or_default();
    match phase {
        _ if !finalizers.iter().any(|finalizer| finalizer == KUBERNETES) => Step::Nothing,
        Some("Terminating") => Step::Empty,
        _ => Step::MarkTerminating,
    }
}

/// The remaining content of a namespace after a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remaining {
    /// Nothing is left: the namespace can be finalized.
    Nothing,
    /// Pods that end by themselves within their grace period.
    Pods {
        /// The longest grace period among them, as far as it is not over yet.
        grace_seconds: i64,
    },
    /// Objects that another component's finalizer holds.
    Held,
}

impl Remaining {
    /// When to look again, at the latest; a watch of what remains may say so earlier.
    pub fn retry_after(self) -> Option<Duration> {
        match self {
            Remaining::Nothing => None,
            Remaining::Pods { grace_seconds: grace @ 1.. } => {
                Some(Duration::from_secs(u64::try_from(grace / 2 + 1).unwrap_or(1)))
            }
            Remaining::Pods { .. } | Remaining::Held => Some(HELD_RETRY),
        }
    }
}

/// Finalizers are others' business and take as long as they take.
const HELD_RETRY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{NamespaceSpec, NamespaceStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

    use super::*;

    #[test]
    fn the_step_table() {
        for (deleting, phase, finalizers, expected) in [
            (false, "Active", &["kubernetes"][..], Step::Nothing),
            (true, "Active", &["kubernetes"][..], Step::MarkTerminating),
            (true, "Terminating", &["kubernetes"][..], Step::Empty),
            (true, "Terminating", &["kubernetes", "example.com/x"][..], Step::Empty),
            (true, "Terminating", &["example.com/x"][..], Step::Nothing),
            (true, "Terminating", &[][..], Step::Nothing),
        ] {
            let namespace = Namespace {
                metadata: ObjectMeta {
                    deletion_timestamp: deleting.then_some(Time(jiff::Timestamp::UNIX_EPOCH)),
                    ..Default::default()
                },
                spec: Some(NamespaceSpec {
                    finalizers: Some(finalizers.iter().map(|f| f.to_string()).collect()),
                }),
                status: Some(NamespaceStatus { phase: Some(phase.into()), conditions: None }),
            };
            assert_eq!(step(&namespace), expected, "{deleting} {phase} {finalizers:?}");
        }
    }

    #[test]
    fn pods_are_waited_for_half_their_grace() {
        let seconds = |remaining: Remaining| remaining.retry_after().map(|after| after.as_secs());
        assert_eq!(seconds(Remaining::Nothing), None);
        assert_eq!(seconds(Remaining::Pods { grace_seconds: 30 }), Some(16));
        assert_eq!(seconds(Remaining::Pods { grace_seconds: 1 }), Some(1));
        assert_eq!(seconds(Remaining::Pods { grace_seconds: 0 }), Some(5));
        assert_eq!(seconds(Remaining::Held), Some(5));
    }
}
