//! Logout from either side, with the sessions that it ends.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    path::PathBuf,
    sync::{mpsc, Arc},
    thread,
    time::Duration,
};

use sign_in::{FileStore, Limits, Sessions};

use crate::{
    browser::{between, Browser},
    now, provider, sign_in, Server,
};

/// Our back-channel: the bodies of the requests that come.
fn listen() -> (String, mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/.paceline/sso/backchannel", listener.local_addr().unwrap());
    let (sender, bodies) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let mut reader = BufReader::new(stream);
            let mut length = 0;
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let _ = reader.into_inner().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            if sender.send(body).is_err() {
                return;
            }
        }
    });
    (url, bodies)
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
#[ignore = "needs Node.js: test/sso/run"]
async fn a_logout_at_the_provider_ends_the_sessions_here() {
    let (url, bodies) = listen();
    let server = Server::start(&format!(r#"{{ "backchannel": "{url}" }}"#));
    let provider = provider(&server);
    let folder = Folder(std::env::temp_dir().join(format!("paceline-openid-{}", std::process::id())));
    std::fs::create_dir(&folder.0).unwrap();
    let store = Arc::new(FileStore::open(&folder.0.join("sessions"), 10).unwrap());
    let sessions = Sessions::new(store, Limits::default(), "shop");

    // Two browsers of one person.
    let (mut here, mut there) = (Browser::default(), Browser::default());
    let proof = sign_in(&provider, &mut here, "alice").await.unwrap().proof;
    let (id, _) = sessions.sign_in(proof, now()).await.unwrap();
    let proof = sign_in(&provider, &mut there, "alice").await.unwrap().proof;
    let (other, _) = sessions.sign_in(proof, now()).await.unwrap();
    // A second site, or a second login, has the provider's session too.
    let proof = sign_in(&provider, &mut here, "alice").await.unwrap().proof;
    let (second, _) = sessions.sign_in(proof, now()).await.unwrap();

    // One signs out: here first, then the browser is sent to the provider, which asks once more.
    let after = "https://shop.example/";
    let session = sessions.sign_out(&id, now()).await.unwrap().unwrap();
    assert!(sessions.find(&id, now()).await.unwrap().is_none());
    let url = provider.logout_url(Some(&session), Some(after), now()).await.unwrap().unwrap();
    assert!(url.contains("id_token_hint=") && url.contains("client_id=shop"), "{url}");
    let end = here.follow(&url, |page| {
        let secret = between(page, "name=\"xsrf\" value=\"", "\"").expect(page);
        format!("xsrf={secret}&logout=yes")
    });
    assert_eq!(end, after);

    let body = bodies.recv_timeout(Duration::from_secs(20)).expect("the provider tells us");

    let logout = provider.verify_logout(&body, now()).await.unwrap();
    assert_eq!((logout.subject.as_deref(), &logout.sid), (Some("alice"), &session.identity.sid));
    assert_eq!(sessions.log_out(&logout, now()).await.unwrap(), Some(1), "the same person, in another tab");
    assert!(sessions.find(&second, now()).await.unwrap().is_none());
    assert!(sessions.find(&other, now()).await.unwrap().is_some(), "the other browser has a session of its own");
    assert_eq!(sessions.log_out(&logout, now()).await.unwrap(), None, "a token counts once");

    // What is no logout token ends nothing.
    let id_token = session.id_token.as_ref().unwrap().expose();
    let token = std::str::from_utf8(&body).unwrap().strip_prefix("logout_token=").unwrap();
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let changed = format!("{signed}.{}{signature}", if signature.starts_with('A') { "B" } else { "A" });
    for (form, why) in [
        (format!("logout_token={id_token}"), "events"),
        (format!("logout_token={changed}"), ""),
        (format!("logout_token={token}&logout_token={token}"), "several"),
        (format!("logout_token={signed}."), "signature"),
        (String::new(), "no logout_token"),
    ] {
        let error = provider.verify_logout(form.as_bytes(), now()).await.unwrap_err();
        assert!(error.is_final() && error.to_string().contains(why), "{form}: {error}");
    }
    let late = provider.verify_logout(&body, now() + 24 * 3_600_000 - 1).await.unwrap_err();
    assert!(late.to_string().contains("expired"), "{late}");
    let early = provider.verify_logout(&body, now() - 3_600_000).await.unwrap_err();
    assert!(early.to_string().contains("future"), "{early}");
}

#[tokio::test]
#[ignore = "needs Node.js: test/sso/run"]
async fn a_logout_token_for_another_client_ends_nothing() {
    let (url, bodies) = listen();
    let server = Server::start(&format!(r#"{{ "backchannel": "{url}" }}"#));
    let shop = provider(&server);
    let mut browser = Browser::default();
    let session = sign_in(&shop, &mut browser, "alice").await.unwrap().proof;
    let session = sign_in::Session::new(session, &Limits::default(), now());
    let url = shop.logout_url(Some(&session), None, now()).await.unwrap().unwrap();
    let form = |page: &str| format!("xsrf={}&logout=yes", between(page, "name=\"xsrf\" value=\"", "\"").expect(page));
    browser.follow_to_page(&url, form);
    let body = bodies.recv_timeout(Duration::from_secs(20)).expect("the provider tells us");

    let wiki = openid::Settings { client_id: "wiki".into(), ..crate::settings(&server.issuer) };
    let wiki = openid::Provider::new(wiki).unwrap();
    let error = wiki.verify_logout(&body, now()).await.unwrap_err();
    assert!(error.to_string().contains("another client (aud)"), "{error}");
    shop.verify_logout(&body, now()).await.unwrap();
}
