//! `/healthz`, `/livez`, `/readyz`.

use http::{Response, StatusCode};

use crate::body::Body;
use crate::request::RequestInfo;
use crate::respond;
use crate::server::Server;

/// The checks of each health endpoint.
const CHECKS: [&str; 6] = [
    "ping",
    "log",
    "etcd",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/rbac/bootstrap-roles",
];

/// Further checks of `/readyz`.
const READY_CHECKS: [&str; 2] = ["informer-sync", "shutdown"];

/// Answers a health check: `ok`, or each check with `?verbose`, or one check by its path.
pub(crate) fn health(server: &Server, segments: &[&str], info: &RequestInfo) -> Response<Body> {
    let endpoint = segments[0];
    let mut checks = CHECKS.to_vec();
    if endpoint == "readyz" {
        checks.extend(READY_CHECKS);
    }
    if segments.len() > 1 {
        let name = segments[1..].join("/");
        return if checks.contains(&name.as_str()) { single("ok") } else { crate::respond::not_found() };
    }
    let excluded: Vec<&str> = info.query.all("exclude").collect();
    let writable = server.is_writable();
    let mut text = String::new();
    let mut healthy = true;
    for check in &checks {
        if excluded.contains(check) {
            text.push_str(&format!("[+]{check} excluded: ok\n"));
        } else if *check == "etcd" && !writable {
            healthy = false;
            text.push_str("[-]etcd failed: reason withheld\n");
        } else {
            text.push_str(&format!("[+]{check} ok\n"));
        }
    }
    if !healthy {
        text.push_str(&format!("{endpoint} check failed\n"));
        return respond::text(StatusCode::INTERNAL_SERVER_ERROR, text);
    }
    if info.query.has("verbose") {
        text.push_str(&format!("{endpoint} check passed\n"));
        return respond::text(StatusCode::OK, text);
    }
    respond::text(StatusCode::OK, "ok")
}

/// Answers `/metrics/slis`: the result of each health check, as a gauge.
pub(crate) fn slis(server: &Server) -> Response<Body> {
    let mut checks = [&CHECKS[..], &READY_CHECKS[..]].concat();
    checks.sort_unstable();
    let mut text =
        "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.\n\
                    # TYPE kubernetes_healthcheck gauge\n"
            .to_owned();
    for check in checks {
        let passes = u8::from(check != "etcd" || server.is_writable());
        text.push_str(&format!("kubernetes_healthcheck{{name=\"{check}\",type=\"readyz\"}} {passes}\n"));
    }
    respond::bytes(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", text)
}

fn single(text: &'static str) -> Response<Body> {
    let mut response = respond::text(StatusCode::OK, text);
    response.headers_mut().remove("x-content-type-options");
    response
}
