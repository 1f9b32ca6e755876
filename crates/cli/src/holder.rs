//! The process that holds a port or a lock. Linux says so in `/proc`; elsewhere nobody is named.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The state LISTEN in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// Names the process that listens on a port of this host: `etcd (process 12)`.
pub fn of_port(port: u16) -> Option<String> {
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let inode = tables.iter().find_map(|table| listening(table, port))?;
    let socket = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // A process of another user shows no descriptors.
    let pid = pids.find(|pid| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.filter_map(|file| fs::read_link(file.path()).ok()).any(|target| target == Path::new(&socket))
    })?;
    Some(named(pid))
}

/// Returns the inode of the socket that listens on the port.
fn listening(table: &str, port: u16) -> Option<&str> {
    let suffix = format!(":{port:04X}");
    table.lines().skip(1).find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        (columns.get(1)?.ends_with(&suffix) && *columns.get(3)? == LISTEN).then_some(*columns.get(9)?)
    })
}

/// Names the process that has locked a file by `flock`.
pub fn of_lock(file: &Path) -> Option<String> {
    let inode = fs::metadata(file).ok()?.ino();
    locking(&fs::read_to_string("/proc/locks").ok()?, inode).map(named)
}

fn locking(table: &str, inode: u64) -> Option<u32> {
    let suffix = format!(":{inode}");
    table.lines().find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let holds = columns.get(1) == Some(&"FLOCK") && columns.get(5)?.ends_with(&suffix);
        holds.then(|| columns.get(4)?.parse().ok()).flatten()
    })
}

fn named(pid: u32) -> String {
    match fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("{} (process {pid})", name.trim()),
        Err(_) => format!("process {pid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_linux_are_read() {
        let sockets = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:192B 0100007F:0050 01 00000000:00000000 00:00000000 00000000  1000        0 111 1 x 100 0 0 10 0
   1: 0100007F:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 222 1 x 100 0 0 10 0
";
        assert_eq!((listening(sockets, 6443), listening(sockets, 80)), (Some("222"), None));
        let locks = "1: POSIX  ADVISORY  WRITE 10 fe:00:77 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 12 fe:00:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 11 fe:00:77 0 EOF\n";
        assert_eq!((locking(locks, 77), locking(locks, 7)), (Some(11), None));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_holder_of_a_port_and_of_a_lock_is_this_process() {
        let own = format!("(process {})", std::process::id());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let holder = of_port(listener.local_addr().unwrap().port()).unwrap();
        assert!(holder.ends_with(&own), "{holder}");
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(of_lock(file.path()), None);
        file.as_file().lock().unwrap();
        let holder = of_lock(file.path()).unwrap();
        assert!(holder.ends_with(&own), "{holder}");
    }
}
