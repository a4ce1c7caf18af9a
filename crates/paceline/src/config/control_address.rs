//! The control listener's address and token as text. It opens nothing.

use std::net::SocketAddr;

use super::{bind, value::ValueError, Bind};

/// Shorter ones could be guessed.
const SHORTEST: usize = 16;

pub fn check_url(text: &str) -> Result<(), ValueError> {
    parse(text).map(drop)
}

pub fn check_token(text: &str) -> Result<(), ValueError> {
    let fine = text == "none" || text.len() >= SHORTEST && text.bytes().all(|byte| byte.is_ascii_graphic());
    fine.then_some(()).ok_or(ValueError::WeakToken { shortest: SHORTEST })
}

/// The Unix socket that Puma's name for both means.
pub fn unix(text: &str) -> Option<&str> {
    text.strip_prefix("unix://")
}

/// None: a Unix socket, or Puma's `auto`, which is one too.
pub fn parse(text: &str) -> Result<Option<SocketAddr>, ValueError> {
    if text == "auto" || unix(text).is_some_and(|path| !path.is_empty()) {
        return Ok(None);
    }
    let wrong = || ValueError::mismatch("like tcp://127.0.0.1:9293, or unix:///PATH for the control socket", text);
    let tcp = text.strip_prefix("tcp://").ok_or_else(wrong)?;
    match bind::parse(&format!("tcp://{tcp}"), "/".as_ref())?.bind {
        Bind::Tcp(address) => Ok(Some(address)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused() {
        for url in
            ["ssl://127.0.0.1:1?cert=a&key=b", "127.0.0.1:9293", "tcp://127.0.0.1", "unix://", "http://127.0.0.1:1"]
        {
            assert!(check_url(url).is_err(), "{url}");
        }
        for (token, fine) in
            [("none", true), ("0123456789abcdef", true), ("short", false), ("0123456789 abcdef", false)]
        {
            assert_eq!(check_token(token).is_ok(), fine, "{token}");
        }
    }
}
