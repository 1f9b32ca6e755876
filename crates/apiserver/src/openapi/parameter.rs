//! Parameters: where they stand and what they are.

/// The rest of a path behind a proxy, which also takes a `path` in its query.
pub(super) const REST: &str = "path-rest";

/// A parameter's name as it is sent.
pub(super) fn sent(name: &str) -> &str {
    if name == REST { "path" } else { name }
}

/// The place (`path` or `query`) and the type of a parameter.
pub(super) fn of(name: &str) -> (&'static str, &'static str) {
    match name {
        "name" | "namespace" | REST => ("path", "string"),
        "allowWatchBookmarks"
        | "follow"
        | "force"
        | "ignoreStoreReadErrorWithClusterBreakingPotential"
        | "insecureSkipTLSVerifyBackend"
        | "orphanDependents"
        | "previous"
        | "sendInitialEvents"
        | "stderr"
        | "stdin"
        | "stdout"
        | "timestamps"
        | "tty"
        | "watch" => ("query", "boolean"),
        "gracePeriodSeconds" | "limit" | "limitBytes" | "ports" | "sinceSeconds" | "tailLines"
        | "timeoutSeconds" => ("query", "integer"),
        _ => ("query", "string"),
    }
}
