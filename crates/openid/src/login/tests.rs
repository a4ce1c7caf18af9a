//! Login requests and ID tokens that are damaged, old or of somebody else.

use super::*;

#[test]
fn a_login_comes_back_from_its_bytes_and_shows_nothing() {
    let pending = PendingLogin {
        state: Secret::new("the-state"),
        return_to: ReturnTo::parse("/issues?a=b").unwrap(),
        expires: 7,
        nonce: Secret::new("the-nonce"),
        verifier: Secret::new("the-verifier"),
        redirect_uri: "https://shop.example/.paceline/sso/callback".into(),
    };
    let again = PendingLogin::from_bytes(&pending.to_bytes()).unwrap();
    assert!(again.state.is("the-state") && again.nonce.is("the-nonce") && again.verifier.is("the-verifier"));
    assert_eq!((again.return_to.as_str(), again.expires), ("/issues?a=b", 7));
    assert_eq!(again.redirect_uri, pending.redirect_uri);
    let shown = format!("{again:?}");
    assert!(!["the-state", "the-nonce", "the-verifier"].iter().any(|word| shown.contains(word)), "{shown}");
    let elsewhere = String::from_utf8(pending.to_bytes()).unwrap().replace("/issues", "//evil.example");
    assert!(PendingLogin::from_bytes(elsewhere.as_bytes()).is_none());
}

#[test]
fn a_callback_with_a_parameter_twice_is_refused() {
    let found = Callback::parse("state=a%20b&code=c&iss=https%3A%2F%2Fid.example&session_state=x&&=").unwrap();
    assert_eq!(found.state.as_deref(), Some("a b"));
    assert_eq!((found.code.as_deref(), found.issuer.as_deref()), (Some("c"), Some("https://id.example")));
    let refused = Callback::parse("error=access_denied&error_description=no%0d%0athanks").unwrap();
    assert_eq!((refused.error.as_deref(), refused.description.as_str()), (Some("access_denied"), "nothanks"));
    for query in ["state=a&state=a", "code=a&state=b&code=c", "iss=a&iss=b", &format!("a={}", "b".repeat(MAX_QUERY))] {
        assert!(Callback::parse(query).is_err(), "{query}");
    }
    assert!(Provider::state_of("code=a").is_err());
}

#[test]
fn a_token_that_is_not_valid_yet_is_refused() {
    let now = 1_000_000_000_000;
    let check = |claims: serde_json::Value| check_beginning(claims.as_object().unwrap(), now).is_ok();
    let (second, leeway) = (now / 1000, LEEWAY / 1000);
    for (nbf, is_valid) in
        [(second, true), (second - 3600, true), (second + leeway, true), (second + leeway + 1, false)]
    {
        assert_eq!(check(serde_json::json!({ "nbf": nbf })), is_valid, "{nbf}");
    }
    assert!(check(serde_json::json!({ "sub": "alice" })));
    assert!(!check(serde_json::json!({ "nbf": "soon" })) && !check(serde_json::json!({ "nbf": null })));
}
