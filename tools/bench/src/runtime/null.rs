//! Measures the server's maximum speed, with a client that only reads bytes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use anyhow::Result;

use super::data::Form;
use super::replay::Replay;

pub fn run(server: &Replay) -> Result<()> {
    let bytes = server.data().initial(Form::Json).len();
    let mut stream = TcpStream::connect(server.address)?;
    let begun = Instant::now();
    stream.write_all(b"GET /api/v1/pods?watch=true&sendInitialEvents=true HTTP/1.1\r\nhost: x\r\n\r\n")?;
    let mut buffer = vec![0; 256 * 1024];
    let mut got = 0;
    while got < bytes {
        got += stream.read(&mut buffer)?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let rate = server.data().count() as f64 / seconds;
    println!(
        "server pods={} bytes_each={} null_client_objects_per_second={rate:.0} megabytes_per_second={:.0}",
        server.data().count(),
        server.data().average(),
        bytes as f64 / seconds / 1e6
    );
    Ok(())
}
