//! The world outside the cluster: a folder of hosts files, one per record, as `dnsmasq --hostsdir` reads it.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use setpoint::Key;

/// A folder of hosts files.
///
/// The files are a line long, so a reconcile may wait for the disk.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Names a folder and creates it if it does not exist.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }

    /// Returns the line of a record, or `None` if there is none.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self, record: &Key) -> io::Result<Option<String>> {
        match fs::read_to_string(self.file(record)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// Makes the line of a record so, or removes its file. Returns whether the folder changed.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn set(&self, record: &Key, line: Option<&str>) -> io::Result<bool> {
        if self.read(record)?.as_deref() == line {
            return Ok(false);
        }
        let file = self.file(record);
        match line {
            None => fs::remove_file(file)?,
            Some(line) => {
                // dnsmasq skips names that begin with a dot, so it never reads half a file.
                let hidden = self.0.join(format!(".{}", file_name(record)));
                fs::write(&hidden, line)?;
                fs::rename(hidden, file)?;
            }
        }
        Ok(true)
    }

    fn file(&self, record: &Key) -> PathBuf {
        self.0.join(file_name(record))
    }
}

/// No name in Kubernetes has an underscore: two records never share a file.
fn file_name(record: &Key) -> String {
    format!("{}_{}", record.namespace().unwrap_or_default(), record.name())
}
