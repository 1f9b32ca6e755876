//! Folders that only the user who runs the node may enter.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

const OWNER_ONLY: u32 = 0o700;

/// Creates a folder and its parents, and removes other users' rights to it: it holds the Secrets of pods.
///
/// # Errors
/// When the disk refuses, or another user owns the folder.
pub fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(OWNER_ONLY).create(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(OWNER_ONLY))
}

/// Whether this is the name of a folder's entry, and leads nowhere else.
pub fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_enters_a_folder_that_was_open_before() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("data/pods");
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        for folder in [folder.clone(), folder.join("uid")] {
            make(&folder).unwrap();
            assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }
}
