//! Parameters: where they stand and what they are.

/// The place (`path` or `query`) and the type of a parameter.
pub(super) fn of(name: &str) -> (&'static str, &'static str) {
    match name {
        "name" | "namespace" => ("path", "string"),
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
