//! The control listener's address and token. Beyond loopback there is none without a token.
//! It never opens a socket.

use std::net::SocketAddr;

use super::{control_address::parse, layer::View, value::ValueError};

/// Where the control routes are served over TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlWeb {
    pub address: SocketAddr,
    /// None: who asks from this machine may read.
    pub token: Option<Token>,
}

/// A secret, which is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(pub String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// Why the control routes are not served over TCP.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlWebError {
    #[error("control_url: {0}")]
    Url(#[from] ValueError),
    /// Other machines would be let in.
    #[error(
        "control_url {url} is reachable from other machines: set control_token too (`openssl rand -hex 16` makes one)"
    )]
    Unprotected { url: String },
}

/// Err: it would let other machines in.
pub fn settings(view: &View) -> Result<Option<ControlWeb>, ControlWebError> {
    let token = view.text("control_token").filter(|token| token != "none").map(Token);
    let Some(url) = view.text("control_url") else { return Ok(None) };
    let Some(address) = parse(&url)? else { return Ok(None) };
    if token.is_none() && !address.ip().to_canonical().is_loopback() {
        return Err(ControlWebError::Unprotected { url });
    }
    Ok(Some(ControlWeb { address, token }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options;
    use crate::config::{Layer, Value};

    fn web(url: &str, token: Option<&str>) -> Result<Option<ControlWeb>, ControlWebError> {
        let mut layer = Layer::default();
        layer.set("control_url", Value::Text(url.into()));
        token.into_iter().for_each(|token| layer.set("control_token", Value::Text(token.into())));
        settings(&options::view(vec![&layer], 1))
    }

    #[test]
    fn only_loopback_goes_without_a_token() {
        let address = |url| web(url, None).unwrap().map(|web| web.address.to_string());
        assert_eq!(address("tcp://127.0.0.1:9293").unwrap(), "127.0.0.1:9293");
        assert_eq!(address("tcp://[::1]:0").unwrap(), "[::1]:0");
        assert_eq!((address("unix:///run/p.sock"), address("auto")), (None, None));
        for (url, token) in
            [("tcp://0.0.0.0:9293", None), ("tcp://[::]:9293", None), ("tcp://192.0.2.1:1", Some("none"))]
        {
            assert!(web(url, token).unwrap_err().to_string().contains("set control_token"), "{url}");
        }
        let open = web("tcp://0.0.0.0:9293", Some("0123456789abcdef")).unwrap().unwrap();
        assert_eq!(format!("{:?}", open.token), "Some(Token)");
    }
}
