//! The identity provider: a process that ends with the test.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
};

use crate::browser::Browser;

pub struct Server {
    pub issuer: String,
    child: Child,
    /// Its end ends the provider, also if this process is killed.
    _input: ChildStdin,
}

impl Server {
    /// Starts it with these options, in JSON.
    pub fn start(options: &str) -> Server {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/sso/oidc");
        assert!(folder.join("node_modules").is_dir(), "oidc-provider is missing: bin/setup test installs it");
        let mut child = Command::new("node")
            .args(["provider.mjs", options])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("node is missing: bin/setup test installs it");
        let mut issuer = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut issuer).unwrap();
        let input = child.stdin.take().unwrap();
        let issuer = issuer.trim().to_owned();
        assert!(issuer.starts_with("http"), "the provider says no issuer, but {issuer:?}");
        Server { issuer, child, _input: input }
    }

    /// Has it do what no good provider does: see provider.mjs.
    pub fn test(&self, what: &str) {
        let answer = Browser::default().post(&format!("{}/test/{what}", self.issuer), "");
        assert_eq!(answer.body, "done", "{what}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
