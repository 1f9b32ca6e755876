//! Names that people choose, checked before anything is written.

use std::fmt;
use std::str::FromStr;

use crate::error::ScaffoldError;

/// The name of an operator: of its crate, its program, its account and its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorName(String);

/// The kind of a custom resource, such as `Website`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindName(String);

/// The API group of a custom resource, such as `example.org`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiGroup(String);

/// The version of a custom resource, such as `v1` or `v1beta1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiVersion(String);

/// The resource name of a kind, such as `websites`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plural(String);

/// The longest name, with which `NAME-webhooks` is still a DNS label.
const OPERATOR_LENGTH: usize = 63 - "-webhooks".len();
/// The longest kind, with which its plural is still a DNS label.
const KIND_LENGTH: usize = 60;

/// Names of packages that the new crate uses, of Rust's own crates, and of folders that cargo makes.
const TAKEN_PACKAGES: &[&str] = &[
    "setpoint",
    "setpoint-cluster",
    "setpoint-prove",
    "clap",
    "jiff",
    "k8s-openapi",
    "kube",
    "schemars",
    "serde",
    "serde-json",
    "tokio",
    "tracing",
    "tracing-subscriber",
    "alloc",
    "core",
    "proc-macro",
    "std",
    "test",
    "build",
    "deps",
    "examples",
    "incremental",
];

/// Subcommands of `setpoint new`.
const SUBCOMMANDS: &[&str] = &["kind", "webhook", "version", "help"];

/// Names that the sources of a new operator, or Rust's prelude, have already.
const TAKEN_KINDS: &[&str] = &[
    "Action",
    "Allowed",
    "Api",
    "Box",
    "BTreeMap",
    "ClientError",
    "Clone",
    "Cluster",
    "Condition",
    "Conditions",
    "ConfigMap",
    "Context",
    "Controller",
    "Controllers",
    "Conversion",
    "CustomResource",
    "CustomResourceExt",
    "Debug",
    "Default",
    "DeleteParams",
    "Denied",
    "Deserialize",
    "Err",
    "Error",
    "FieldErrors",
    "JsonSchema",
    "Key",
    "Lifecycle",
    "Manager",
    "None",
    "NotFoundExt",
    "ObjectMeta",
    "Ok",
    "Operator",
    "Option",
    "PartialEq",
    "Patch",
    "PatchParams",
    "PostParams",
    "ResourceExt",
    "Result",
    "Review",
    "Rule",
    "Self",
    "Serialize",
    "SetupError",
    "Some",
    "String",
    "Timestamp",
    "Value",
    "Vec",
];

/// Modules that the new crate has already. A kind's module has the kind's name.
const TAKEN_MODULES: &[&str] = &["lib", "main", "webhooks"];

const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "union", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];

fn refused(what: &'static str, value: &str, why: impl Into<String>) -> ScaffoldError {
    ScaffoldError::Name { what, value: value.to_owned(), why: why.into() }
}

/// Whether a text is a DNS label that begins with a letter.
fn is_label(text: &str, length: usize) -> bool {
    text.len() <= length
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && !text.ends_with('-')
        && text.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-')
}

impl FromStr for OperatorName {
    type Err = ScaffoldError;

    fn from_str(text: &str) -> Result<Self, ScaffoldError> {
        let refused = |why: &str| Err(refused("operator name", text, why));
        if !is_label(text, OPERATOR_LENGTH) {
            let why = format!(
                "use lower-case letters, digits and '-', a letter first, at most {OPERATOR_LENGTH} characters"
            );
            return refused(&why);
        }
        if SUBCOMMANDS.contains(&text) {
            return refused("that is a subcommand of `setpoint new`");
        }
        if TAKEN_PACKAGES.contains(&text) || KEYWORDS.contains(&text) {
            return refused("cargo, or a crate that the operator uses, has that name already");
        }
        Ok(OperatorName(text.to_owned()))
    }
}

impl OperatorName {
    /// The name of the library in Rust code.
    pub fn crate_name(&self) -> String {
        self.0.replace('-', "_")
    }
}

impl FromStr for KindName {
    type Err = ScaffoldError;

    fn from_str(text: &str) -> Result<Self, ScaffoldError> {
        let refused = |why: &str| Err(refused("kind", text, why));
        let has_form = text.starts_with(|first: char| first.is_ascii_uppercase())
            && text.chars().all(|letter| letter.is_ascii_alphanumeric())
            && text.len() <= KIND_LENGTH;
        if !has_form {
            let why = format!("use letters and digits as in `Website`, at most {KIND_LENGTH} characters");
            return refused(&why);
        }
        let kind = KindName(text.to_owned());
        let module = kind.module();
        if TAKEN_KINDS.contains(&text) || TAKEN_MODULES.contains(&&*module) || KEYWORDS.contains(&&*module) {
            return refused("the sources of an operator use that name for something else");
        }
        Ok(kind)
    }
}

impl KindName {
    /// The kind in words between which a sign stands: `DNSRecord` is `dns_record`.
    fn in_words(&self, between: char) -> String {
        let letters: Vec<char> = self.0.chars().collect();
        let mut text = String::new();
        for (at, letter) in letters.iter().enumerate() {
            let after_small = at > 0 && !letters[at - 1].is_ascii_uppercase();
            let before_small = letters.get(at + 1).is_some_and(char::is_ascii_lowercase);
            if at > 0 && letter.is_ascii_uppercase() && (after_small || before_small) {
                text.push(between);
            }
            text.push(letter.to_ascii_lowercase());
        }
        text
    }

    /// The name of its module.
    pub fn module(&self) -> String {
        self.in_words('_')
    }

    /// The kind in names of objects.
    pub fn dashed(&self) -> String {
        self.in_words('-')
    }

    /// The plural by the rules of English spelling that kube's derive and kubebuilder use.
    pub fn plural(&self) -> Plural {
        let word = self.0.to_ascii_lowercase();
        let ends = |endings: &[&str]| endings.iter().any(|ending| word.ends_with(ending));
        Plural(if ends(&["s", "x", "z", "ch", "sh"]) {
            format!("{word}es")
        } else if word.ends_with('y') && !ends(&["ay", "ey", "iy", "oy", "uy"]) {
            format!("{}ies", &word[..word.len() - 1])
        } else {
            format!("{word}s")
        })
    }
}

impl FromStr for ApiGroup {
    type Err = ScaffoldError;

    fn from_str(text: &str) -> Result<Self, ScaffoldError> {
        let refused = |why: &str| Err(refused("API group", text, why));
        let label = |part: &str| is_label(part.trim_start_matches(|first: char| first.is_ascii_digit()), 63);
        if text.len() > 253 || !text.contains('.') || !text.split('.').all(label) {
            return refused("use a domain with at least one dot, such as example.org");
        }
        let of_kubernetes = |domain: &str| text == domain || text.ends_with(&format!(".{domain}"));
        if of_kubernetes("k8s.io") || of_kubernetes("kubernetes.io") {
            return refused("the API server protects the groups of Kubernetes");
        }
        Ok(ApiGroup(text.to_owned()))
    }
}

impl FromStr for ApiVersion {
    type Err = ScaffoldError;

    fn from_str(text: &str) -> Result<Self, ScaffoldError> {
        let number =
            |text: &str| text.parse::<u32>().is_ok_and(|number| number.to_string() == text && number > 0);
        let rest = text.strip_prefix('v').unwrap_or_default();
        let has_form = match rest.split_once("alpha").or_else(|| rest.split_once("beta")) {
            Some((major, minor)) => number(major) && number(minor),
            None => number(rest),
        };
        if !has_form {
            return Err(refused("API version", text, "use a version such as v1, v2beta1 or v1alpha1"));
        }
        Ok(ApiVersion(text.to_owned()))
    }
}

impl FromStr for Plural {
    type Err = ScaffoldError;

    fn from_str(text: &str) -> Result<Self, ScaffoldError> {
        if !is_label(text, 63) {
            return Err(refused("plural", text, "use lower-case letters, digits and '-', a letter first"));
        }
        Ok(Plural(text.to_owned()))
    }
}

macro_rules! text_of {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
    )*};
}

text_of!(OperatorName, KindName, ApiGroup, ApiVersion, Plural);

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal<T: FromStr<Err = ScaffoldError> + fmt::Debug>(text: &str) -> String {
        text.parse::<T>().unwrap_err().to_string()
    }

    #[test]
    fn a_kind_gives_the_names_that_follow_from_it() {
        for (kind, module, plural) in [
            ("Website", "website", "websites"),
            ("DNSRecord", "dns_record", "dnsrecords"),
            ("StaticSite", "static_site", "staticsites"),
            ("Proxy", "proxy", "proxies"),
            ("Gateway", "gateway", "gateways"),
            ("Switch", "switch", "switches"),
            ("Ipv4Pool", "ipv4_pool", "ipv4pools"),
        ] {
            let kind: KindName = kind.parse().unwrap();
            assert_eq!((kind.module(), kind.plural().to_string()), (module.into(), plural.into()));
        }
    }

    #[test]
    fn names_that_cannot_work_are_refused() {
        let long = "a".repeat(OPERATOR_LENGTH + 1);
        for name in ["", "My-operator", "1-operator", "operator-", "a_b", "../a", "a b", &long] {
            assert!(refusal::<OperatorName>(name).contains("lower-case"), "{name}");
        }
        assert!(refusal::<OperatorName>("kind").contains("subcommand"));
        for name in ["tokio", "serde-json", "test", "async"] {
            assert!(refusal::<OperatorName>(name).contains("already"), "{name}");
        }
        for kind in ["", "website", "Web-Site", "Web.Site", "Ünder", "../A"] {
            assert!(refusal::<KindName>(kind).contains("as in `Website`"), "{kind}");
        }
        for kind in ["ConfigMap", "Context", "Type", "Main", "Webhooks", "Option"] {
            assert!(refusal::<KindName>(kind).contains("something else"), "{kind}");
        }
        for group in ["", "example", "Example.org", "example..org", "example.org.", "-a.org", "a/b.org"] {
            assert!(refusal::<ApiGroup>(group).contains("at least one dot"), "{group}");
        }
        assert!(refusal::<ApiGroup>("apps.k8s.io").contains("protects"));
        for version in ["", "1", "v", "v0", "v01", "v1gamma1", "v1beta", "vbeta1", "V1"] {
            assert!(refusal::<ApiVersion>(version).contains("such as v1"), "{version}");
        }
        for good in ["v1", "v2beta1", "v10alpha3"] {
            good.parse::<ApiVersion>().unwrap();
        }
        assert!("3scale.net".parse::<ApiGroup>().is_ok() && refusal::<Plural>("Sites").contains("plural"));
    }
}
