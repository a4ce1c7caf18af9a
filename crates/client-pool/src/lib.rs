//! Connections of an HTTP client: made, kept, shared and closed, for outbound calls and for sites with an upstream. TLS
//! is verified as strictly as by Ruby's OpenSSL; HTTP/2 is used where TLS agrees on it. It never decides what is asked,
//! never asks twice, and never follows a redirect.
//!
//! Reading order: `origin` (connections to one upstream), `opening` (a new one: `way`, `resolver`, `public`, `dial`,
//! `proxy`, `trust`, `verifier`, `certificate`, `handshake`), `connection` and `stream` (HTTP on it), `breaker`,
//! `places` (of all upstreams together), `figures`, `failure` (why there is no response).

mod breaker;
mod certificate;
mod connection;
mod dial;
mod failure;
mod figures;
mod handshake;
mod opening;
mod origin;
mod places;
mod proxy;
mod public;
mod resolver;
mod stream;
mod trust;
mod verifier;
mod way;

pub use self::{
    connection::{ConnectTimes, Connection, HttpSettings, Protocol, RequestBody, UnansweredRequest},
    dial::dial,
    failure::Failure,
    figures::{CallFigures, Figures},
    opening::Connect,
    origin::{Lease, Limits, Origin},
    places::Places,
    proxy::Proxy,
    resolver::Resolver,
    trust::{check_ca_file, Trusts, WithRights},
    way::{TlsVersion, Trust, Verify, Way},
};
