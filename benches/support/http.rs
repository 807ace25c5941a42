//! As much of HTTP/1.1 and of the service's frames as a service for benchmarks needs.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use super::data::GENERATION;

/// A `rows` frame.
pub(crate) fn rows_frame(agent: &str, rows: &str) -> String {
    format!(r#"{{"rows":{{"agentId":"{agent}","generation":{GENERATION},"entries":[{rows}]}}}}"#)
}

/// A frame in its envelope, as one HTTP chunk.
pub(crate) fn chunk(frame: &str) -> Vec<u8> {
    let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    let mut bytes = format!("{:x}\r\n", frame.len() + 5).into_bytes();
    bytes.push(0);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(frame.as_bytes());
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// The value of a field of a flat JSON text, without its quotes: all that the requests here need.
pub(crate) fn field<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let at = json.find(&format!("\"{name}\":"))? + name.len() + 3;
    let rest = json[at..].trim_start().trim_start_matches('"');
    rest.split(['"', ',', '}']).next()
}

/// The next request's path and body, or `None` at the end.
pub(crate) fn request(reader: &mut BufReader<&TcpStream>) -> io::Result<Option<(String, String)>> {
    let (mut path, mut length, mut chunked) = (None, 0, false);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if path.is_none() {
            path = line.split(' ').nth(1).map(str::to_owned);
        } else if let Some((name, value)) = line.split_once(':') {
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap_or(0);
            }
            chunked |= name.eq_ignore_ascii_case("transfer-encoding");
        }
    }
    let mut body = Vec::new();
    if chunked {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let size = u64::from_str_radix(line.trim(), 16).unwrap_or(0);
            reader.by_ref().take(size).read_to_end(&mut body)?;
            reader.read_line(&mut line)?;
            if size == 0 {
                break;
            }
        }
    } else {
        reader.by_ref().take(length).read_to_end(&mut body)?;
    }
    Ok(path.map(|path| (path, String::from_utf8_lossy(&body).into_owned())))
}

/// Answers a request with JSON.
pub(crate) fn answer(mut connection: &TcpStream, status: &str, body: &str) -> io::Result<()> {
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    let mut bytes = Vec::with_capacity(head.len() + body.len());
    bytes.extend_from_slice(head.as_bytes());
    bytes.extend_from_slice(body.as_bytes());
    connection.write_all(&bytes)
}
