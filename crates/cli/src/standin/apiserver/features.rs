//! `--feature-gates` and `--runtime-config`.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};

use super::flags::Flags;
use super::table::go_bool;

const TABLE: &str = include_str!("features.txt");

/// A feature gate of kube-apiserver.
struct Gate {
    default: bool,
    locked: bool,
    /// The position here of a gate that guards something.
    stands: Option<bool>,
}

/// Refuses gates that kube-apiserver refuses, in its words, and gates whose protection is not implemented. Returns a
/// warning for each gate that has no effect here.
pub fn check(flags: &Flags) -> Result<Vec<String>> {
    let known = table();
    let mut warnings = Vec::new();
    for pair in flags.feature_gates.iter().filter(|pair| !pair.is_empty()) {
        let (name, value) = pair_of(pair)?;
        let gate = known.get(name).ok_or_else(|| anyhow!("unrecognized feature gate: {name}"))?;
        if gate.locked && value != gate.default {
            bail!("cannot set feature gate {name} to {value}, feature is locked to {}", gate.default);
        }
        if gate.stands.is_some_and(|stands| stands != value) {
            bail!("feature-gates: Setpoint cannot honour {name}={value}: leave it out to start without it");
        }
        if value != gate.default {
            warnings.push(format!("feature gate {name}={value} has no effect in Setpoint"));
        }
    }
    Ok(warnings)
}

fn table() -> BTreeMap<&'static str, Gate> {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    rows.filter_map(|line| {
        let mut words = line.split(' ');
        let name = words.next()?;
        let default = words.next()? == "on";
        let locked = words.next()? == "locked";
        let stands = match words.next()? {
            "-" => None,
            stands => Some(stands == "on"),
        };
        Some((name, Gate { default, locked, stands }))
    })
    .collect()
}

fn pair_of(pair: &str) -> Result<(&str, bool)> {
    let (name, value) = match pair.split_once('=') {
        Some((name, value)) => (name.trim(), Some(value.trim())),
        None => (pair.trim(), None),
    };
    let name = match name.split_once(':') {
        Some(("kube", name)) => name,
        Some((component, _)) => bail!("component not registered: {component}"),
        None => name,
    };
    let value = value.ok_or_else(|| anyhow!("missing bool value for {name}"))?;
    let parsed = go_bool(value).map_err(|error| anyhow!("invalid value of {name}={value}, err: {error}"))?;
    Ok((name, parsed))
}

/// Refuses to turn an API off, because the server cannot stop serving one. Alpha and beta APIs are off already.
pub fn check_apis(flags: &Flags) -> Result<()> {
    for pair in flags.runtime_config.iter().filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let on = value.is_empty()
            || go_bool(value).map_err(|_| anyhow!("invalid value of --runtime-config: {pair}"))?;
        if !on && !matches!(name, "api/alpha" | "api/beta") {
            bail!("runtime-config: Setpoint cannot turn {name} off: leave it out to start with it");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::flags::parsed;
    use super::*;

    fn gates(value: &str) -> Result<Vec<String>, String> {
        check(&parsed(&[&format!("--feature-gates={value}")])).map_err(|error| error.to_string())
    }

    #[test]
    fn every_row_of_the_table_is_read() {
        let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
        for row in rows.clone() {
            let words: Vec<&str> = row.split(' ').collect();
            assert!(matches!(words[..], [_, "on" | "off", "locked" | "-", "on" | "off" | "-"]), "{row}");
        }
        assert_eq!(rows.count(), table().len());
    }

    #[test]
    fn gates_at_their_default_pass_and_others_warn() {
        assert_eq!(gates("WatchList=true,kube:CBORServingAndStorage=false"), Ok(Vec::new()));
        assert_eq!(gates("RemoteRequestHeaderUID=true"), Ok(Vec::new()));
        let warned = vec!["feature gate WatchList=false has no effect in Setpoint".to_owned()];
        assert_eq!(gates("WatchList=0"), Ok(warned));
        let warned = vec!["feature gate AllBeta=true has no effect in Setpoint".to_owned()];
        assert_eq!(gates("AllBeta=true,AllAlpha=false"), Ok(warned));
    }

    /// Answers of kube-apiserver 1.37.
    #[test]
    fn gates_that_kube_apiserver_refuses_stop_the_start() {
        for (value, words) in [
            ("Nope=true", "unrecognized feature gate: Nope"),
            // kube-apiserver removed the gate some releases after it became stable.
            ("ValidatingAdmissionPolicy=true", "unrecognized feature gate: ValidatingAdmissionPolicy"),
            (
                "ServiceAccountTokenJTI=false",
                "cannot set feature gate ServiceAccountTokenJTI to false, feature is locked to true",
            ),
            ("AllAlpha", "missing bool value for AllAlpha"),
            (
                "AllAlpha=maybe",
                "invalid value of AllAlpha=maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
            ("wardle:Foo=true", "component not registered: wardle"),
        ] {
            assert_eq!(gates(value), Err(words.to_owned()), "{value}");
        }
    }

    #[test]
    fn gates_that_guard_something_are_honoured_or_stop_the_start() {
        for value in [
            "APIServerWebhookAuthenticationToken=true",
            "MutatingAdmissionPolicy=true",
            "AllowServiceExternalIPs=false",
            "RemoteRequestHeaderUID=false",
            "AllAlpha=true",
            "AllBeta=false",
        ] {
            let words =
                format!("feature-gates: Setpoint cannot honour {value}: leave it out to start without it");
            assert_eq!(gates(&format!("WatchList=true,{value}")), Err(words));
        }
    }

    #[test]
    fn an_api_that_is_served_cannot_be_turned_off() {
        let check = |value: &str| check_apis(&parsed(&[&format!("--runtime-config={value}")])).is_ok();
        assert!(check("api/all=true,api/beta=false,apps/v1"));
        assert!(!check("apps/v1=false"));
        assert!(!check("api/all=false"));
        assert!(!check("apps/v1=perhaps"));
    }
}
