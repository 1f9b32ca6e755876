//! A folder that is gone after the test.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use setpoint_store::Directory;

pub struct Folder(PathBuf);

static COUNT: AtomicUsize = AtomicUsize::new(0);

impl Folder {
    pub fn new() -> Self {
        let name = format!("store-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn disk(&self) -> Directory {
        Directory::new(&self.0).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
