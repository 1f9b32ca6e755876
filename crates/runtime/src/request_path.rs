//! Paths and query strings of requests.

use kube::core::ApiResource;

/// Whether a namespace or name can be one part of a path. An empty one would make a collection of an object, and servers
/// take a slash for one also where it is escaped.
pub(crate) fn is_segment(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '%'])
}

/// The characters that mean something between the parts of a path and nothing within one: client-go does not escape them.
const PLAIN_IN_PATH: &[u8] = b"$&+,:;=@";

/// Adds a text, escaped but for letters, digits, `-_.~` and what is `plain`.
fn push_escaped(target: &mut String, text: &str, plain: &[u8]) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => target.push(byte as char),
            _ if plain.contains(&byte) => target.push(byte as char),
            _ => target.push_str(&format!("%{byte:02X}")),
        }
    }
}

/// Adds one part of a path: names of some kinds may hold spaces, `?` and `#`.
fn push_segment(path: &mut String, segment: &str) {
    path.push('/');
    push_escaped(path, segment, PLAIN_IN_PATH);
}

/// The path of a collection or object on the server. A subresource may be a path of its own.
pub(crate) fn path(
    resource: &ApiResource,
    namespace: Option<&str>,
    name: Option<&str>,
    subresource: Option<&str>,
) -> String {
    let mut path = match resource.group.as_str() {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };
    if let Some(namespace) = namespace {
        path.push_str("/namespaces");
        push_segment(&mut path, namespace);
    }
    path.push('/');
    path.push_str(&resource.plural);
    let below = subresource.into_iter().flat_map(|subresource| subresource.split('/'));
    name.into_iter().chain(below).for_each(|part| push_segment(&mut path, part));
    path
}

/// A query string; values are escaped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters(String);

impl Parameters {
    pub(crate) fn push(&mut self, name: &str, value: &str) {
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(name);
        self.0.push('=');
        push_escaped(&mut self.0, value, b"");
    }

    pub(crate) fn push_some(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.push(name, value);
        }
    }

    pub(crate) fn append_to(self, path: &mut String) {
        path.push_str(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::Node;
    use k8s_openapi::api::rbac::v1::ClusterRole;

    #[test]
    fn paths_are_those_of_the_api() {
        let deployment = ApiResource::erase::<Deployment>(&());
        assert_eq!(
            path(&deployment, Some("default"), Some("web"), Some("scale")),
            "/apis/apps/v1/namespaces/default/deployments/web/scale"
        );
        assert_eq!(path(&deployment, None, None, None), "/apis/apps/v1/deployments");
        assert_eq!(path(&ApiResource::erase::<Node>(&()), None, Some("n"), None), "/api/v1/nodes/n");
        let role = ApiResource::erase::<ClusterRole>(&());
        assert_eq!(
            path(&role, None, Some("system:a b?c#d/é"), Some("proxy/x y")),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a%20b%3Fc%23d%2F%C3%A9/proxy/x%20y"
        );
        let mut parameters = Parameters::default();
        parameters.push("labelSelector", "app in (a,b)");
        parameters.push_some("limit", Some("5"));
        let mut path = String::from("/api");
        parameters.append_to(&mut path);
        assert_eq!(path, "/api?labelSelector=app%20in%20%28a%2Cb%29&limit=5");
    }
}
