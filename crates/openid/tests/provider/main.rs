//! Logins at a real identity provider, oidc-provider (test/sso/oidc), as a browser makes them; and what a provider that
//! is broken, or an attacker, would say. `test/sso/run` runs them: they need Node.js.

mod browser;
mod forged;
mod login;
mod logout;
mod server;
mod tls;

use std::time::{SystemTime, UNIX_EPOCH};

use openid::{Error, PendingLogin, Provider, Settings, SignedIn};
use sign_in::{ReturnTo, Secret};

use crate::{browser::Browser, server::Server};

const CALLBACK: &str = "https://shop.example/.paceline/sso/callback";

/// The provider has a clock of its own.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

fn settings(issuer: &str) -> Settings {
    Settings {
        issuer: issuer.into(),
        client_id: "shop".into(),
        client_secret: Some(Secret::new("secret-of-shop")),
        scopes: ["profile", "groups", "offline_access"].map(String::from).to_vec(),
        name_claim: "preferred_username".into(),
        groups_claim: Some("groups".into()),
        ca_file: None,
    }
}

fn provider(server: &Server) -> Provider {
    Provider::new(settings(&server.issuer)).unwrap()
}

/// Begins a login and goes through the provider's pages. The query that the browser comes back with.
async fn go(provider: &Provider, browser: &mut Browser, name: &str) -> (PendingLogin, String) {
    let return_to = ReturnTo::parse("/issues?set_filter=1").unwrap();
    let (url, pending) = provider.begin(return_to, CALLBACK, now()).await.unwrap();
    let back = browser.sign_in(&url, name);
    let query = back.strip_prefix(&format!("{CALLBACK}?")).expect("back at the callback").to_owned();
    (pending, query)
}

async fn sign_in(provider: &Provider, browser: &mut Browser, name: &str) -> Result<SignedIn, Error> {
    let (pending, query) = go(provider, browser, name).await;
    // As if it had been kept meanwhile.
    let pending = PendingLogin::from_bytes(&pending.to_bytes()).unwrap();
    provider.complete(pending, &query, now()).await
}
