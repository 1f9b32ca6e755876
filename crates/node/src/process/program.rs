//! A program of the table, opened on the host before the pod's volumes are mounted.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};

/// Search path for programs that the table names without a folder, and the `PATH` of every container.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Bytes of a script's first line that the kernel reads.
const LINE_BYTES: u64 = 256;
/// Maximum depth of interpreters that are scripts themselves, as in the kernel.
const SCRIPTS: usize = 4;

/// A file that is open for execution, and its arguments.
#[derive(Debug)]
pub struct Program {
    file: File,
    /// The arguments, including the program's own name. For a script they begin with its interpreter.
    pub arguments: Vec<OsString>,
}

impl Program {
    /// Opens the program of a command line. For a script, opens its interpreter and passes the script's path, as the
    /// kernel does: executed by descriptor, a script would see `/dev/fd/N` as its own name.
    ///
    /// # Errors
    /// When the program or its interpreter is not a file that can be opened.
    pub fn open(command: &[String]) -> io::Result<Program> {
        let Some((name, rest)) = command.split_first() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no program to run"));
        };
        let mut path = find(name);
        let mut arguments = vec![OsString::from(name)];
        arguments.extend(rest.iter().map(OsString::from));
        for _ in 0..=SCRIPTS {
            let (file, line) = open(&path).map_err(|error| named(&path, &error))?;
            let Some(line) = line else { return Ok(Program { file, arguments }) };
            // The path at which the interpreter finds the script replaces its name.
            arguments[0] = path.into_os_string();
            let mut words = interpreter(&line);
            words.append(&mut arguments);
            arguments = words;
            path = PathBuf::from(arguments[0].clone());
            if !path.is_absolute() {
                return Err(io::Error::other(format!(
                    "the interpreter {} is no absolute path",
                    path.display()
                )));
            }
        }
        Err(io::Error::other(format!("{name}: too many levels of interpreters")))
    }

    /// Lets a child inherit the descriptor, and returns its number.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn inherit(&self) -> io::Result<RawFd> {
        fcntl(&self.file, FcntlArg::F_SETFD(FdFlag::empty()))?;
        Ok(self.file.as_raw_fd())
    }
}

/// Returns the files that are executed for a program: the program, and its interpreter if it is a script.
pub fn files(name: &str) -> Vec<PathBuf> {
    let mut files = vec![find(name)];
    while files.len() <= SCRIPTS {
        let Some(Ok((_, Some(line)))) = files.last().map(|path| open(path)) else { break };
        let Some(next) = interpreter(&line).into_iter().next() else { break };
        files.push(PathBuf::from(next));
    }
    files
}

/// Returns the path of a program. A name without a folder is searched in `PATH`.
fn find(name: &str) -> PathBuf {
    if name.contains('/') {
        return PathBuf::from(name);
    }
    let mut places = PATH.split(':').map(|folder| Path::new(folder).join(name));
    places.find(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(name))
}

/// Opens a program. Returns the first line of a script.
fn open(path: &Path) -> io::Result<(File, Option<Vec<u8>>)> {
    let mut options = File::options();
    // A named pipe in the program's place must not block the caller.
    options.read(true).custom_flags(OFlag::O_NONBLOCK.bits());
    let file = match options.open(path) {
        // A program that may be executed but not read is not a script.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let file = File::options().read(true).custom_flags(OFlag::O_PATH.bits()).open(path)?;
            return regular(file).map(|file| (file, None));
        }
        file => regular(file?)?,
    };
    let mut head = Vec::new();
    (&file).take(LINE_BYTES).read_to_end(&mut head)?;
    let line = head
        .strip_prefix(b"#!")
        .map(|rest| rest.split(|byte| *byte == b'\n').next().unwrap_or(rest).to_vec());
    // The kernel checks the same before it starts a script's interpreter.
    if line.is_some() && file.metadata()?.permissions().mode() & 0o111 == 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok((file, line))
}

fn regular(file: File) -> io::Result<File> {
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "is no regular file")),
    }
}

/// Splits a script's first line after `#!`: the interpreter, and at most one argument.
fn interpreter(line: &[u8]) -> Vec<OsString> {
    let line = line.trim_ascii();
    let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
    let (program, argument) = line.split_at(end);
    let words = [program, argument.trim_ascii()].into_iter().filter(|word| !word.is_empty());
    let mut words: Vec<OsString> = words.map(|word| OsString::from_vec(word.to_vec())).collect();
    if words.is_empty() {
        words.push(OsString::new());
    }
    words
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot run {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(program: &Program) -> Vec<&str> {
        program.arguments.iter().map(|word| word.to_str().unwrap()).collect()
    }

    #[test]
    fn a_script_is_run_by_its_interpreter_under_its_own_path() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("run").display().to_string();
        for (line, expected) in [
            ("#!/bin/sh\nexit", vec!["/bin/sh", &script, "a", "b"]),
            ("#! /bin/sh -e  -u \nexit", vec!["/bin/sh", "-e  -u", &script, "a", "b"]),
            ("no script", vec![&script, "a", "b"]),
        ] {
            std::fs::write(&script, line).unwrap();
            std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
            let program = Program::open(&[script.clone(), "a".into(), "b".into()]).unwrap();
            assert_eq!(words(&program), expected, "{line}");
        }
        std::fs::write(&script, "#!sh\n").unwrap();
        let open = || Program::open(std::slice::from_ref(&script)).unwrap_err().to_string();
        assert_eq!(open(), "the interpreter sh is no absolute path");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o644)).unwrap();
        assert_eq!(open(), format!("cannot run {script}: permission denied"));
    }

    #[test]
    fn what_is_no_program_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().display().to_string();
        let refused = Program::open(std::slice::from_ref(&folder)).unwrap_err().to_string();
        assert_eq!(refused, format!("cannot run {folder}: is no regular file"));
        let pipe = format!("{folder}/pipe");
        nix::unistd::mkfifo(pipe.as_str(), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let refused = Program::open(std::slice::from_ref(&pipe)).unwrap_err().to_string();
        assert_eq!(refused, format!("cannot run {pipe}: is no regular file"));
    }

    #[test]
    fn a_program_without_a_folder_is_looked_for_on_the_path() {
        assert!(files("sh")[0].is_absolute());
        assert_eq!(files("no-such-program"), [PathBuf::from("no-such-program")]);
    }
}
