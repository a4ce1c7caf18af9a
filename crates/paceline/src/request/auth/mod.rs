//! Single sign-on: whose request it is, proved by a ticket, a password or an identity provider, and whether they may
//! come in. It says what is to be answered and never makes a page of it; it never lets a client say who it is.
//!
//! Reading order: `gate` (a request's way through it), `header` (what a request says), `offer` (what those get who have
//! proved nothing), `provider` (how people are checked), `openid` (the addresses that identity providers lead to),
//! `opening` (from the settings to what checks).

mod gate;
mod header;
mod offer;
mod openid;
pub mod opening;
mod provider;
mod refusal;

use std::borrow::Cow;

use http::{HeaderName, HeaderValue, StatusCode};

pub use self::{
    gate::{Gate, Glance, PartAdmission},
    header::{remove_authorization, remove_identity, Credentials, Schemes},
    openid::MAX_FORM,
    provider::Way,
};

/// What a request gets at the gate in place of its page.
#[derive(Debug)]
pub struct GateAnswer {
    pub status: StatusCode,
    /// For people.
    pub sentence: Cow<'static, str>,
    /// For the log: a short name of what went wrong, and what it is.
    pub note: Option<(&'static str, String)>,
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// The page after a logout, with the address that signs in again.
    pub signed_out: Option<String>,
    /// HTTP/2 can't carry the answer: the client has to come by HTTP/1.1.
    pub needs_http1: bool,
}

impl GateAnswer {
    fn new(status: StatusCode, sentence: impl Into<Cow<'static, str>>) -> GateAnswer {
        GateAnswer {
            status,
            sentence: sentence.into(),
            note: None,
            fields: Vec::new(),
            signed_out: None,
            needs_http1: false,
        }
    }

    fn noted(mut self, kind: &'static str, text: impl Into<String>) -> GateAnswer {
        self.note = Some((kind, text.into()));
        self
    }

    /// A field; left out if it can't be one.
    fn with(mut self, name: HeaderName, value: &str) -> GateAnswer {
        self.fields.extend(HeaderValue::from_str(value).ok().map(|value| (name, value)));
        self
    }
}
