//! The environment variables that make a loader, an interpreter or a shell load code of the pod's choosing.
//!
//! The image table says which programs an image may run. Everybody who may create a pod sets its environment, so
//! `LD_PRELOAD` would run any code in place of those programs. The node drops such variables.

use std::collections::BTreeMap;

/// Prefixes: every variable with this prefix is dropped.
const FAMILIES: &[&str] = &[
    // The dynamic loader, and variables that glibc ignores in setuid programs.
    "LD_",
    "DYLD_",
    "GLIBC_",
    "MALLOC_",
    // Shells: bash takes functions from its environment.
    "BASH_",
    // Interpreters and virtual machines.
    "PYTHON",
    "PERL",
    "RUBY",
    "GEM_",
    "BUNDLE_",
    "LUA_",
    "JULIA_",
    "GUILE_",
    "ERL_",
    "DOTNET_STARTUP_",
    "DOTNET_ADDITIONAL_",
    "CORECLR_",
    "COR_",
    "OPENSSL_",
    "GIT_",
    // Folders in which programs look for their start-up files.
    "XDG_",
];

/// Members of a family that only tune a program.
const HARMLESS: &[&str] = &[
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONFAULTHANDLER",
    "PYTHONHASHSEED",
    "PYTHONIOENCODING",
    "PYTHONUTF8",
];

/// Single variables.
const NAMES: &[&str] = &[
    // glibc: modules for character sets, locales, names and messages.
    "GCONV_PATH",
    "GETCONF_DIR",
    "HOSTALIASES",
    "LOCALDOMAIN",
    "LOCPATH",
    "NIS_PATH",
    "NLSPATH",
    "RESOLV_HOST_CONF",
    "RES_OPTIONS",
    "TZDIR",
    // Shells: a file to run first, word splitting, and folders of commands and start-up files.
    "ENV",
    "IFS",
    "SHELLOPTS",
    "BASHOPTS",
    "PROMPT_COMMAND",
    "PS4",
    "ZDOTDIR",
    "CDPATH",
    "HOME",
    "PATH",
    // Interpreters and virtual machines.
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_REPL_EXTERNAL_MODULE",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "JDK_JAVAC_OPTIONS",
    "JAVA_OPTS",
    "JAVA_HOME",
    "CLASSPATH",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "R_HOME",
    "R_PROFILE",
    "R_PROFILE_USER",
    "R_ENVIRON",
    "R_ENVIRON_USER",
    "R_LIBS",
    "R_LIBS_SITE",
    "R_LIBS_USER",
    "TCLLIBPATH",
    "ELIXIR_ERL_OPTIONS",
    // Programs that other programs start.
    "EDITOR",
    "VISUAL",
    "PAGER",
    "MANPAGER",
    "BROWSER",
    "LESSOPEN",
    "LESSCLOSE",
    "SHELL",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    // Plug-ins of common libraries.
    "GTK_MODULES",
    "GTK_PATH",
    "GIO_EXTRA_MODULES",
    "GIO_MODULE_DIR",
    "GST_PLUGIN_PATH",
    "QT_PLUGIN_PATH",
    "SASL_PATH",
    "KRB5_CONFIG",
    "GSS_MECH_CONFIG",
    "P11_KIT_CONFIG",
    "TERMINFO",
    "TERMINFO_DIRS",
    "TERMCAP",
];

/// Whether a variable of this name chooses code for a program to load.
pub fn loads_code(name: &str) -> bool {
    let in_family = FAMILIES.iter().any(|family| name.starts_with(family));
    NAMES.contains(&name) || in_family && !HARMLESS.contains(&name)
}

/// Removes the pod's loader variables from `environment`. A variable in `given`, which the node sets itself, gets the
/// node's value. Returns the names of the variables that the pod had set.
pub fn remove(environment: &mut BTreeMap<String, String>, given: &[(String, String)]) -> Vec<String> {
    // A name that contains `=` would arrive as another, shorter name.
    let is_wrong = |name: &str| loads_code(name) || name.is_empty() || name.contains(['=', '\0']);
    let own = |name: &str| given.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value);
    let wrong: Vec<String> = environment
        .iter()
        .filter(|(name, value)| is_wrong(name) && own(name) != Some(*value))
        .map(|(name, _)| name.clone())
        .collect();
    for name in &wrong {
        match own(name) {
            Some(value) => environment.insert(name.clone(), value.clone()),
            None => environment.remove(name),
        };
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_choose_code_are_recognised() {
        for name in [
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "LD_AUDIT",
            "GCONV_PATH",
            "GLIBC_TUNABLES",
            "MALLOC_TRACE",
            "PYTHONPATH",
            "PYTHONHOME",
            "PYTHONSTARTUP",
            "PERL5LIB",
            "PERL5OPT",
            "RUBYOPT",
            "RUBYLIB",
            "NODE_OPTIONS",
            "JAVA_TOOL_OPTIONS",
            "_JAVA_OPTIONS",
            "JDK_JAVA_OPTIONS",
            "BASH_ENV",
            "BASH_FUNC_ls%%",
            "ENV",
            "IFS",
            "PATH",
            "HOME",
            "OPENSSL_CONF",
            "GIT_SSH_COMMAND",
        ] {
            assert!(loads_code(name), "{name}");
        }
        for name in
            ["A", "NODE", "NODE_ENV", "GODEBUG", "GOMAXPROCS", "TZ", "LANG", "PYTHONUNBUFFERED", "RUST_LOG"]
        {
            assert!(!loads_code(name), "{name}");
        }
    }

    #[test]
    fn what_the_node_gives_stays_and_what_the_pod_says_goes() {
        let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let given = [("PATH".to_owned(), "/bin".to_owned()), ("HOME".to_owned(), "/".to_owned())];
        let mut environment = pairs(&[
            ("PATH", "/evil"),
            ("HOME", "/"),
            ("A", "1"),
            ("LD_PRELOAD", "/x.so"),
            ("LD_PRELOAD=/x.so", ""),
        ]);
        assert_eq!(remove(&mut environment, &given), ["LD_PRELOAD", "LD_PRELOAD=/x.so", "PATH"]);
        assert_eq!(environment, pairs(&[("PATH", "/bin"), ("HOME", "/"), ("A", "1")]));
    }
}
