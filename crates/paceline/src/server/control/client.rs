//! The other end of the control socket: one request, one answer, for the command line.
//! It never waits for ever.

use std::{
    io::{self, Read, Write},
    path::Path,
    time::Duration,
};

use serde_json::Value;

use crate::support::private_socket;

/// How long the server may be silent.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why there is no answer.
#[derive(Debug)]
pub enum Failed {
    /// Nobody listens there.
    NoServer(io::Error),
    /// The server is not to be asked by us.
    Forbidden,
    /// It does not answer as it should.
    Broken(String),
    /// It refused, and said why.
    Refused(String),
}

/// Asks. `body`: None for GET.
pub fn ask(path: &Path, method: &str, target: &str, body: Option<&Value>) -> Result<Value, Failed> {
    ask_patiently(path, method, target, body, PATIENCE)
}

/// Asks where the server may be silent for longer.
pub fn ask_patiently(
    path: &Path,
    method: &str,
    target: &str,
    body: Option<&Value>,
    patience: Duration,
) -> Result<Value, Failed> {
    let mut stream = private_socket::connect(path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => Failed::Forbidden,
        _ => Failed::NoServer(error),
    })?;
    let body = body.map_or_else(String::new, Value::to_string);
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: paceline\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut answer = Vec::new();
    let exchanged = stream
        .set_read_timeout(Some(patience))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
        .and_then(|()| stream.write_all(head.as_bytes()))
        .and_then(|()| stream.write_all(body.as_bytes()))
        .and_then(|()| stream.read_to_end(&mut answer));
    exchanged.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            Failed::Broken(format!("no answer after {} s", patience.as_secs()))
        }
        _ => Failed::Broken(error.to_string()),
    })?;
    understood(&answer)
}

fn understood(answer: &[u8]) -> Result<Value, Failed> {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Response::new(&mut fields);
    let no_answer = || Failed::Broken("the program that answers there is not Paceline".into());
    let Ok(httparse::Status::Complete(end)) = head.parse(answer) else { return Err(no_answer()) };
    let value: Value = serde_json::from_slice(&answer[end..]).map_err(|_| no_answer())?;
    match head.code {
        Some(200) => Ok(value),
        _ => Err(Failed::Refused(value["error"].as_str().unwrap_or("it refused").to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_json_or_no_answer() {
        let answer = understood(b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n{\"purged\":3}\n").unwrap();
        assert_eq!(answer["purged"], 3);
        let refused = understood(b"HTTP/1.1 400 Bad Request\r\n\r\n{\"error\":\"no\"}");
        assert!(matches!(refused, Err(Failed::Refused(why)) if why == "no"));
        for answer in [&b""[..], b"SSH-2.0\r\n", b"HTTP/1.1 200 OK\r\n\r\nhello", b"HTTP/1.1 200 OK\r\n"] {
            assert!(matches!(understood(answer), Err(Failed::Broken(_))));
        }
    }
}
