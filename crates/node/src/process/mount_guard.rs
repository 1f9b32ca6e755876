//! The places of the host over which no volume may be mounted.
//!
//! A pod's volume hides the host's files at its mount path. Over a program, a library or a loader's configuration,
//! the volume would choose the code that the table's programs execute.

use std::io;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::program;
use crate::image::Image;

/// Trees with code of programs, loaders and interpreters, and its configuration. `/lib*` is one too.
const TREES: &[&str] = &["/bin", "/boot", "/dev", "/etc", "/proc", "/root", "/sbin", "/sys", "/usr"];
/// Trees of added software: existing entries are protected, and other names below are free.
const SOFTWARE: &[&str] = &["/gnu", "/nix", "/opt", "/run/current-system", "/snap"];
/// Paths inside the trees without code: shared memory, and Kubernetes' default termination message path.
const FREE: &[&str] = &["/dev/shm", "/dev/termination-log"];

/// Decides where a container's volumes may be mounted.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct MountGuard {
    /// The files that the image may execute.
    pub programs: Vec<PathBuf>,
    /// Paths inside the trees that the table allows.
    pub allowed: Vec<PathBuf>,
}

/// A mount path that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Covered {
    /// The mount path covers a program of the image, or the program's folder.
    #[error("mountPath {} would cover the program {}", .target.display(), .program.display())]
    Program {
        /// The mount path.
        target: PathBuf,
        /// The program.
        program: PathBuf,
    },
    /// The mount path covers the host's programs, libraries or their configuration.
    #[error(
        "mountPath {} would cover files that programs of the host load; mounts = [{target:?}] in the entry of the \
         image table allows it",
        .target.display()
    )]
    Tree {
        /// The mount path.
        target: PathBuf,
    },
}

impl MountGuard {
    /// The guard of an image's containers.
    pub fn of(image: &Image) -> MountGuard {
        let mut programs = Vec::new();
        for line in image.programs.values() {
            programs.extend(line.first().iter().flat_map(|name| program::files(name)));
            // A script that is an interpreter's argument is a program as well.
            let files = line.iter().skip(1).map(PathBuf::from);
            programs.extend(files.filter(|path| path.is_absolute() && path.is_file()));
        }
        let found: Vec<PathBuf> = programs.iter().filter_map(|path| path.canonicalize().ok()).collect();
        programs.extend(found);
        programs.sort();
        programs.dedup();
        MountGuard { programs, allowed: image.mounts.clone() }
    }

    /// Checks a mount path, and the place of the host that it resolves to.
    ///
    /// # Errors
    /// When either may not be covered.
    pub fn check(&self, target: &Path) -> Result<(), Covered> {
        let named = normal(target);
        let leads_to = resolved(&named).unwrap_or_else(|_| named.clone());
        for place in [&named, &leads_to] {
            if let Some(program) = self.programs.iter().find(|program| hides(place, program)) {
                return Err(Covered::Program { target: named.clone(), program: program.clone() });
            }
            if is_guarded(place) && !self.is_allowed(place) {
                return Err(Covered::Tree { target: named.clone() });
            }
        }
        Ok(())
    }

    fn is_allowed(&self, place: &Path) -> bool {
        let inside = |allowed: &Path| place.starts_with(allowed);
        self.allowed.iter().any(|path| {
            let path = normal(path);
            inside(&path) || resolved(&path).is_ok_and(|path| inside(&path))
        })
    }
}

/// Whether a volume at `place` hides the program or its folder, where interpreters look for modules.
fn hides(place: &Path, program: &Path) -> bool {
    let beside = program.parent().filter(|folder| folder.parent().is_some());
    program.starts_with(place)
        || place.starts_with(program)
        || beside.is_some_and(|folder| place.starts_with(folder))
}

fn is_guarded(place: &Path) -> bool {
    let Some(Component::Normal(first)) = place.components().nth(1) else { return true };
    let first = first.to_string_lossy();
    let within = |trees: &[&str]| trees.iter().any(|tree| place.starts_with(tree));
    let software = || SOFTWARE.iter().map(Path::new).filter(|tree| tree.exists());
    if within(FREE) {
        return false;
    }
    // HOME is `/`, so a hidden entry there is a program's configuration.
    first.starts_with("lib")
        || first.starts_with('.')
        || within(TREES)
        || software().any(|tree| tree.starts_with(place) || place.starts_with(tree) && place.exists())
}

/// Returns a path from the root without `..` and `.`, as a container sees it.
pub fn normal(path: &Path) -> PathBuf {
    let mut place = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => place.push(name),
            Component::ParentDir => drop(place.pop()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    place
}

/// Returns the place of the host that a path resolves to, through symbolic links (`/var/run` links to `/run`).
///
/// # Errors
/// When the links lead nowhere.
pub fn resolved(path: &Path) -> io::Result<PathBuf> {
    let target = normal(path);
    // A dangling link counts as existing: a mount would create its target through it.
    let is_there = |path: &&Path| path.symlink_metadata().is_ok();
    let known = target.ancestors().find(is_there).unwrap_or(Path::new("/"));
    let rest = target.strip_prefix(known).unwrap_or(Path::new(""));
    Ok(known.canonicalize()?.join(rest))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn guard(programs: &[&str]) -> MountGuard {
        MountGuard {
            programs: programs.iter().map(PathBuf::from).collect(),
            allowed: vec!["/etc/app".into()],
        }
    }

    #[test]
    fn programs_the_loader_and_its_configuration_stay_uncovered() {
        let guard = guard(&["/srv/app/bin/run", "/tool"]);
        for refused in [
            "/bin",
            "/usr",
            "/usr/bin",
            "/usr/bin/sh",
            "/usr/local/lib/x",
            "/lib",
            "/lib64/x",
            "/libx32",
            "/etc",
            "/etc/ld.so.preload",
            "/etc/application",
            "/sbin/x",
            "/boot/x",
            "/root",
            "/proc/self",
            "/sys",
            "/dev",
            "/dev/null",
            "/data/../etc",
            "etc",
            "/.bashrc",
        ] {
            let target = normal(Path::new(refused));
            assert_eq!(guard.check(Path::new(refused)), Err(Covered::Tree { target }));
        }
        let run = "/srv/app/bin/run";
        for (refused, program) in [
            ("/", run),
            ("//", run),
            (".", run),
            ("/..", run),
            ("/srv", run),
            ("/srv/app", run),
            ("/srv/app/bin", run),
            ("/srv/app/bin/run", run),
            ("/srv/app/bin/modules", run),
            ("/tool", "/tool"),
            ("/tool/x", "/tool"),
        ] {
            let covered = Covered::Program { target: normal(Path::new(refused)), program: program.into() };
            assert_eq!(guard.check(Path::new(refused)), Err(covered));
        }
        for free in [
            "/data",
            "/srv/app/data",
            "/srv/web",
            "/tmp",
            "/var/lib/app",
            "/run/secrets",
            "/v/etc",
            "/book/src",
            "/dev/shm",
            "/dev/termination-log",
            "/etc/app",
            "/etc/app/x",
            "/opt/no-such-software/data",
        ] {
            assert_eq!(guard.check(Path::new(free)), Ok(()), "{free}");
        }
    }

    #[test]
    fn a_link_does_not_lead_around_the_guard() {
        let home = tempfile::tempdir().unwrap();
        let link = home.path().join("link");
        symlink("/etc", &link).unwrap();
        for target in [link.clone(), link.join("new/folder")] {
            assert_eq!(guard(&[]).check(&target), Err(Covered::Tree { target }));
        }
        let program = home.path().canonicalize().unwrap().join("real/program");
        std::fs::create_dir(program.parent().unwrap()).unwrap();
        std::fs::write(&program, "").unwrap();
        symlink("real", home.path().join("other")).unwrap();
        let guard = guard(&[program.to_str().unwrap()]);
        let target = home.path().join("other/program");
        assert_eq!(guard.check(&target), Err(Covered::Program { target: target.clone(), program }));
        assert_eq!(guard.check(&home.path().join("data")), Ok(()));
    }

    #[test]
    fn scripts_and_interpreters_of_the_table_are_programs() {
        let home = tempfile::tempdir().unwrap();
        let script = home.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        let image =
            Image { programs: [("a".into(), vec![script.display().to_string()])].into(), ..Image::default() };
        let guard = MountGuard::of(&image);
        let shell = Path::new("/bin/sh").canonicalize().unwrap();
        assert!(guard.programs.contains(&script) && guard.programs.contains(&shell), "{guard:?}");
    }
}
