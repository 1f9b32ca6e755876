//! The next steps after a start.

use std::path::Path;

/// Returns the text for the terminal in which the cluster runs.
pub fn foreground(kubeconfig: &Path, nodes: u32, data: Option<&Path>) -> String {
    let end = match data {
        Some(data) => format!("Ctrl-C stops the cluster. Its objects stay in {}.", data.display()),
        None => "Ctrl-C stops the cluster. Its objects are in memory and end with it; --data-dir keeps them."
            .into(),
    };
    format!("\nIn another terminal:\n\n{}\n{end}", commands(kubeconfig, nodes))
}

/// Returns the text for the terminal from which the cluster was started. `name` is empty, or a space and the name.
pub fn background(kubeconfig: &Path, name: &str) -> String {
    format!(
        "\n{}\nOr add it to your kubeconfig: `setpoint kubeconfig merge{name}`. `setpoint down{name}` stops it.",
        commands(kubeconfig, 1)
    )
}

fn commands(kubeconfig: &Path, nodes: u32) -> String {
    let absolute = std::path::absolute(kubeconfig).unwrap_or_else(|_| kubeconfig.to_path_buf());
    let first = if nodes > 0 { "nodes" } else { "namespaces" };
    format!("  export KUBECONFIG={}\n  kubectl get {first}\n", quoted(&absolute.display().to_string()))
}

/// Returns a text as one word of a shell.
fn quoted(text: &str) -> String {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "/._-".contains(sign);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word() {
        assert_eq!(["/a/b-1", "/a b", "/it's"].map(quoted), ["/a/b-1", "'/a b'", r"'/it'\''s'"]);
        assert!(
            foreground(Path::new("/k"), 0, None)
                .contains("  export KUBECONFIG=/k\n  kubectl get namespaces\n")
        );
    }
}
