//! A provider behind TLS, which speaks HTTP/2.

use std::{fs, path::PathBuf};

use openid::{Error, Outcome, Provider, Settings};
use sign_in::ReturnTo;

use crate::{now, settings, Server, CALLBACK};

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
#[ignore = "needs Node.js: test/sso/run"]
async fn only_a_provider_whose_certificate_is_trusted_is_believed() {
    let folder = Folder(std::env::temp_dir().join(format!("paceline-openid-tls-{}", std::process::id())));
    fs::create_dir(&folder.0).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(["localhost".into()]).unwrap().self_signed(&key).unwrap();
    fs::write(folder.0.join("tls.pem"), certificate.pem()).unwrap();
    fs::write(folder.0.join("tls.key"), key.serialize_pem()).unwrap();
    let server = Server::start(&format!(r#"{{ "tls": "{}" }}"#, folder.0.display()));
    assert!(server.issuer.starts_with("https://localhost:"));

    let strange = Provider::new(settings(&server.issuer)).unwrap();
    let error = strange.discover(now()).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }) && error.to_string().contains("certificate"), "{error}");

    let ca_file = Some(folder.0.join("tls.pem"));
    let provider = Provider::new(Settings { ca_file, ..settings(&server.issuer) }).unwrap();
    let lines = provider.check(CALLBACK, now()).await;
    assert!(lines.iter().all(|line| line.outcome != Outcome::Failed), "{lines:#?}");
    // A POST too: the code is nobody's.
    let (_, pending) = provider.begin(ReturnTo::root(), CALLBACK, now()).await.unwrap();
    let issuer = server.issuer.replace(':', "%3A").replace('/', "%2F");
    let query = format!("state={}&code=nobody-s&iss={issuer}", pending.state.expose());
    let error = provider.complete(pending, &query, now()).await.unwrap_err();
    assert!(matches!(&error, Error::Refused { code, .. } if code == "invalid_grant"), "{error}");
}
