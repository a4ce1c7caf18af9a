//! An HTTP proxy that a call goes through: its URL, and the tunnel for https (RFC 9110 section 9.3.6). It never chooses
//! one.

use std::io;

use http::Uri;
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::failure::Failure;
use base64::{engine::general_purpose::STANDARD, Engine};

/// The longest head of a proxy's answer.
const LONGEST_HEAD: usize = 16 << 10;

/// Where it is, and who we are to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Proxy {
    pub host: String,
    pub port: u16,
    /// The value of Proxy-Authorization.
    pub authorization: Option<String>,
}

impl Proxy {
    /// Of `http://user:password@host:port`. None: that is no HTTP proxy in clear text.
    pub fn parse(url: &str) -> Option<Proxy> {
        let uri: Uri = url.parse().ok()?;
        if uri.scheme_str() != Some("http") {
            return None;
        }
        let authority = uri.authority()?;
        let authorization = authority.as_str().rsplit_once('@').map(|(user, _)| {
            let (user, password) = user.split_once(':').unwrap_or((user, ""));
            let both =
                [percent_decode_str(user).collect::<Vec<_>>(), percent_decode_str(password).collect()].join(&b':');
            format!("Basic {}", STANDARD.encode(&both))
        });
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        Some(Proxy { host, port: authority.port_u16().unwrap_or(80), authorization })
    }

    /// Makes the connection one to `target` (host:port).
    pub async fn tunnel<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: &mut S, target: &str) -> Result<(), Failure> {
        let mut head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        if let Some(authorization) = &self.authorization {
            head += &format!("Proxy-Authorization: {authorization}\r\n");
        }
        head += "\r\n";
        let failed = |error: io::Error| Failure::of(&error, false);
        stream.write_all(head.as_bytes()).await.map_err(failed)?;
        let answer = read_head(stream).await?;
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let mut parsed = httparse::Response::new(&mut fields);
        let (Ok(httparse::Status::Complete(_)), Some(status)) = (parsed.parse(&answer), parsed.code) else {
            return Err(Failure::Protocol("the proxy's answer is no HTTP".into()));
        };
        match status {
            200..=299 => Ok(()),
            _ => Err(Failure::Proxy { status, message: parsed.reason.unwrap_or_default().to_owned() }),
        }
    }
}

/// Reads to the empty line and not a byte further: what comes then is the target's.
async fn read_head<S: AsyncRead + Unpin>(stream: &mut S) -> Result<Vec<u8>, Failure> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = stream.read_u8().await.map_err(|error| Failure::of(&error, false))?;
        head.push(byte);
        if head.len() > LONGEST_HEAD {
            return Err(Failure::Protocol("the proxy's answer is too long".into()));
        }
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_url_says_where_and_who() {
        let proxy = Proxy::parse("http://me:p%40ss@proxy.example:3128").unwrap();
        assert_eq!((proxy.host.as_str(), proxy.port), ("proxy.example", 3128));
        assert_eq!(proxy.authorization.as_deref(), Some("Basic bWU6cEBzcw=="));
        let plain = Proxy::parse("http://[::1]").unwrap();
        assert_eq!((plain.host.as_str(), plain.port, plain.authorization), ("::1", 80, None));
        assert_eq!(Proxy::parse("https://proxy"), None);
        assert_eq!(Proxy::parse("proxy"), None);
    }

    async fn answered(answer: &'static [u8]) -> Result<Vec<u8>, Failure> {
        let (mut ours, mut theirs) = tokio::io::duplex(4096);
        let proxy = Proxy::parse("http://me:pw@proxy").unwrap();
        let talk = async {
            let mut asked = vec![0; 1024];
            let length = theirs.read(&mut asked).await.unwrap();
            theirs.write_all(answer).await.unwrap();
            drop(theirs);
            asked.truncate(length);
            asked
        };
        let (made, asked) = tokio::join!(proxy.tunnel(&mut ours, "api:443"), talk);
        let asked = String::from_utf8(asked).unwrap();
        assert_eq!(asked, "CONNECT api:443 HTTP/1.1\r\nHost: api:443\r\nProxy-Authorization: Basic bWU6cHc=\r\n\r\n");
        made?;
        let mut rest = Vec::new();
        ours.read_to_end(&mut rest).await.unwrap();
        Ok(rest)
    }

    #[tokio::test]
    async fn a_tunnel_begins_right_after_the_head() {
        assert_eq!(answered(b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nrest").await.unwrap(), b"rest");
        let refused = answered(b"HTTP/1.1 407 Who are you\r\n\r\n").await;
        assert!(matches!(refused, Err(Failure::Proxy { status: 407, message }) if message == "Who are you"));
        assert!(matches!(answered(b"SSH-2.0\r\n\r\n").await, Err(Failure::Protocol(_))));
        assert!(matches!(answered(b"HTTP/1.1 2").await, Err(Failure::Closed { sent: false })));
    }
}
