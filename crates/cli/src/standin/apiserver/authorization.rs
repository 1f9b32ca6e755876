//! `--authorization-mode`: the chain of authorizers.

use anyhow::{Result, bail};
use setpoint_cluster::Authorization;

use super::flags::Flags;

/// Returns the authorizers in their order. Refuses values that kube-apiserver refuses, in its words, and modes that
/// are not implemented here: leaving out an authorizer would change decisions.
pub fn authorizers(flags: &Flags) -> Result<Vec<Authorization>> {
    let modes = &flags.authorization_mode;
    if modes.is_empty() {
        check_file(flags, &[])?;
        return Ok(vec![Authorization::AlwaysAllow]);
    }
    let mut chain = Vec::new();
    for mode in modes {
        let authorizer = match mode.as_str() {
            "AlwaysAllow" => Authorization::AlwaysAllow,
            "AlwaysDeny" => Authorization::AlwaysDeny,
            "Node" => Authorization::Node,
            "RBAC" => Authorization::Rbac,
            "Webhook" if flags.authorization_webhook_config_file.is_none() => {
                bail!("authorization-mode Webhook's authorization config file not passed")
            }
            "Webhook" => Authorization::Webhook,
            "ABAC" => bail!("authorization-mode ABAC is not implemented in Setpoint: use RBAC"),
            _ => bail!("authorization-mode {mode:?} is not a valid mode"),
        };
        if chain.contains(&authorizer) {
            let modes: Vec<String> = modes.iter().map(|mode| format!("{mode:?}")).collect();
            bail!("authorization-mode [{}] has mode specified more than once", modes.join(" "));
        }
        chain.push(authorizer);
    }
    check_file(flags, &chain)?;
    Ok(chain)
}

fn check_file(flags: &Flags, chain: &[Authorization]) -> Result<()> {
    if flags.authorization_webhook_config_file.is_some() && !chain.contains(&Authorization::Webhook) {
        bail!("cannot specify --authorization-webhook-config-file without mode Webhook");
    }
    Ok(())
}

/// Returns warnings about unexpected consequences of the chain.
pub fn warnings(flags: &Flags, chain: &[Authorization]) -> Vec<String> {
    let mut warnings = Vec::new();
    if chain.contains(&Authorization::AlwaysAllow) && flags.anonymous_auth {
        warnings.push(
            "AnonymousAuth is not allowed with the AlwaysAllow authorizer. Resetting AnonymousAuth to false. You should \
             use a different authorizer"
                .to_owned(),
        );
    }
    if chain.contains(&Authorization::Node) {
        warnings.push("the Node authorizer is not implemented in Setpoint: it allows nothing".to_owned());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use Authorization::{AlwaysAllow, AlwaysDeny, Node, Rbac, Webhook};

    use super::super::flags::parsed;
    use super::*;

    fn chain(flags: &[&str]) -> Result<Vec<Authorization>, String> {
        authorizers(&parsed(flags)).map_err(|error| error.to_string())
    }

    #[test]
    fn modes_are_a_chain_in_their_order() {
        assert_eq!(chain(&[]), Ok(vec![AlwaysAllow]));
        assert_eq!(chain(&["--authorization-mode=RBAC"]), Ok(vec![Rbac]));
        assert_eq!(chain(&["--authorization-mode=AlwaysDeny"]), Ok(vec![AlwaysDeny]));
        assert_eq!(chain(&["--authorization-mode=Node,RBAC"]), Ok(vec![Node, Rbac]));
        let twice = ["--authorization-mode=RBAC", "--authorization-mode=AlwaysAllow"];
        assert_eq!(chain(&twice), Ok(vec![Rbac, AlwaysAllow]));
        let webhook = ["--authorization-mode=Webhook,RBAC", "--authorization-webhook-config-file=x"];
        assert_eq!(chain(&webhook), Ok(vec![Webhook, Rbac]));
    }

    /// Answers of kube-apiserver 1.37, except for modes that are not implemented here, and for an empty value, which
    /// it takes for AlwaysAllow.
    #[test]
    fn a_chain_that_cannot_be_honoured_stops_the_start() {
        for (flags, words) in [
            (&["--authorization-mode=Nope"][..], "authorization-mode \"Nope\" is not a valid mode"),
            (&["--authorization-mode=RBAC,rbac"], "authorization-mode \"rbac\" is not a valid mode"),
            (
                &["--authorization-mode=RBAC,RBAC"],
                "authorization-mode [\"RBAC\" \"RBAC\"] has mode specified more than once",
            ),
            (
                &["--authorization-mode=Webhook"],
                "authorization-mode Webhook's authorization config file not passed",
            ),
            (
                &["--authorization-mode=RBAC", "--authorization-webhook-config-file=x"],
                "cannot specify --authorization-webhook-config-file without mode Webhook",
            ),
            (
                &["--authorization-mode=ABAC"],
                "authorization-mode ABAC is not implemented in Setpoint: use RBAC",
            ),
            (&["--authorization-mode="], "authorization-mode \"\" is not a valid mode"),
        ] {
            assert_eq!(chain(flags), Err(words.to_owned()), "{flags:?}");
        }
    }
}
