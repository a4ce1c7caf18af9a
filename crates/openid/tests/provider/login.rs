//! Logins, refreshing, and a provider that is away.

use std::sync::Arc;

use openid::{Error, Outcome, Provider, Settings};
use sign_in::{Limits, Mechanism, ReturnTo, Secret, Session};

use crate::{browser::Browser, go, now, provider, settings, sign_in, Server, CALLBACK};

#[tokio::test]
#[ignore = "needs Node.js: test/sso/run"]
async fn somebody_signs_in_and_comes_back_to_the_page() {
    let server = Server::start(r#"{ "backchannel": "http://127.0.0.1:9/" }"#);
    let provider = provider(&server);
    let signed_in = sign_in(&provider, &mut Browser::default(), "alice").await.unwrap();
    assert_eq!(signed_in.return_to.as_str(), "/issues?set_filter=1");
    let proof = signed_in.proof;
    assert_eq!((proof.identity.name.as_str(), proof.mechanism), ("alice", Mechanism::OpenId));
    assert_eq!(proof.identity.groups, ["staff", "admins"]);
    assert_eq!(proof.identity.subject.as_deref(), Some("alice"));
    assert!(proof.identity.sid.is_some());
    assert!(proof.refresh_token.is_some() && proof.id_token.is_some());
    let left = proof.proved_until.unwrap() - now();
    assert!((200_000..=300_000).contains(&left), "{left} ms");
    let shown = format!("{proof:?}");
    assert!(!shown.contains("alice") && !shown.contains(proof.id_token.unwrap().expose()), "{shown}");
}

#[tokio::test]
#[ignore = "needs Node.js: test/sso/run"]
async fn claims_come_in_the_token_or_from_userinfo_and_500_groups_are_no_problem() {
    for options in ["{}", r#"{ "inIdToken": true }"#] {
        let server = Server::start(options);
        let signed_in = sign_in(&provider(&server), &mut Browser::default(), "many").await.unwrap();
        assert_eq!(signed_in.proof.identity.groups.len(), 500, "{options}");
    }
}

#[tokio::test]
#[ignore = "needs Node.js: test/sso/run"]
async fn a_client_without_a_secret_signs_in_too() {
    let server = Server::start("{}");
    let public = Settings { client_id: "public".into(), client_secret: None, ..settings(&server.issuer) };
    let provider = Provider::new(public).unwrap();
    assert!(sign_in(&provider, &mut Browser::default(), "alice").await.is_ok());
    let wrong = Settings { client_secret: Some(Secret::new("wrong")), ..settings(&server.issuer) };
    let provider = Provider::new(wrong).unwrap();
    let error = sign_in(&provider, &mut Browser::default(), "alice").await.unwrap_err();
    assert!(matches!(&error, Error::Refused { code, .. } if code == "invalid_client"), "{error}");
}

#[tokio::test]
#[ignore = "needs Node.js: test/sso/run"]
async fn a_code_counts_once_and_for_its_own_login() {
    let server = Server::start("{}");
    let provider = provider(&server);
    let mut browser = Browser::default();
    let (pending, query) = go(&provider, &mut browser, "alice").await;
    let kept = pending.to_bytes();
    let pending = || openid::PendingLogin::from_bytes(&kept).unwrap();
    let (other, other_query) = go(&provider, &mut browser, "alice").await;

    let replaced = |name: &str, value: &str| {
        let parts = query.split('&').map(|part| match part.split_once('=') {
            Some((own, _)) if own == name => format!("{name}={value}"),
            _ => part.to_owned(),
        });
        parts.collect::<Vec<_>>().join("&")
    };
    let issuer_of_somebody = replaced("iss", "https%3A%2F%2Fevil.example");
    let without_issuer = query.split('&').filter(|part| !part.starts_with("iss=")).collect::<Vec<_>>().join("&");
    for (query, why) in [
        (replaced("state", "tampered"), "state"),
        (other_query, "state"),
        (query.split('&').filter(|part| !part.starts_with("state=")).collect::<Vec<_>>().join("&"), "state"),
        (format!("{query}&code=another"), "twice"),
        (issuer_of_somebody, "another issuer"),
        (without_issuer, "does not name its issuer"),
    ] {
        let error = provider.complete(pending(), &query, now()).await.unwrap_err();
        assert!(matches!(error, Error::Response(_)) && error.to_string().contains(why), "{query}: {error}");
    }
    assert_eq!(provider.complete(pending(), &query, now() + 600_000).await.unwrap_err(), Error::TooLate);
    // The code of one login with the verifier of another one: what PKCE is for.
    let mixed = replaced("state", other.state.expose());
    let error = provider.complete(other, &mixed, now()).await.unwrap_err();
    assert!(matches!(&error, Error::Refused { code, .. } if code == "invalid_grant"), "{error}");

    let (pending, query) = go(&provider, &mut browser, "alice").await;
    let kept = pending.to_bytes();
    provider.complete(pending, &query, now()).await.unwrap();
    let again = openid::PendingLogin::from_bytes(&kept).unwrap();
    let error = provider.complete(again, &query, now()).await.unwrap_err();
    assert!(matches!(&error, Error::Refused { code, .. } if code == "invalid_grant"), "replayed: {error}");
}

#[tokio::test]
#[ignore = "needs Node.js: test/sso/run"]
async fn somebody_who_says_no_is_not_signed_in() {
    let server = Server::start("{}");
    let provider = provider(&server);
    let (url, pending) = provider.begin(ReturnTo::root(), CALLBACK, now()).await.unwrap();
    assert!(url.contains("code_challenge_method=S256"), "{url}");
    let back = Browser::default().refuse(&url);
    let query = back.split_once('?').unwrap().1;
    let error = provider.complete(pending, query, now()).await.unwrap_err();
    assert!(matches!(&error, Error::Refused { code, .. } if code == "access_denied"), "{error}");
}

#[tokio::test]
#[ignore = "needs Node.js: test/sso/run"]
async fn a_session_is_confirmed_until_the_provider_says_no() {
    let server = Server::start("{}");
    let provider = provider(&server);
    let proof = sign_in(&provider, &mut Browser::default(), "alice").await.unwrap().proof;
    let limits = Limits::default();
    let session = Session::new(proof, &limits, now());
    let newer = provider.refresh(&session, now()).await.unwrap();
    assert_eq!((newer.identity.name.as_str(), &newer.identity.sid), ("alice", &session.identity.sid));
    assert!(!newer.refresh_token.as_ref().unwrap().is(session.refresh_token.as_ref().unwrap().expose()));
    let renewed = session.renewed(newer, &limits, now()).unwrap();
    provider.refresh(&renewed, now()).await.unwrap();
    // The provider takes a token that is used twice for stolen, and ends all that came of it.
    let error = provider.refresh(&session, now()).await.unwrap_err();
    assert!(matches!(&error, Error::Refused { code, .. } if code == "invalid_grant") && error.is_final(), "{error}");
    let newer = sign_in(&provider, &mut Browser::default(), "alice").await.unwrap().proof;
    let session = Session::new(newer, &limits, now());
    server.test("no-userinfo");
    let half = provider.refresh(&session, now()).await.expect("the new refresh token is kept");
    assert_eq!(half.identity, session.identity);
    assert!(half.proved_until.unwrap() <= now() + 60_000, "and the rest is asked for soon");
    let session = session.renewed(half, &limits, now()).unwrap();
    server.test("back");
    provider.refresh(&session, now()).await.unwrap();
    server.test("away");
    let error = provider.refresh(&renewed, now()).await.unwrap_err();
    assert!(!error.is_final(), "it is only away: {error}");
}

#[tokio::test]
#[ignore = "needs Node.js: test/sso/run"]
async fn a_provider_that_is_away_is_found_when_it_is_back() {
    let server = Server::start("{}");
    server.test("away");
    let provider = provider(&server);
    let first = now();
    let error = provider.discover(first).await.unwrap_err();
    assert!(!error.is_final() && error.to_string().contains("503"), "{error}");
    server.test("back");
    assert_eq!(provider.discover(first + 1_000).await.unwrap_err(), error, "it is left alone for a moment");
    provider.discover(first + 2_000).await.unwrap();
    server.test("away");
    provider.discover(first + 23 * 3_600_000).await.expect("what is known serves on");
    assert!(provider.discover(first + 25 * 3_600_000).await.is_err(), "but not for ever");
    server.test("back");
    provider.discover(first + 25 * 3_600_000 + 2_000).await.unwrap();
}

#[tokio::test]
#[ignore = "needs Node.js: test/sso/run"]
async fn many_logins_at_once_ask_the_provider_once() {
    let server = Server::start("{}");
    let provider = Arc::new(provider(&server));
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let provider = provider.clone();
            tokio::spawn(async move { provider.begin(ReturnTo::root(), CALLBACK, now()).await.unwrap().0 })
        })
        .collect();
    let mut urls = std::collections::BTreeSet::new();
    for task in tasks {
        urls.insert(task.await.unwrap());
    }
    assert_eq!(urls.len(), 50, "each has its own state and nonce");
    let mut browser = Browser::default();
    let asked = browser.get(&format!("{}/test-count", server.issuer)).body;
    assert_eq!(asked, "1");
}

#[tokio::test]
#[ignore = "needs Node.js: test/sso/run"]
async fn who_answers_has_to_be_the_issuer_to_the_letter() {
    let server = Server::start("{}");
    let other = Settings { issuer: format!("{}/", server.issuer), ..settings(&server.issuer) };
    let error = Provider::new(other).unwrap().discover(now()).await.unwrap_err();
    assert!(matches!(error, Error::Issuer { .. }), "{error}");
}

#[tokio::test]
#[ignore = "needs Node.js: test/sso/run"]
async fn check_says_what_is_wrong() {
    let server = Server::start("{}");
    let look = async |settings: Settings, callback: &str, now: u64| {
        let lines = Provider::new(settings).unwrap().check(callback, now).await;
        let failed = lines.iter().filter(|line| line.outcome == Outcome::Failed);
        failed.map(|line| format!("{}: {}", line.subject, line.text)).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(look(settings(&server.issuer), CALLBACK, now()).await, "");
    let failed = look(settings(&server.issuer), CALLBACK, now() + 90_000).await;
    assert!(failed.starts_with("clock: this machine is") && failed.contains("ahead"), "{failed}");
    let failed = look(settings(&server.issuer), "https://wrong.example/callback", now()).await;
    assert!(failed.starts_with("callback: the provider answers 400") && failed.contains("wrong.example"), "{failed}");
    let failed = look(Settings { client_id: "nobody".into(), ..settings(&server.issuer) }, CALLBACK, now()).await;
    assert!(failed.contains("nobody"), "{failed}");
    let failed =
        look(Settings { issuer: format!("{}/", server.issuer), ..settings(&server.issuer) }, CALLBACK, now()).await;
    assert!(failed.starts_with("issuer: "), "{failed}");
    let issuer = server.issuer.clone();
    drop(server);
    let failed = look(settings(&issuer), CALLBACK, now()).await;
    assert!(failed.starts_with("reachable: ") && failed.contains("refused"), "{failed}");
}
