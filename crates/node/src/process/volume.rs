//! A volume's files in the container. A reader never sees half a change: each generation has its own folder, and one
//! renamed link makes it current, as in a kubelet.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path};

use crate::plain_file;

/// Path below the mount to content and mode.
pub type Files = BTreeMap<String, File>;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The file's bytes.
    pub content: Vec<u8>,
    /// Its permission bits.
    pub mode: u32,
}

const CURRENT: &str = "..data";
const NEXT: &str = "..data_tmp";

/// Makes `folder` hold exactly these files. Returns whether anything changed.
pub fn write(folder: &Path, files: &Files) -> io::Result<bool> {
    fs::create_dir_all(folder)?;
    if let Some(path) = files.keys().find(|path| !is_inside(path)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{path:?} leaves the volume")));
    }
    let current = fs::read_link(folder.join(CURRENT)).ok();
    // Without a mount namespace, a program may have written here. Only a link to a generation counts.
    let current = current.filter(|current| current.to_str().is_some_and(is_generation));
    if let Some(current) = &current
        && read(&folder.join(current), files).is_some_and(|read| read == *files)
    {
        return Ok(false);
    }
    let generation = next_generation(folder)?;
    let home = folder.join(&generation);
    for (path, file) in files {
        let place = home.join(path);
        fs::create_dir_all(place.parent().expect("a file stands in a folder"))?;
        fs::write(&place, &file.content)?;
        fs::set_permissions(&place, fs::Permissions::from_mode(file.mode))?;
    }
    fs::create_dir_all(&home)?;
    let _ = fs::remove_file(folder.join(NEXT));
    symlink(&generation, folder.join(NEXT))?;
    fs::rename(folder.join(NEXT), folder.join(CURRENT))?;
    link_names(folder, files)?;
    if let Some(old) = current {
        fs::remove_dir_all(folder.join(old))?;
    }
    Ok(true)
}

/// Whether this is a name that [`next_generation`] gives.
fn is_generation(name: &str) -> bool {
    name.strip_prefix("..").is_some_and(|number| number.parse::<u32>().is_ok())
}

/// A path that a key or item may name: relative, and never upwards.
fn is_inside(path: &str) -> bool {
    !path.is_empty()
        && !path.starts_with("..")
        && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

fn next_generation(folder: &Path) -> io::Result<String> {
    for number in 0u32.. {
        let name = format!("..{number}");
        match fs::create_dir(folder.join(&name)) {
            Ok(()) => return Ok(name),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("a folder has fewer than four billion generations")
}

/// The visible names are links through the current generation, so that they all change at once.
fn link_names(folder: &Path, files: &Files) -> io::Result<()> {
    let names: Vec<&str> = files.keys().filter_map(|path| path.split('/').next()).collect();
    for name in &names {
        match symlink(Path::new(CURRENT).join(name), folder.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("..") && !names.contains(&&*name) {
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
    }
    Ok(())
}

/// The files of a generation; none where it holds something that differs from all of `wanted` in name, kind or size.
fn read(folder: &Path, wanted: &Files) -> Option<Files> {
    let mut files = Files::new();
    read_into(folder, "", wanted, &mut files)?;
    Some(files)
}

fn read_into(folder: &Path, prefix: &str, wanted: &Files, files: &mut Files) -> Option<()> {
    for entry in fs::read_dir(folder).ok()? {
        let entry = entry.ok()?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type().ok()?.is_dir() {
            read_into(&entry.path(), &format!("{name}/"), wanted, files)?;
            continue;
        }
        let length = wanted.get(&name)?.content.len() as u64;
        let (_, facts) = plain_file::open(&entry.path()).ok().filter(|(_, facts)| facts.len() == length)?;
        let content = plain_file::read(&entry.path(), length).ok()?;
        files.insert(name, File { content, mode: facts.permissions().mode() & 0o7777 });
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(pairs: &[(&str, &str)]) -> Files {
        let file = |content: &str| File { content: content.into(), mode: 0o644 };
        pairs.iter().map(|(name, content)| (name.to_string(), file(content))).collect()
    }

    #[test]
    fn a_volume_holds_what_was_written_last_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert!(write(path, &files(&[("a", "1"), ("b", "2")])).unwrap());
        assert!(!write(path, &files(&[("a", "1"), ("b", "2")])).unwrap(), "nothing changed");
        assert!(write(path, &files(&[("a", "3"), ("dir/c", "4")])).unwrap());
        assert_eq!(fs::read_to_string(path.join("a")).unwrap(), "3");
        assert_eq!(fs::read_to_string(path.join("dir/c")).unwrap(), "4");
        assert!(!path.join("b").exists());
        let generations = fs::read_dir(path).unwrap().filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_string_lossy().starts_with("..") && name != CURRENT
        });
        assert_eq!(generations.count(), 1, "old generations go");
    }

    #[test]
    fn a_link_that_a_program_put_there_leads_nowhere() {
        let home = tempfile::tempdir().unwrap();
        let (path, outside) = (home.path().join("volume"), home.path().join("outside"));
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "1").unwrap();
        for link in [outside.as_path(), Path::new("../outside")] {
            write(&path, &files(&[("a", "1")])).unwrap();
            fs::remove_file(path.join(CURRENT)).unwrap();
            symlink(link, path.join(CURRENT)).unwrap();
            assert!(write(&path, &files(&[("a", "2")])).unwrap());
            assert_eq!(fs::read_to_string(path.join("a")).unwrap(), "2");
            assert!(outside.join("kept").exists());
        }
        let file = path.join(fs::read_link(path.join(CURRENT)).unwrap()).join("a");
        fs::remove_file(&file).unwrap();
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::create_dir_all(path.join("made/deep")).unwrap();
        assert!(write(&path, &files(&[("a", "2")])).unwrap(), "a pipe is not waited for");
        assert_eq!(fs::read_to_string(path.join("a")).unwrap(), "2");
    }

    #[test]
    fn a_key_that_leaves_the_volume_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["../x", "/etc/x", "a/../../x", "..data", ""] {
            let refused = write(folder.path(), &files(&[(name, "1")])).unwrap_err();
            assert_eq!(refused.to_string(), format!("{name:?} leaves the volume"));
        }
    }
}
