//! Tokens that must not be believed, and keys that change.

use openid::Error;

use crate::{browser::Browser, now, provider, sign_in, Server};

#[tokio::test]
#[ignore = "needs Node.js: test/sso/run"]
async fn no_forged_token_signs_anybody_in() {
    let server = Server::start("{}");
    let provider = provider(&server);
    let mut browser = Browser::default();
    for (kind, why) in [
        ("signature", "signature is wrong"),
        ("changed", "signature is wrong"),
        ("audience", "another client (aud)"),
        ("audiences", "another client (azp)"),
        ("issuer", "another issuer"),
        ("expired", "expired"),
        ("future", "in the future"),
        ("not-before", "nbf"),
        ("nonce", "nonce"),
        ("no-nonce", "nonce"),
        ("unknown-key", "none of the issuer's"),
        ("none", "not signed with a public key"),
        ("hs256", "not signed with a public key"),
        ("hs256-secret", "not signed with a public key"),
        ("garbage", "can't be read"),
    ] {
        server.test(&format!("forge/{kind}"));
        let error = sign_in(&provider, &mut browser, "alice").await.expect_err(kind);
        let text = error.to_string();
        assert!(matches!(error, Error::Token(_)) && text.contains(why), "{kind}: {text}");
        assert!(!text.contains("evil.example") && !text.contains("mallory"), "it repeats the token: {text}");
    }
    server.test("forge/trusted-audiences");
    sign_in(&provider, &mut browser, "alice").await.expect("for several, but issued to us");
}

#[tokio::test]
#[ignore = "needs Node.js: test/sso/run"]
async fn new_keys_are_asked_for_once_a_minute() {
    let server = Server::start("{}");
    let provider = provider(&server);
    let mut browser = Browser::default();
    sign_in(&provider, &mut browser, "alice").await.unwrap();
    server.test("rotate");
    sign_in(&provider, &mut browser, "alice").await.expect("the new keys are asked for");
    server.test("rotate");
    let error = sign_in(&provider, &mut browser, "alice").await.unwrap_err();
    assert!(error.to_string().contains("none of the issuer's"), "{error}");
    // An hour later all is asked for again.
    provider.discover(now() + 3_600_000).await.unwrap();
    sign_in(&provider, &mut browser, "alice").await.unwrap();
}
