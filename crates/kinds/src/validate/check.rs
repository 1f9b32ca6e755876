//! The checks that many fields share.

use std::net::IpAddr;

use serde_json::Value;

use crate::access::at;
use crate::strategy::semantically_equal;
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name;

use super::meta::IMMUTABLE;

/// The causes found so far, and what the cluster forbids.
#[derive(Default)]
pub(super) struct Causes(pub(super) Vec<Cause>, Policy);

/// The rules that an administrator sets for the whole cluster. The default allows everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policy {
    /// Whether privileged containers are refused.
    pub forbids_privileged: bool,
}

impl Causes {
    /// No cause yet.
    pub(super) fn under(policy: Policy) -> Self {
        Causes(Vec::new(), policy)
    }

    /// Returns the rules of the cluster.
    pub(super) fn policy(&self) -> Policy {
        self.1
    }

    pub(super) fn push(&mut self, cause: Cause) {
        self.0.push(cause);
    }

    pub(super) fn extend(&mut self, causes: impl IntoIterator<Item = Cause>) {
        self.0.extend(causes);
    }

    pub(super) fn required(&mut self, path: &Path, detail: &str) {
        self.push(Cause::required(path, detail));
    }

    pub(super) fn forbidden(&mut self, path: &Path, detail: &str) {
        self.push(Cause::forbidden(path, detail));
    }

    pub(super) fn invalid(&mut self, path: &Path, value: impl Into<BadValue>, detail: &str) {
        self.push(Cause::invalid(path, value, detail));
    }

    /// One cause for each thing that is wrong with a text.
    pub(super) fn wrong(&mut self, path: &Path, value: &str, wrong: &[String]) {
        self.extend(wrong.iter().map(|one| Cause::invalid(path, value, one)));
    }

    /// One cause for each thing that is wrong with a number.
    pub(super) fn wrong_number(&mut self, path: &Path, value: i64, wrong: &[String]) {
        self.extend(wrong.iter().map(|one| Cause::invalid(path, value, one)));
    }

    /// A text that must be there and satisfy a rule.
    pub(super) fn named(&mut self, path: &Path, value: &str, rule: fn(&str) -> Vec<String>) {
        if value.is_empty() {
            self.required(path, "");
        } else {
            self.wrong(path, value, &rule(value));
        }
    }

    /// A text that must be one of these.
    pub(super) fn one_of(&mut self, path: &Path, value: &str, allowed: &[&str]) {
        if !allowed.contains(&value) {
            self.push(Cause::not_supported(path, value, allowed));
        }
    }

    /// A text that must be there and be one of these.
    pub(super) fn required_one_of(&mut self, path: &Path, value: &str, allowed: &[&str]) {
        if value.is_empty() { self.required(path, "") } else { self.one_of(path, value, allowed) }
    }

    /// A number that may not be negative.
    pub(super) fn non_negative(&mut self, path: &Path, value: Option<i64>) {
        if let Some(value) = value.filter(|value| *value < 0) {
            self.invalid(path, value, NOT_NEGATIVE);
        }
    }

    /// A field that may not change; `shown` is how the new value is shown.
    pub(super) fn immutable(&mut self, new: &Value, old: &Value, at_path: &str, shown: impl Into<BadValue>) {
        if !semantically_equal(at(new, at_path), at(old, at_path)) {
            self.invalid(&Path::new(at_path), shown, IMMUTABLE);
        }
    }

    /// A number or percentage that may not be negative.
    pub(super) fn positive_int_or_percent(&mut self, path: &Path, value: &Value) {
        match value {
            Value::String(percent) => self.wrong(path, percent, &name::percent(percent)),
            Value::Number(number) => self.non_negative(path, number.as_i64()),
            _ => {}
        }
    }

    /// A percentage of at most a hundred.
    pub(super) fn at_most_hundred_percent(&mut self, path: &Path, value: &Value) {
        let over = value
            .as_str()
            .and_then(|text| text.strip_suffix('%'))
            .and_then(|digits| digits.parse::<i64>().ok())
            .is_some_and(|percent| percent > 100);
        if over {
            self.invalid(path, value, "must not be greater than 100%");
        }
    }

    /// A port by number or name.
    pub(super) fn port_or_name(&mut self, path: &Path, port: &Value) {
        match port {
            Value::String(name) => self.wrong(path, name, &name::port_name(name)),
            port => {
                let number = port.as_i64().unwrap_or_default();
                self.wrong_number(path, number, &name::port_number(number));
            }
        }
    }

    /// An address. One program takes `::ffff:127.0.0.1` for an IPv4 address and the next does not, so nobody may use it.
    pub(super) fn ip(&mut self, path: &Path, value: &str) {
        match value.parse::<IpAddr>() {
            Err(_) => self.invalid(path, value, BAD_IP),
            Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => self.invalid(path, value, MAPPED_IP),
            Ok(_) => {}
        }
    }

    /// A network.
    pub(super) fn cidr(&mut self, path: &Path, value: &str) {
        if parse_cidr(value).is_none() {
            self.invalid(path, value, BAD_CIDR);
        }
    }
}

pub(super) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
pub(super) const BAD_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
pub(super) const MAPPED_IP: &str = "must not be an IPv4-mapped IPv6 address";
pub(super) const BAD_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// Address and length of a network; none if the text is not one.
pub(super) fn parse_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, length) = text.split_once('/')?;
    let ip: IpAddr = ip.parse().ok()?;
    let length: u8 = length.parse().ok()?;
    (length <= if ip.is_ipv4() { 32 } else { 128 }).then_some((ip, length))
}

/// Addresses that no endpoint may have.
pub(super) fn special_ip(ip: IpAddr) -> Option<&'static str> {
    // Go asks these questions of the IPv4 address that a mapped one stands for.
    match ip.to_canonical() {
        ip if ip.is_unspecified() => Some("may not be unspecified (0.0.0.0 or ::)"),
        ip if ip.is_loopback() => Some("may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        IpAddr::V4(ip) if ip.is_link_local() => {
            Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
        }
        IpAddr::V6(ip) if (ip.segments()[0] & 0xffc0) == 0xfe80 => {
            Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
        }
        IpAddr::V4(ip) if ip.octets()[..3] == [224, 0, 0] => {
            Some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
        }
        _ => None,
    }
}

/// A relative path without steps back.
pub(super) fn descending_path(causes: &mut Causes, path: &Path, value: &str) {
    if value.starts_with('/') {
        causes.invalid(path, value, "must be a relative path");
    }
    no_backsteps(causes, path, value);
}

/// A path without steps back.
pub(super) fn no_backsteps(causes: &mut Causes, path: &Path, value: &str) {
    if value.split('/').any(|part| part == "..") {
        causes.invalid(path, value, "must not contain '..'");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_address_is_as_special_as_its_ipv4_address() {
        for (ip, special) in [
            ("::ffff:127.0.0.1", true),
            ("::ffff:169.254.169.254", true),
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:10.0.0.1", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(special_ip(ip.parse().unwrap()).is_some(), special, "{ip}");
        }
    }
}
