//! The names in the texts of the template, and the names that replace them.

use crate::names::{ApiGroup, ApiVersion, KindName, OperatorName, Plural};

/// A custom resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomResource {
    /// The kind.
    pub kind: KindName,
    /// The API group.
    pub group: ApiGroup,
    /// The stored version.
    pub version: ApiVersion,
    /// The resource name.
    pub plural: Plural,
}

/// Replacements of the names in the template.
#[derive(Clone, Debug)]
pub struct Words(Vec<(&'static str, String)>);

impl Words {
    /// The names of an operator and of one of its kinds.
    pub fn of(operator: &OperatorName, resource: &CustomResource) -> Words {
        let CustomResource { kind, group, version, plural } = resource;
        // A name that another one begins with stands after that one.
        Words(vec![
            ("template-operator", operator.to_string()),
            ("template_operator", operator.crate_name()),
            ("StaticSite", kind.to_string()),
            ("staticsites", plural.to_string()),
            ("static_site", kind.module()),
            ("static-site", kind.dashed()),
            ("group.example/v1", format!("{group}/{version}")),
            ("group.example", group.to_string()),
            ("\"v1\"", format!("\"{version}\"")),
        ])
    }

    /// Returns a text of the template with the new names. A new name is not searched for further names.
    pub fn fill(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let found = self.0.iter().find(|(name, _)| rest.starts_with(name));
            let taken = match found {
                Some((name, new)) => {
                    filled.push_str(new);
                    name.len()
                }
                None => {
                    filled.push(next);
                    next.len_utf8()
                }
            };
            rest = &rest[taken..];
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_replaced_once() {
        let resource = CustomResource {
            kind: "DNSRecord".parse().unwrap(),
            group: "dns.example.org".parse().unwrap(),
            version: "v1alpha1".parse().unwrap(),
            plural: "dnsrecords".parse().unwrap(),
        };
        // This name has a name of the template in it.
        let words = Words::of(&"static-site".parse().unwrap(), &resource);
        let text = "template-operator template_operator StaticSiteSpec staticsites/status static_site::x a-static-site \
                    group.example/v1 group.example/static-site version = \"v1\", v1beta1 ü";
        assert_eq!(
            words.fill(text),
            "static-site static_site DNSRecordSpec dnsrecords/status dns_record::x a-dns-record \
             dns.example.org/v1alpha1 dns.example.org/dns-record version = \"v1alpha1\", v1beta1 ü"
        );
    }
}
