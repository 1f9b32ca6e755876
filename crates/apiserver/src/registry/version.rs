//! The order of versions, and the hash of the one that objects are stored in.

/// Stable versions before beta before alpha, then larger numbers first; others last, by name.
pub(crate) fn version_order(version: &str) -> (u8, u32, u32, std::cmp::Reverse<String>) {
    let other = (0, 0, 0, std::cmp::Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else { return other };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let Ok(major) = rest[..digits].parse::<u32>() else { return other };
    let minor = |text: &str| text.parse::<u32>().ok();
    let none = std::cmp::Reverse(String::new());
    match &rest[digits..] {
        "" => (3, major, 0, none),
        tail => match (tail.strip_prefix("beta").and_then(minor), tail.strip_prefix("alpha").and_then(minor))
        {
            (Some(number), _) => (2, major, number, none),
            (_, Some(number)) => (1, major, number, none),
            _ => other,
        },
    }
}

/// Discovery's hash of the version that objects are stored in.
pub(crate) fn storage_hash(group: &str, version: &str, kind: &str) -> String {
    use base64::Engine;
    let text = format!("{group}/{version}/{kind}");
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(&digest.as_ref()[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_order_as_kubernetes_orders_them() {
        let mut versions = ["v1", "foo", "v2beta1", "v10", "v1alpha2", "v2", "v11beta2", "bar"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_order(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v11beta2", "v2beta1", "v1alpha2", "bar", "foo"]);
    }
}
