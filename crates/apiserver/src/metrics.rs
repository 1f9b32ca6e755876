//! `/metrics`, with the names that dashboards of kube-apiserver know.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use http::StatusCode;

use crate::request::RequestInfo;

/// Upper bounds of the duration histogram, in seconds.
const BUCKETS: [f64; 17] =
    [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 15.0, 60.0];

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Series {
    verb: &'static str,
    group: Box<str>,
    version: Box<str>,
    resource: Box<str>,
    subresource: Box<str>,
    scope: &'static str,
}

/// An idle cluster has a hundred of these, most with one status and one bucket: both grow on demand.
#[derive(Default)]
struct Tally {
    codes: Vec<(u16, u64)>,
    /// How many took longer than the bound before and no longer than this one; up to the slowest that there was.
    buckets: Vec<u64>,
    count: u64,
    sum: f64,
}

impl Tally {
    fn add(&mut self, code: u16, seconds: f64) {
        match self.codes.binary_search_by_key(&code, |(code, _)| *code) {
            Ok(at) => self.codes[at].1 += 1,
            Err(at) => self.codes.insert(at, (code, 1)),
        }
        self.count += 1;
        self.sum += seconds;
        let Some(bucket) = BUCKETS.iter().position(|bound| seconds <= *bound) else { return };
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
    }

    /// How many took no longer than each bound.
    fn cumulative(&self) -> impl Iterator<Item = (u64, f64)> {
        let own = self.buckets.iter().copied().chain(std::iter::repeat(0));
        let sums = own.scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        sums.zip(BUCKETS)
    }
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
    let known = |text: &str| Box::from(if found { text } else { "" });
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
        let mut tallies = self.tallies.lock().expect("no holder of this lock panics");
        tallies.entry(series).or_default().add(status.as_u16(), took.as_secs_f64());
    }

    /// The text of `/metrics`, with the store's revision and the bytes of protobuf messages that are kept.
    pub(crate) fn text(&self, revision: u64, kept: usize) -> String {
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
            for (count, bound) in tally.cumulative() {
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
        let _ = writeln!(out, "# TYPE setpoint_store_revision gauge\nsetpoint_store_revision {revision}");
        let _ = writeln!(
            out,
            "# HELP setpoint_protobuf_kept_bytes Protobuf messages kept with stored objects.\n\
             # TYPE setpoint_protobuf_kept_bytes gauge\nsetpoint_protobuf_kept_bytes {kept}"
        );
        out
    }
}

fn labels(series: &Series) -> String {
    let Series { verb, group, version, resource, subresource, scope } = series;
    format!(
        "component=\"apiserver\",group=\"{group}\",resource=\"{resource}\",scope=\"{scope}\",\
         subresource=\"{subresource}\",verb=\"{verb}\",version=\"{version}\""
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_count_what_took_no_longer() {
        let mut tally = Tally::default();
        for (code, seconds) in [(200, 0.001), (409, 0.03), (200, 0.025), (200, 100.0)] {
            tally.add(code, seconds);
        }
        assert_eq!(tally.codes, [(200, 3), (409, 1)]);
        let told: Vec<(u64, f64)> = tally.cumulative().collect();
        assert_eq!(told[..3], [(1, 0.005), (2, 0.025), (3, 0.05)]);
        assert_eq!((told.len(), told[16]), (BUCKETS.len(), (3, 60.0)));
        assert_eq!(tally.count, 4);
    }
}
