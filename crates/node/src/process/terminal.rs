//! A terminal for a program. The program has one end, the node the other.

use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::net::unix::pipe;

/// The size of a terminal window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// The node's end. It is not a pipe, but is read, written and awaited like one.
pub struct Terminal {
    output: pipe::Receiver,
    input: pipe::Sender,
    path: PathBuf,
}

impl Terminal {
    /// Opens a new terminal.
    pub fn open() -> io::Result<Terminal> {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&controller)?;
        unlockpt(&controller)?;
        let path = ptsname(&controller, Vec::new())?.into_bytes();
        fcntl_setfl(&controller, OFlags::NONBLOCK)?;
        let path = PathBuf::from(std::ffi::OsString::from_vec(path));
        let input = pipe::Sender::from_owned_fd_unchecked(controller.try_clone()?)?;
        Ok(Terminal { output: pipe::Receiver::from_owned_fd_unchecked(controller)?, input, path })
    }

    /// The file that the program opens.
    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Reads the program's output. Returns 0 when the program and all its children are gone.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.output.readable().await?;
            match self.output.try_read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The kernel returns this error when no process has the other end open.
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                    return Ok(0);
                }
                result => return result,
            }
        }
    }

    /// Writes the program's input.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.input.writable().await?;
            match self.input.try_write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends the reading if a program ended before it opened its end.
    pub fn hang_up(&self) {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        drop(rustix::fs::open(&self.path, flags, rustix::fs::Mode::empty()));
    }

    /// Sets the window's size. The program gets a SIGWINCH.
    pub fn resize(&self, size: Size) {
        let size = Winsize { ws_row: size.height, ws_col: size.width, ws_xpixel: 0, ws_ypixel: 0 };
        // A closed terminal needs no size.
        let _ = tcsetwinsize(&self.input, size);
    }
}
