//! Probes and lifecycle handlers.

use serde_json::Value;

use crate::access::{at, int, items, text};
use crate::validate::check::Causes;
use setpoint_api::cause::Path;
use setpoint_api::name;

pub(super) fn probe(causes: &mut Causes, kind: &str, probe: &Value, path: &Path) {
    if probe.is_null() {
        return;
    }
    handler(causes, probe, None, path);
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        causes.non_negative(&path.child(field), int(probe, field));
    }
    let grace = int(probe, "terminationGracePeriodSeconds");
    let grace_path = path.child("terminationGracePeriodSeconds");
    if let Some(seconds) = grace.filter(|seconds| *seconds <= 0) {
        causes.invalid(&grace_path, seconds, "must be greater than 0");
    }
    if kind == "readinessProbe" {
        if let Some(seconds) = grace {
            causes.invalid(&grace_path, seconds, "must not be set for readinessProbes");
        }
    } else if let Some(times) = int(probe, "successThreshold").filter(|times| *times != 1) {
        causes.invalid(&path.child("successThreshold"), times, "must be 1");
    }
}

/// Exactly one way to act. Sleeping may not outlast the grace period.
pub(super) fn handler(causes: &mut Causes, handler: &Value, grace: Option<i64>, path: &Path) {
    let mut found = 0;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let action = at(handler, kind);
        if action.is_null() {
            continue;
        }
        let path = path.child(kind);
        if found > 0 {
            causes.forbidden(&path, "may not specify more than 1 handler type");
            continue;
        }
        found += 1;
        match kind {
            "exec" if items(action, "command").is_empty() => causes.required(&path.child("command"), ""),
            "httpGet" => http_get(causes, action, &path),
            "tcpSocket" => causes.port_or_name(&path.child("port"), at(action, "port")),
            "grpc" => {
                let port = int(action, "port").unwrap_or_default();
                causes.wrong_number(&path.child("port"), port, &name::port_number(port));
            }
            "sleep" => {
                let seconds = int(action, "seconds").unwrap_or_default();
                if grace.is_some_and(|grace| seconds < 0 || seconds > grace) {
                    let detail = format!(
                        "must be non-negative and less than terminationGracePeriodSeconds ({}). Enable AllowPodLifecycleSleepActionZeroValue feature gate for zero sleep.",
                        grace.unwrap_or_default()
                    );
                    causes.invalid(&path, seconds, &detail);
                }
            }
            _ => {}
        }
    }
    if found == 0 {
        causes.required(path, "must specify a handler type");
    }
}

fn http_get(causes: &mut Causes, action: &Value, path: &Path) {
    if text(action, "path").is_empty() {
        causes.required(&path.child("path"), "");
    }
    causes.port_or_name(&path.child("port"), at(action, "port"));
    causes.one_of(&path.child("scheme"), text(action, "scheme"), &["HTTP", "HTTPS"]);
    for header in items(action, "httpHeaders") {
        let name = text(header, "name");
        causes.wrong(&path.child("httpHeaders"), name, &name::http_header_name(name));
    }
}
