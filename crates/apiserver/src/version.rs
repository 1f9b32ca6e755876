//! `/version`.

use http::{Response, StatusCode};
use serde_json::json;

use crate::body::Body;
use crate::respond;

/// The Kubernetes version whose API this is.
pub const VERSION: &str = "v1.37.0";

/// Answers `/version`.
pub(crate) fn version() -> Response<Body> {
    let info = json!({
        "major": "1", "minor": "37", "emulationMajor": "1", "emulationMinor": "37",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "36",
        "gitVersion": VERSION, "gitCommit": concat!("setpoint-", env!("CARGO_PKG_VERSION")),
        "gitTreeState": "clean", "buildDate": "2026-11-15T00:00:00Z", "goVersion": "none",
        "compiler": "rustc", "platform": concat!("linux/", "amd64"),
    });
    let compact = serde_json::to_vec(&info).expect("a value is always JSON");
    respond::bytes(StatusCode::OK, "application/json", crate::object::indented(&compact))
}
