//! The keys of objects in the store: `/registry/GROUP/RESOURCE/[NAMESPACE/]NAME`.

use setpoint_schema::builtin;

/// Group segment of the core group.
const CORE: &str = "core";

/// The prefix of all objects of a resource.
pub fn resource(group: &str, plural: &str) -> Vec<u8> {
    let group = if group.is_empty() { CORE } else { group };
    format!("/registry/{group}/{plural}/").into_bytes()
}

/// Suffix of the plural of a definition that has a built-in resource's name. No plural can end with it.
const APART: &str = ":custom";

/// The prefix of all objects of a definition. A definition may have the name of a built-in resource, in whatever
/// version. Its objects then get a prefix of their own, because readers of the built-in objects would take them for
/// such.
pub fn custom(group: &str, plural: &str) -> Vec<u8> {
    let shared = builtin().resources().iter().any(|own| own.group == group && own.plural == plural);
    if shared { resource(group, &format!("{plural}{APART}")) } else { resource(group, plural) }
}

/// Group and plural of the key of a custom object.
pub fn custom_of(key: &[u8]) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(key).ok()?;
    let mut parts = text.strip_prefix("/registry/")?.splitn(3, '/');
    let (group, plural) = (parts.next()?, parts.next()?);
    Some((group, plural.strip_suffix(APART).unwrap_or(plural)))
}

/// The key of one object; cluster-scoped ones have no namespace.
pub fn object(group: &str, plural: &str, namespace: &str, name: &str) -> Vec<u8> {
    let mut key = resource(group, plural);
    extend(&mut key, namespace, name);
    key
}

/// Appends `NAMESPACE/NAME` or `NAME`.
pub fn extend(prefix: &mut Vec<u8>, namespace: &str, name: &str) {
    if !namespace.is_empty() {
        prefix.extend_from_slice(namespace.as_bytes());
        prefix.push(b'/');
    }
    prefix.extend_from_slice(name.as_bytes());
}

/// Namespace (or empty) and name of a key of the resource with that prefix.
pub fn split<'a>(prefix: &[u8], key: &'a [u8]) -> (&'a str, &'a str) {
    let rest = std::str::from_utf8(key.get(prefix.len()..).unwrap_or_default()).unwrap_or_default();
    rest.split_once('/').unwrap_or(("", rest))
}
