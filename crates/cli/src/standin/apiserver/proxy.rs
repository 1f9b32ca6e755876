//! `--requestheader-*`: the front proxy.

use std::path::Path;

use anyhow::{Context, Result, bail};
use setpoint_apiserver::pki::share_a_certificate;
use setpoint_cluster::FrontProxy;

use super::flags::Flags;

/// Returns the trusted proxy, if the flags name the authority of its certificate, and warnings.
pub fn front_proxy(flags: &Flags) -> Result<(Option<FrontProxy>, Vec<String>)> {
    let warnings = check(flags)?;
    let Some(path) = &flags.requestheader_client_ca_file else { return Ok((None, warnings)) };
    let authority = read(path)?;
    if flags.requestheader_allowed_names.is_empty()
        && let Some(clients) = &flags.client_ca_file
        && share_a_certificate(&authority, &read(clients)?)?
    {
        bail!(
            "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; \
             --requestheader-allowed-names must be specified to ensure regular client certificates cannot set \
             authenticating proxy headers for arbitrary users"
        );
    }
    let proxy = FrontProxy {
        authority,
        allowed_names: flags.requestheader_allowed_names.clone(),
        username_headers: flags.requestheader_username_headers.clone(),
        uid_headers: flags.requestheader_uid_headers.clone(),
        group_headers: flags.requestheader_group_headers.clone(),
        extra_header_prefixes: flags.requestheader_extra_headers_prefix.clone(),
    };
    Ok((Some(proxy), warnings))
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// kube-apiserver's rules for the headers' names.
fn check(flags: &Flags) -> Result<Vec<String>> {
    let users = &flags.requestheader_username_headers;
    let groups = &flags.requestheader_group_headers;
    let extra = &flags.requestheader_extra_headers_prefix;
    let uids = &flags.requestheader_uid_headers;
    let allowed = &flags.requestheader_allowed_names;
    for (flag, values) in [
        ("requestheader-username-headers", users),
        ("requestheader-group-headers", groups),
        ("requestheader-extra-headers-prefix", extra),
        ("requestheader-allowed-names", allowed),
        ("requestheader-uid-headers", uids),
    ] {
        if values.iter().any(|value| value.trim().is_empty()) {
            bail!("empty value in {flag:?}");
        }
    }
    let lacks = |values: &[String], standard: &str| {
        !values.is_empty() && !values.iter().any(|value| value.eq_ignore_ascii_case(standard))
    };
    if lacks(uids, "X-Remote-Uid") {
        bail!(
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation \
             will not work"
        );
    }
    let mut warnings = Vec::new();
    for (flag, values, standard, what) in [
        ("requestheader-username-headers", users, "X-Remote-User", "header"),
        ("requestheader-group-headers", groups, "X-Remote-Group", "header"),
        ("requestheader-extra-headers-prefix", extra, "X-Remote-Extra-", "header prefix"),
    ] {
        if lacks(values, standard) {
            warnings.push(format!(
                "--{flag} is set without specifying the standard {standard} {what} - API aggregation will not work"
            ));
        }
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use setpoint_apiserver::pki::Authority;

    use super::super::flags::parsed;
    use super::*;

    fn refusal(flags: &[&str]) -> String {
        front_proxy(&parsed(flags)).unwrap_err().to_string()
    }

    #[test]
    fn the_flags_become_the_proxy() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let authority = Authority::generate(setpoint::clock::system_clock().now()).unwrap();
            let path = folder.path().join(name);
            std::fs::write(&path, &authority.identity().certificate).unwrap();
            path.display().to_string()
        };
        let (proxies, clients) = (file("proxies"), file("clients"));
        let flags = |authority: &str, names: &str| {
            parsed(&[
                "--requestheader-client-ca-file",
                authority,
                "--client-ca-file",
                &clients,
                "--requestheader-username-headers=X-Remote-User,X-Login",
                "--requestheader-uid-headers=X-Remote-Uid",
                "--requestheader-group-headers=X-Remote-Group",
                "--requestheader-extra-headers-prefix=X-Remote-Extra-",
                &format!("--requestheader-allowed-names={names}"),
            ])
        };
        let (proxy, warnings) = front_proxy(&flags(&proxies, "front,second")).unwrap();
        let proxy = proxy.unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        assert!(proxy.authority.starts_with("-----BEGIN CERTIFICATE-----"));
        assert_eq!(proxy.allowed_names, ["front", "second"]);
        assert_eq!(proxy.username_headers, ["X-Remote-User", "X-Login"]);
        assert_eq!(
            (&proxy.uid_headers[..], &proxy.group_headers[..]),
            (&["X-Remote-Uid".into()][..], &["X-Remote-Group".into()][..])
        );
        assert_eq!(proxy.extra_header_prefixes, ["X-Remote-Extra-"]);
        // With one authority for both, any client could name any user unless the names tell the proxy apart.
        assert!(front_proxy(&flags(&clients, "front")).is_ok());
        let mut open = flags(&clients, "front");
        open.requestheader_allowed_names.clear();
        let said = front_proxy(&open).unwrap_err().to_string();
        assert!(
            said.contains("contain overlapping certificates; --requestheader-allowed-names must be"),
            "{said}"
        );
    }

    #[test]
    fn without_an_authority_the_headers_count_for_nothing() {
        let flags = ["--requestheader-username-headers=X-Remote-User", "--requestheader-allowed-names=front"];
        assert!(front_proxy(&parsed(&flags)).unwrap().0.is_none());
    }

    /// Answers of kube-apiserver 1.37.
    #[test]
    fn names_that_no_header_has_stop_the_start() {
        let blank = "empty value in \"requestheader-username-headers\"";
        assert_eq!(refusal(&["--requestheader-username-headers=X-Remote-User,"]), blank);
        let blank = "empty value in \"requestheader-allowed-names\"";
        assert_eq!(refusal(&["--requestheader-allowed-names= "]), blank);
        let said = refusal(&["--requestheader-uid-headers=X-Id"]);
        assert!(said.contains("without specifying the standard X-Remote-Uid header"), "{said}");
        let (_, warnings) = front_proxy(&parsed(&["--requestheader-username-headers=X-Login"])).unwrap();
        assert!(warnings[0].contains("without specifying the standard X-Remote-User header"), "{warnings:?}");
    }
}
