//! The image table: the images that run as processes of this host, and the programs that each may run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

/// All entries, in the order of matching. Empty by default.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ImageTable {
    /// `[[image]]` in TOML.
    #[serde(default, rename = "image")]
    pub images: Vec<Image>,
}

/// One entry.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Image {
    /// The image's name; `*` matches any text.
    pub pattern: String,
    /// Trust in the pods of the image. An entry without it is refused.
    #[serde(default)]
    pub trust: Trust,
    /// Names that a container's `command[0]`, its exec probes and `kubectl exec` may use. Each has a program of this
    /// host and the arguments that precede the container's own. Empty if the image has nothing to run.
    #[serde(default)]
    pub programs: BTreeMap<String, Vec<String>>,
    /// The program of a container without `command`: the image's entry point. Without one, the first of the arguments
    /// names the program.
    pub default: Option<String>,
    /// The arguments of a container without `command` and `args`.
    #[serde(default)]
    pub args: Vec<String>,
    /// The working folder of a container without `workingDir`.
    pub working_dir: Option<PathBuf>,
    /// Whether `kubectl exec` may start the programs.
    #[serde(default)]
    pub exec: bool,
    /// Mount paths that are allowed although they cover programs' folders.
    #[serde(default)]
    pub mounts: Vec<PathBuf>,
}

/// Levels of trust in the pods of an image.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// The entry has no trust level.
    #[default]
    #[serde(skip)]
    Unstated,
    /// The pods have the rights of the user that runs the node. Everybody who may create pods chooses a program's
    /// arguments, input, environment and files, and nothing keeps the program from the host's files.
    Host,
}

/// The reason why an image's container cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The table is not valid TOML, or not of its form.
    #[error("image table: {0}")]
    Form(String),
    /// The entry has no trust level.
    #[error(
        "image table: the entry {image:?} lacks trust = \"host\": its programs run with the rights of the user that \
         runs the node and see that user's files, so whoever may create pods decides what they do; add the line to \
         say that this is meant"
    )]
    Untrusted {
        /// The pattern of the entry.
        image: String,
    },
    /// A relative path depends on the working folder, which the pod chooses.
    #[error("image table: the entry {image:?} runs {program:?}; name a program by its absolute path")]
    Relative {
        /// The pattern of the entry.
        image: String,
        /// The program of the entry.
        program: String,
    },
    /// The entry does not name the program.
    #[error("the image table lets {image} run {known}, not {program:?}")]
    Program {
        /// The pattern of the entry.
        image: String,
        /// The requested program.
        program: String,
        /// The programs of the entry.
        known: String,
    },
    /// Neither the container nor the entry names a program. The message is a container runtime's.
    #[error("no command specified")]
    NoCommand,
}

impl ImageTable {
    /// Reads the TOML form.
    pub fn parse(text: &str) -> Result<Self, ImageError> {
        let table: ImageTable = toml::from_str(text).map_err(|error| ImageError::Form(error.to_string()))?;
        table.images.iter().try_for_each(Image::check)?;
        Ok(table)
    }

    /// Returns the entry of an image. `None` means that its containers are simulated.
    pub fn find(&self, image: &str) -> Option<&Image> {
        self.images.iter().find(|entry| matches(&entry.pattern, image))
    }
}

impl Image {
    fn check(&self) -> Result<(), ImageError> {
        let image = self.pattern.clone();
        if self.trust != Trust::Host {
            return Err(ImageError::Untrusted { image });
        }
        let mut named = self.programs.values().filter_map(|line| line.first());
        match named.find(|program| program.contains('/') && !program.starts_with('/')) {
            Some(program) => Err(ImageError::Relative { image, program: program.clone() }),
            None => Ok(()),
        }
    }

    /// Returns the command line for a container's `command` and `args`.
    pub fn command(&self, command: &[String], args: &[String]) -> Result<Vec<String>, ImageError> {
        self.check()?;
        let line = match (command, args, &self.default) {
            ([], [], default) => default.iter().chain(&self.args).cloned().collect(),
            ([], args, default) => default.iter().chain(args).cloned().collect(),
            (command, args, _) => [command, args].concat(),
        };
        let Some((name, own)) = line.split_first() else { return Err(ImageError::NoCommand) };
        let Some(program) = self.programs.get(name) else {
            let known = match self.programs.is_empty() {
                true => "nothing".to_owned(),
                false => self.programs.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
            };
            return Err(ImageError::Program { image: self.pattern.clone(), program: name.clone(), known });
        };
        Ok([program, own].concat())
    }
}

/// Whether `text` matches `pattern`, in which `*` matches any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn table() -> ImageTable {
        ImageTable::parse(
            r#"
            [[image]]
            pattern = "peaceiris/mdbook:*"
            trust = "host"
            programs.mdbook = ["/usr/bin/setpoint", "viewer"]
            default = "mdbook"
            args = ["serve"]
            working-dir = "/book"
            "#,
        )
        .unwrap()
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, fits) in [
            ("nginx", "nginx", true),
            ("nginx", "nginx:1", false),
            ("nginx:*", "nginx:", true),
            ("*/mdbook:*", "peaceiris/mdbook:latest", true),
            ("*", "", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c", false),
            ("ab*b", "ab", false),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn commands_resolve_among_the_named_programs_only() {
        let table = table();
        let image = table.find("peaceiris/mdbook:latest").unwrap();
        assert_eq!(image.command(&[], &[]).unwrap(), words("/usr/bin/setpoint viewer serve"));
        assert_eq!(
            image.command(&words("mdbook"), &words("serve --hostname 0.0.0.0")).unwrap(),
            words("/usr/bin/setpoint viewer serve --hostname 0.0.0.0")
        );
        let refused = image.command(&words("sh -c id"), &[]).unwrap_err();
        assert_eq!(refused.to_string(), "the image table lets peaceiris/mdbook:* run mdbook, not \"sh\"");
        assert!(table.find("nginx").is_none());
    }

    #[test]
    fn an_image_without_an_entry_point_runs_what_the_container_names() {
        let table = ImageTable::parse(
            "[[image]]\npattern = \"tools\"\ntrust = \"host\"\nprograms.sh = [\"/bin/sh\"]\n\
             [[image]]\npattern = \"scratch\"\ntrust = \"host\"",
        )
        .unwrap();
        let tools = table.find("tools").unwrap();
        assert_eq!(tools.command(&[], &[]).unwrap_err().to_string(), "no command specified");
        assert_eq!(tools.command(&[], &words("sh -c id")).unwrap(), words("/bin/sh -c id"));
        assert_eq!(tools.command(&words("sh"), &words("-c id")).unwrap(), words("/bin/sh -c id"));
        let with_args = Image { args: words("sh -i"), ..tools.clone() };
        assert_eq!(with_args.command(&[], &[]).unwrap(), words("/bin/sh -i"), "the image's own arguments");
        let scratch = table.find("scratch").unwrap();
        assert_eq!(scratch.command(&[], &[]).unwrap_err(), ImageError::NoCommand);
        let refused = scratch.command(&words("sh"), &[]).unwrap_err().to_string();
        assert_eq!(refused, "the image table lets scratch run nothing, not \"sh\"");
    }

    #[test]
    fn a_wrong_table_is_refused() {
        let error = ImageTable::parse("[[image]]\npattern = 1").unwrap_err();
        assert!(error.to_string().starts_with("image table: "), "{error}");
    }

    #[test]
    fn an_entry_says_that_it_trusts_its_pods_with_the_host() {
        let entry = "[[image]]\npattern = \"tools\"\nprograms.sh = [\"/bin/sh\"]\n";
        let refused = ImageTable::parse(entry).unwrap_err().to_string();
        assert!(refused.contains("\"tools\" lacks trust = \"host\""), "{refused}");
        let refused = ImageTable::parse(&format!("{entry}trust = \"none\"")).unwrap_err().to_string();
        assert!(refused.contains("unknown variant `none`"), "{refused}");
        let table = ImageTable::parse(&format!("{entry}trust = \"host\"")).unwrap();
        assert_eq!(table.images[0].trust, Trust::Host);
        let unstated = Image { trust: Trust::Unstated, ..table.images[0].clone() };
        // A table that was not read from a file.
        let refused = unstated.command(&words("sh"), &[]).unwrap_err();
        assert_eq!(refused, ImageError::Untrusted { image: "tools".into() });
    }

    #[test]
    fn a_program_is_not_found_through_the_working_folder() {
        let entry = "[[image]]\npattern = \"a\"\ntrust = \"host\"\nprograms.a = [\"./bin/a\"]";
        let refused = ImageTable::parse(entry).unwrap_err().to_string();
        assert!(refused.ends_with("name a program by its absolute path"), "{refused}");
    }
}
