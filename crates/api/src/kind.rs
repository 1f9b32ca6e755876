//! Names of kinds and resources: group, version, kind, plural.

use std::fmt;

use serde_json::Value;

/// `apiVersion` taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersion {
    /// Empty for the core group.
    pub group: String,
    /// `v1`, `v1beta1`, …
    pub version: String,
}

impl GroupVersion {
    /// From its two parts.
    pub fn new(group: impl Into<String>, version: impl Into<String>) -> Self {
        GroupVersion { group: group.into(), version: version.into() }
    }

    /// Splits `apps/v1` or `v1`; none if there is more than one slash.
    ///
    /// ```
    /// use setpoint_api::kind::GroupVersion;
    /// assert_eq!(GroupVersion::parse("v1").unwrap(), GroupVersion::new("", "v1"));
    /// assert_eq!(GroupVersion::parse("apps/v1").unwrap().to_string(), "apps/v1");
    /// assert!(GroupVersion::parse("a/b/c").is_none());
    /// ```
    pub fn parse(api_version: &str) -> Option<Self> {
        match api_version.split_once('/') {
            None => Some(GroupVersion::new("", api_version)),
            Some((_, version)) if version.contains('/') => None,
            Some((group, version)) => Some(GroupVersion::new(group, version)),
        }
    }

    /// The kind of that name in this group and version.
    pub fn with_kind(&self, kind: impl Into<String>) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: self.version.clone(), kind: kind.into() }
    }
}

impl fmt::Display for GroupVersion {
    /// As `apiVersion` has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.version)
        } else {
            write!(f, "{}/{}", self.group, self.version)
        }
    }
}

/// A kind, whatever its version.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    /// Empty for the core group.
    pub group: String,
    /// `Deployment`, …
    pub kind: String,
}

impl GroupKind {
    /// From its two parts.
    pub fn new(group: impl Into<String>, kind: impl Into<String>) -> Self {
        GroupKind { group: group.into(), kind: kind.into() }
    }
}

impl fmt::Display for GroupKind {
    /// `Deployment.apps`, as error messages write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.kind, &self.group)
    }
}

/// A resource, whatever its version.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// Empty for the core group.
    pub group: String,
    /// The plural name.
    pub resource: String,
}

impl GroupResource {
    /// From its two parts.
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        GroupResource { group: group.into(), resource: resource.into() }
    }
}

impl fmt::Display for GroupResource {
    /// `deployments.apps`, as error messages write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.resource, &self.group)
    }
}

/// A kind in one version.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionKind {
    /// Empty for the core group.
    pub group: String,
    /// `v1`, `v1beta1`, …
    pub version: String,
    /// `Deployment`, …
    pub kind: String,
}

impl GroupVersionKind {
    /// From its three parts.
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        GroupVersionKind { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// Returns the kind that an object states, or `None` if it lacks `apiVersion` or `kind`.
    pub fn of(object: &Value) -> Option<Self> {
        let kind = object.get("kind")?.as_str()?;
        Some(GroupVersion::parse(object.get("apiVersion")?.as_str()?)?.with_kind(kind))
    }

    /// `apps/v1`, as `apiVersion` has it.
    pub fn api_version(&self) -> String {
        self.group_version().to_string()
    }

    /// Without the kind.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&*self.group, &*self.version)
    }

    /// Without the version.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(&*self.group, &*self.kind)
    }

    /// Group and kind as borrowed text: what the per-kind tables are looked up by.
    pub fn key(&self) -> (&str, &str) {
        (&self.group, &self.kind)
    }
}

impl fmt::Display for GroupVersionKind {
    /// `apps/v1, Kind=Deployment`, as Go prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

fn dotted(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    if group.is_empty() { f.write_str(name) } else { write!(f, "{name}.{group}") }
}
