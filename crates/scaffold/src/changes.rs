//! A change of a folder, planned as a whole before the first file is written.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::error::ScaffoldError;

/// The beginning of a comment above which lines are added.
const MARKER: &str = "// setpoint new: ";

/// Files to create and files to change in one folder.
#[derive(Debug)]
#[must_use = "nothing is written before `write`"]
pub struct Changes {
    folder: PathBuf,
    created: BTreeMap<PathBuf, String>,
    changed: BTreeMap<PathBuf, String>,
}

impl Changes {
    /// No change of this folder.
    pub(crate) fn in_folder(folder: &Path) -> Changes {
        Changes { folder: folder.to_path_buf(), created: BTreeMap::new(), changed: BTreeMap::new() }
    }

    /// Plans a new file.
    ///
    /// # Errors
    /// If it exists.
    pub(crate) fn create(&mut self, file: impl Into<PathBuf>, text: String) -> Result<(), ScaffoldError> {
        let file = file.into();
        let path = self.folder.join(&file);
        // A link to nowhere is in the way too.
        if fs::symlink_metadata(&path).is_ok() || self.created.contains_key(&file) {
            return Err(ScaffoldError::Exists(path));
        }
        self.created.insert(file, text);
        Ok(())
    }

    /// Whether a file exists, or will.
    pub(crate) fn has(&self, file: &str) -> bool {
        self.created.contains_key(Path::new(file)) || self.folder.join(file).exists()
    }

    /// The text of a file as it will be.
    pub(crate) fn read(&self, file: &str) -> Result<String, ScaffoldError> {
        let planned = self.created.get(Path::new(file)).or_else(|| self.changed.get(Path::new(file)));
        match planned {
            Some(text) => Ok(text.clone()),
            None => {
                let path = self.folder.join(file);
                fs::read_to_string(&path).map_err(ScaffoldError::file(path))
            }
        }
    }

    /// Plans another text of an existing or planned file.
    pub(crate) fn replace(&mut self, file: &str, text: String) {
        let planned =
            if self.created.contains_key(Path::new(file)) { &mut self.created } else { &mut self.changed };
        planned.insert(PathBuf::from(file), text);
    }

    /// Plans lines above the marker with this name, indented as the marker is.
    ///
    /// # Errors
    /// If the file cannot be read or has no such marker.
    pub(crate) fn insert(&mut self, file: &str, marker: &str, lines: &str) -> Result<(), ScaffoldError> {
        let text = self.read(file)?;
        let marker = format!("{MARKER}{marker}");
        let mut found = false;
        let mut changed = String::with_capacity(text.len() + lines.len());
        for line in text.split_inclusive('\n') {
            if line.trim() == marker && !found {
                found = true;
                let indent = &line[..line.len() - line.trim_start().len()];
                for new in lines.lines() {
                    changed.push_str(&format!("{indent}{new}\n"));
                }
            }
            changed.push_str(line);
        }
        if !found {
            return Err(ScaffoldError::NoMarker {
                file: self.folder.join(file),
                marker,
                text: lines.to_owned(),
            });
        }
        self.replace(file, changed);
        Ok(())
    }

    /// Writes everything. Returns the files: the created ones, then the changed ones.
    ///
    /// # Errors
    /// If a file cannot be written. Files written before it stay.
    pub fn write(self) -> Result<(Vec<PathBuf>, Vec<PathBuf>), ScaffoldError> {
        for (file, text) in &self.created {
            let path = self.folder.join(file);
            let folder = path.parent().unwrap_or(&self.folder);
            fs::create_dir_all(folder).map_err(ScaffoldError::file(folder))?;
            // Somebody may have made the file since it was planned.
            let opened = fs::OpenOptions::new().write(true).create_new(true).open(&path);
            let written = opened.and_then(|mut opened| opened.write_all(text.as_bytes()));
            written.map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => ScaffoldError::Exists(path),
                _ => ScaffoldError::file(path)(error),
            })?;
        }
        for (file, text) in &self.changed {
            let path = self.folder.join(file);
            fs::write(&path, text).map_err(ScaffoldError::file(path))?;
        }
        Ok((self.created.into_keys().collect(), self.changed.into_keys().collect()))
    }
}
