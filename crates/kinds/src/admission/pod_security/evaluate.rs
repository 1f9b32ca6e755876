//! The checks that a standard consists of.

use serde_json::Value;

use super::super::pod_security_standards::{Level, PolicyVersion, Standard};
use super::checks::{self, Refused};

/// The newest version with other rules than the one before.
const NEWEST: u32 = 37;

/// The faults of a pod or template, by the checks of a standard.
pub(super) type Verdict = Vec<Refused>;

/// A check in the versions from one to before another.
struct Check {
    level: Level,
    from: u32,
    until: u32,
    /// The check of the level below that this one replaces at the restricted level.
    replaces: Option<&'static str>,
    id: &'static str,
    run: fn(&Value) -> Option<Refused>,
}

const fn baseline(id: &'static str, (from, until): (u32, u32), run: fn(&Value) -> Option<Refused>) -> Check {
    Check { level: Level::Baseline, from, until, replaces: None, id, run }
}

const fn restricted(
    id: &'static str,
    (from, until): (u32, u32),
    replaces: Option<&'static str>,
    run: fn(&Value) -> Option<Refused>,
) -> Check {
    Check { level: Level::Restricted, from, until, replaces, id, run }
}

const ON: u32 = u32::MAX;

/// All checks, in the order of their results: those of the lower level first, then by id.
const CHECKS: [Check; 31] = [
    baseline("appArmorProfile", (0, ON), checks::app_armor),
    baseline("capabilities_baseline", (0, ON), checks::capabilities_baseline),
    baseline("hostNamespaces", (0, ON), checks::host_namespaces),
    baseline("hostPathVolumes", (0, ON), checks::host_path),
    baseline("hostPorts", (0, ON), checks::host_ports),
    baseline("hostProbesAndHostLifecycle", (34, ON), checks::host_probes),
    baseline("privileged", (0, ON), checks::privileged),
    baseline("procMount", (0, 35), checks::proc_mount),
    baseline("procMount", (35, ON), |pod| checks::unless_own_users(pod, checks::proc_mount)),
    baseline("seLinuxOptions", (0, 31), |pod| checks::selinux(pod, 3)),
    baseline("seLinuxOptions", (31, ON), |pod| checks::selinux(pod, 4)),
    baseline("seccompProfile_baseline", (0, 19), checks::seccomp_annotations),
    baseline("seccompProfile_baseline", (19, ON), checks::seccomp_baseline),
    baseline("sysctls", (0, 27), |pod| checks::sysctls(pod, 5)),
    baseline("sysctls", (27, 29), |pod| checks::sysctls(pod, 6)),
    baseline("sysctls", (29, 32), |pod| checks::sysctls(pod, 10)),
    baseline("sysctls", (32, 37), |pod| checks::sysctls(pod, 12)),
    baseline("sysctls", (37, ON), |pod| checks::sysctls(pod, 14)),
    baseline("windowsHostProcess", (0, ON), checks::windows_host_process),
    restricted("allowPrivilegeEscalation", (8, 25), None, checks::escalation),
    restricted("allowPrivilegeEscalation", (25, ON), None, |pod| {
        checks::unless_windows(pod, checks::escalation)
    }),
    restricted("capabilities_restricted", (22, 25), Some("capabilities_baseline"), checks::capabilities),
    restricted("capabilities_restricted", (25, ON), Some("capabilities_baseline"), |pod| {
        checks::unless_windows(pod, checks::capabilities)
    }),
    restricted("procMount_restricted", (35, ON), Some("procMount"), checks::proc_mount),
    restricted("restrictedVolumes", (0, ON), Some("hostPathVolumes"), checks::volumes),
    restricted("runAsNonRoot", (0, 35), None, checks::non_root),
    restricted("runAsNonRoot", (35, ON), None, |pod| checks::unless_own_users(pod, checks::non_root)),
    restricted("runAsUser", (23, 35), None, checks::root_user),
    restricted("runAsUser", (35, ON), None, |pod| checks::unless_own_users(pod, checks::root_user)),
    restricted("seccompProfile_restricted", (19, 25), Some("seccompProfile_baseline"), checks::seccomp),
    restricted("seccompProfile_restricted", (25, ON), Some("seccompProfile_baseline"), |pod| {
        checks::unless_windows(pod, checks::seccomp)
    }),
];

/// Holds a pod, or a template of one, against a standard.
pub(super) fn pod(standard: Standard, pod: &Value) -> Verdict {
    let version = match standard.version {
        PolicyVersion::Latest => NEWEST,
        PolicyVersion::Minor(minor) => minor.min(NEWEST),
    };
    let counts =
        |check: &&Check| check.level <= standard.level && check.from <= version && version < check.until;
    let counting: Vec<&Check> = CHECKS.iter().filter(counts).collect();
    let is_replaced = |check: &Check| counting.iter().any(|other| other.replaces == Some(check.id));
    let held = counting.iter().filter(|check| !is_replaced(check));
    if standard.level == Level::Privileged {
        Vec::new()
    } else {
        held.filter_map(|check| (check.run)(pod)).collect()
    }
}

/// The reasons, without details.
pub(super) fn reasons(verdict: &[Refused]) -> String {
    verdict.iter().map(|refused| refused.reason).collect::<Vec<_>>().join(", ")
}

/// The reasons with their details.
pub(super) fn details(verdict: &[Refused]) -> String {
    let lines = verdict.iter().map(|refused| format!("{} ({})", refused.reason, refused.detail));
    lines.collect::<Vec<_>>().join(", ")
}
