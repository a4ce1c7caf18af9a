//! Sessions in a real redis-server, which Debian has: by TCP with a user of its ACL, by TLS, by a socket; killed and
//! started again meanwhile.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use sign_in::{Error, Record, RedisSettings, RedisStore, Secret, SessionId, Store};

use crate::{
    law::{self, MAX_LOGINS},
    now,
};

/// A server in a folder of its own.
struct Server {
    folder: PathBuf,
    port: u16,
    tls_port: u16,
    child: Option<Child>,
}

impl Server {
    fn new(name: &str) -> Server {
        let folder = std::env::temp_dir().join(format!("paceline-redis-{name}-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let authority = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(["localhost".into()]).unwrap().self_signed(&authority).unwrap();
        fs::write(folder.join("tls.pem"), certificate.pem()).unwrap();
        fs::write(folder.join("tls.key"), authority.serialize_pem()).unwrap();
        // It does not take port 0 for any free one.
        let free = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (plain, tls) = (free(), free());
        let (port, tls_port) = (plain.local_addr().unwrap().port(), tls.local_addr().unwrap().port());
        drop((plain, tls));
        let mut server = Server { folder, port, tls_port, child: None };
        server.start();
        server
    }

    fn start(&mut self) {
        let config = format!(
            "bind 127.0.0.1\nport {}\ntls-port {}\ntls-cert-file tls.pem\ntls-key-file tls.key\ntls-ca-cert-file tls.pem\n\
             tls-auth-clients no\nunixsocket redis.sock\nappendonly yes\nappendfsync always\nsave \"\"\n\
             user default off\nuser shop on >secret ~{{paceline:* +@all -@admin\n",
            self.port, self.tls_port
        );
        fs::write(self.folder.join("redis.conf"), config).unwrap();
        let child = Command::new("redis-server")
            .arg("redis.conf")
            .current_dir(&self.folder)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is missing: bin/setup test installs it");
        self.child = Some(child);
        let deadline = Instant::now() + Duration::from_secs(20);
        while !self.is_ready() {
            assert!(Instant::now() < deadline, "redis-server does not answer");
            std::thread::yield_now();
        }
    }

    /// It listens before it has read its file.
    fn is_ready(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let mut answer = String::new();
        stream.write_all(b"AUTH shop secret\r\nGET {paceline:none\r\nQUIT\r\n").is_ok()
            && stream.read_to_string(&mut answer).is_ok()
            && answer.contains("$-1")
    }

    /// As by `kill -9`.
    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn url(&self) -> String {
        format!("redis://shop:secret@127.0.0.1:{}/0", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn settings(url: &str) -> RedisSettings {
    RedisSettings {
        url: Secret::new(url),
        password: None,
        ca_file: None,
        prefix: RedisSettings::PREFIX.into(),
        max_logins: MAX_LOGINS,
    }
}

fn record() -> Record {
    Record { sealed: vec![7; 9_000], expires: now() + 60_000, ends: now() + 60_000, indexes: Vec::new() }
}

#[tokio::test]
async fn it_keeps_the_law_by_tcp_by_tls_and_by_a_socket() {
    let server = Server::new("law");
    law::keep(&RedisStore::open(settings(&server.url())).unwrap()).await;

    let tls = RedisSettings {
        password: Some(Secret::new("secret")),
        ca_file: Some(server.folder.join("tls.pem")),
        ..settings(&format!("rediss://shop@localhost:{}/0", server.tls_port))
    };
    law::keep(&RedisStore::open(tls.clone()).unwrap()).await;
    let strange = RedisStore::open(RedisSettings { ca_file: None, ..tls }).unwrap();
    let error = strange.get(SessionId::random().key(), now()).await.unwrap_err();
    assert!(error.to_string().contains("ertificate"), "it is nobody's certificate: {error}");

    let socket = format!("redis+unix://{}?user=shop&pass=secret", server.folder.join("redis.sock").display());
    law::keep(&RedisStore::open(settings(&socket)).unwrap()).await;
}

#[tokio::test]
async fn sessions_survive_a_server_that_is_killed() {
    let mut server = Server::new("killed");
    let store = RedisStore::open(settings(&server.url())).unwrap();
    let key = SessionId::random().key();
    store.insert(key, record()).await.unwrap();
    for _ in 0..3 {
        server.kill();
        server.start();
        let found = store.get(key, now()).await;
        assert!(found.as_ref().is_ok_and(Option::is_some), "the first call after it is back: {found:?}");
    }
}

#[tokio::test]
async fn while_it_is_away_that_is_said_and_nobody_is_signed_out() {
    let mut server = Server::new("away");
    server.kill();
    let store = RedisStore::open(settings(&server.url())).unwrap();
    let key = SessionId::random().key();
    let began = Instant::now();
    let error = store.get(key, now()).await.unwrap_err();
    assert!(
        matches!(&error, Error::Redis { server: said, .. } if said.ends_with(&format!(":{}", server.port))),
        "{error}"
    );
    assert!(!error.to_string().contains("secret") && !format!("{error:?}").contains("secret"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    server.start();
    let deadline = Instant::now() + Duration::from_secs(20);
    while let Err(error) = store.insert(key, record()).await {
        assert!(Instant::now() < deadline, "{error}");
    }
    assert!(store.get(key, now()).await.unwrap().is_some());
}

#[tokio::test]
async fn a_wrong_password_is_said_without_it() {
    let server = Server::new("password");
    let url = format!("redis://shop:open-sesame@127.0.0.1:{}/0", server.port);
    let store = RedisStore::open(settings(&url)).unwrap();
    let error = store.get(SessionId::random().key(), now()).await.unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("open-sesame"), "{shown}");
    assert!(!format!("{:?}", settings(&url)).contains("open-sesame"));
    assert!(RedisStore::open(settings("http://x")).is_err());
}
