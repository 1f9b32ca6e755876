//! Flags that bound requests and the store, under the names of kube-apiserver and etcd.

use std::time::Duration;

use anyhow::{Result, ensure};
use setpoint_apiserver::DurationError;
use setpoint_cluster::RequestLimits;

/// The flags of request limits.
#[derive(clap::Args, Clone, Debug)]
pub struct RequestFlags {
    /// Number of reads in flight. The server answers further ones with 429. 0 sets no limit.
    #[arg(long, value_name = "N", default_value_t = 400, allow_negative_numbers = true)]
    max_requests_inflight: i64,
    /// Number of mutating requests in flight. The server answers further ones with 429. 0 sets no limit.
    #[arg(long, value_name = "N", default_value_t = 200, allow_negative_numbers = true)]
    max_mutating_requests_inflight: i64,
    /// Time limit of a request that is not long-running. A client may ask for less.
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = GoDuration::parse,
        allow_hyphen_values = true)]
    request_timeout: GoDuration,
}

impl RequestFlags {
    /// The limits that the flags ask for.
    ///
    /// # Errors
    /// A value is out of range. The words are kube-apiserver's, except for a timeout of 0, which that takes.
    pub fn limits(&self) -> Result<RequestLimits> {
        let most = |flag: &str, value: i64| match usize::try_from(value) {
            Ok(0) => Ok(usize::MAX),
            Ok(most) => Ok(most),
            Err(_) => Err(anyhow::anyhow!("--{flag} can not be negative value")),
        };
        let reads = most("max-requests-inflight", self.max_requests_inflight)?;
        let writes = most("max-mutating-requests-inflight", self.max_mutating_requests_inflight)?;
        ensure!(
            self.max_requests_inflight > 0 || self.max_mutating_requests_inflight > 0,
            "invalid configuration: MaxRequestsInFlight=0 and MaxMutatingRequestsInFlight=0; they must add up to \
             something positive"
        );
        let Some(timeout) = self.request_timeout.0 else {
            anyhow::bail!("--request-timeout can not be negative value");
        };
        // kube-apiserver starts with 0, and then every request times out.
        ensure!(!timeout.is_zero(), "--request-timeout must be longer than 0");
        Ok(RequestLimits { timeout, reads, writes })
    }
}

/// A duration as Go writes it (`1m30s`). It has no value if it is negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoDuration(pub Option<Duration>);

impl GoDuration {
    /// Reads a duration. The error is Go's.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        setpoint_apiserver::go_duration(text).map(GoDuration)
    }
}

/// The quota that a value of `--quota-backend-bytes` asks for, as etcd reads it: 0 is the default, and a negative value
/// sets no quota.
pub fn quota(bytes: i64) -> Option<u64> {
    (bytes != 0).then(|| u64::try_from(bytes).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser, Debug)]
    struct Program {
        #[command(flatten)]
        requests: RequestFlags,
    }

    fn limits(flags: &[&str]) -> Result<RequestLimits, String> {
        let parsed = Program::try_parse_from([&["x"], flags].concat()).map_err(|error| error.to_string())?;
        parsed.requests.limits().map_err(|error| error.to_string())
    }

    #[test]
    fn limits_of_requests_are_read_as_kube_apiserver_reads_them() {
        assert_eq!(limits(&[]), Ok(RequestLimits::default()));
        let flags =
            ["--max-requests-inflight=7", "--max-mutating-requests-inflight=0", "--request-timeout=1m30s"];
        let expected = RequestLimits { timeout: Duration::from_secs(90), reads: 7, writes: usize::MAX };
        assert_eq!(limits(&flags), Ok(expected));
        for flag in ["max-requests-inflight", "max-mutating-requests-inflight"] {
            let refused = Err(format!("--{flag} can not be negative value"));
            assert_eq!(limits(&[&format!("--{flag}=-1")]), refused);
        }
        assert_eq!(
            limits(&["--request-timeout=-1s"]),
            Err("--request-timeout can not be negative value".to_owned())
        );
        assert!(limits(&["--request-timeout=0"]).is_err());
        let both = limits(&["--max-requests-inflight=0", "--max-mutating-requests-inflight=0"]).unwrap_err();
        assert!(both.ends_with("they must add up to something positive"), "{both}");
        let refused = limits(&["--request-timeout=30"]).unwrap_err();
        assert!(refused.contains("time: missing unit in duration \"30\""), "{refused}");
    }

    #[test]
    fn a_quota_is_read_as_etcd_reads_it() {
        assert_eq!([quota(0), quota(5), quota(-1)], [None, Some(5), Some(u64::MAX)]);
    }
}
