//! `/metrics`, with the names that dashboards of kube-apiserver know.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use http::{Response, StatusCode};

use crate::request::RequestInfo;
use crate::respond;
use crate::server::{Body, Server};

/// Upper bounds of the duration histogram, in seconds.
const BUCKETS: [f64; 17] =
    [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 15.0, 60.0];

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Series {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
}

#[derive(Default)]
struct Tally {
    codes: BTreeMap<u16, u64>,
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum: f64,
}

/// Counts of what was asked and how it went. One row a verb and resource: bounded by what is served.
#[derive(Default)]
pub(crate) struct Metrics {
    tallies: Mutex<BTreeMap<Series, Tally>>,
    mutating: AtomicI64,
    reading: AtomicI64,
}

/// A request under way.
pub(crate) struct InFlight<'a>(&'a AtomicI64);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Unknown verbs and resources share a row, so that nobody can make rows without end.
fn series(info: &RequestInfo, found: bool) -> Series {
    let verb = match info.verb.as_str() {
        "get" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" | "post" => "POST",
        "update" | "put" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        _ => "OTHER",
    };
    let scope = match (info.is_resource, info.name.is_empty(), info.namespace.is_empty()) {
        (false, ..) => "",
        (true, false, _) => "resource",
        (true, true, false) => "namespace",
        (true, true, true) => "cluster",
    };
    let known = |text: &str| if found { text.to_owned() } else { String::new() };
    Series {
        verb,
        group: known(&info.group),
        version: known(&info.version),
        resource: known(&info.resource),
        subresource: known(&info.subresource),
        scope,
    }
}

impl Metrics {
    /// Counts a request as under way until the answer is dropped.
    pub(crate) fn enter(&self, info: &RequestInfo) -> InFlight<'_> {
        let gauge = if info.mutates() { &self.mutating } else { &self.reading };
        gauge.fetch_add(1, Ordering::Relaxed);
        InFlight(gauge)
    }

    /// Counts an answer; `served` says whether the resource is one that is served.
    pub(crate) fn record(&self, info: &RequestInfo, served: bool, status: StatusCode, took: Duration) {
        let series = series(info, served);
        let seconds = took.as_secs_f64();
        let mut tallies = self.tallies.lock().expect("no holder of this lock panics");
        let tally = tallies.entry(series).or_default();
        *tally.codes.entry(status.as_u16()).or_default() += 1;
        tally.count += 1;
        tally.sum += seconds;
        for (bucket, bound) in tally.buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(seconds <= bound);
        }
    }

    /// Answers `/metrics`.
    pub(crate) fn text(&self, server: &Server) -> Response<Body> {
        let mut out = String::new();
        let tallies = self.tallies.lock().expect("no holder of this lock panics");
        out.push_str("# HELP apiserver_request_total Requests by verb, resource, scope and HTTP status.\n# TYPE apiserver_request_total counter\n");
        for (series, tally) in tallies.iter() {
            for (code, count) in &tally.codes {
                let labels = labels(series);
                let _ =
                    writeln!(out, "apiserver_request_total{{code=\"{code}\",dry_run=\"\",{labels}}} {count}");
            }
        }
        out.push_str("# HELP apiserver_request_duration_seconds Time from request to answer, in seconds.\n# TYPE apiserver_request_duration_seconds histogram\n");
        for (series, tally) in tallies.iter() {
            let labels = labels(series);
            for (count, bound) in tally.buckets.iter().zip(BUCKETS) {
                let _ = writeln!(
                    out,
                    "apiserver_request_duration_seconds_bucket{{dry_run=\"\",{labels},le=\"{bound}\"}} {count}"
                );
            }
            let count = tally.count;
            let _ = writeln!(
                out,
                "apiserver_request_duration_seconds_bucket{{dry_run=\"\",{labels},le=\"+Inf\"}} {count}"
            );
            let _ = writeln!(
                out,
                "apiserver_request_duration_seconds_sum{{dry_run=\"\",{labels}}} {}",
                tally.sum
            );
            let _ =
                writeln!(out, "apiserver_request_duration_seconds_count{{dry_run=\"\",{labels}}} {count}");
        }
        out.push_str("# HELP apiserver_current_inflight_requests Requests under way.\n# TYPE apiserver_current_inflight_requests gauge\n");
        for (kind, gauge) in [("mutating", &self.mutating), ("readOnly", &self.reading)] {
            let value = gauge.load(Ordering::Relaxed);
            let _ = writeln!(out, "apiserver_current_inflight_requests{{request_kind=\"{kind}\"}} {value}");
        }
        let revision = server.store().revision();
        let _ = writeln!(out, "# TYPE setpoint_store_revision gauge\nsetpoint_store_revision {revision}");
        respond::bytes(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", out)
    }
}

fn labels(series: &Series) -> String {
    let Series { verb, group, version, resource, subresource, scope } = series;
    format!(
        "component=\"apiserver\",group=\"{group}\",resource=\"{resource}\",scope=\"{scope}\",\
         subresource=\"{subresource}\",verb=\"{verb}\",version=\"{version}\""
    )
}
