//! `/statusz`: since when the server runs and what it is, for people and, if they ask for it by name, for programs.

use http::{HeaderMap, Response, StatusCode};
use serde_json::json;

use crate::body::Body;
use crate::error::{ApiError, Result};
use crate::header::lossy;
use crate::negotiate::{JSON, YAML, accept_clauses};
use crate::respond;
use crate::server::Server;
use crate::version::VERSION;

const TEXT: &str = "text/plain";
const STRUCTURED: &str = "application/json;g=config.k8s.io;v=v1beta1;as=Statusz";
const PATHS: [&str; 6] = ["/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version"];

/// Answers `/statusz`.
pub(crate) fn statusz(server: &Server, headers: &HeaderMap) -> Result<Response<Body>> {
    let accept = headers.get(http::header::ACCEPT).map_or("*/*".into(), lossy);
    for clause in accept_clauses(&accept) {
        let named = |key: &str, value: &str| clause.parameter(key) == Some(value);
        match (clause.kind, clause.subtype) {
            ("*", "*") | ("text", "plain" | "*") => return Ok(respond::text(StatusCode::OK, text(server))),
            ("application", "json")
                if named("as", "Statusz") && named("g", "config.k8s.io") && named("v", "v1beta1") =>
            {
                return Ok(respond::bytes(StatusCode::OK, STRUCTURED, structured(server)));
            }
            _ => {}
        }
    }
    Err(ApiError::not_acceptable(&[JSON, YAML, TEXT]))
}

fn up_seconds(server: &Server) -> i64 {
    (server.options().clock.now().as_second() - server.0.started.as_second()).max(0)
}

fn text(server: &Server) -> String {
    let up = up_seconds(server);
    let started = server.0.started.to_zoned(jiff::tz::TimeZone::UTC).strftime("%a %b %e %H:%M:%S UTC %Y");
    format!(
        "\napiserver statusz\nWarning: This endpoint is not meant to be machine parseable, has no formatting \
         compatibility guarantees and is for debugging purposes only.\n\nStarted: {started}\nUp: {} hr {:02} min {:02} \
         sec\nGo version: none\nBinary version: {}\nEmulation version: 1.37\nPaths: {}\n",
        up / 3600,
        up / 60 % 60,
        up % 60,
        VERSION.trim_start_matches('v'),
        PATHS.join(" ")
    )
}

fn structured(server: &Server) -> Vec<u8> {
    let mut out = crate::object::ordered(&json!({
        "kind": "Statusz", "apiVersion": "config.k8s.io/v1beta1", "metadata": {"name": "apiserver"},
        "startTime": setpoint_api::clock::rfc3339_seconds(server.0.started), "uptimeSeconds": up_seconds(server),
        "goVersion": "none", "binaryVersion": VERSION.trim_start_matches('v'), "emulationVersion": "1.37",
        "paths": PATHS,
    }));
    out.push(b'\n');
    out
}
