//! The room as a whole: a folder on disk, a request head in, a response out.
//! It never waits for a clock: files get the times a test needs.

mod app_file;
mod bodies;
mod conditions;
mod lookup;
mod twins;

use std::{
    fs::{self, File},
    io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{request::Parts, HeaderName, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;

use super::{FileBody, Folder};
use crate::support::site_files::SiteFiles;
use unix_user::RunAs;

/// 2001-09-09T01:46:40Z, the time of every file that a test writes.
const LONG_AGO: u64 = 1_000_000_000;
const LONG_AGO_DATE: &str = "Sun, 09 Sep 2001 01:46:40 GMT";

struct Public {
    root: PathBuf,
}

impl Public {
    fn new() -> Public {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("paceline-static-{}-{count}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        Public { root }
    }

    fn with(files: &[(&str, &str)]) -> Public {
        let public = Public::new();
        for (name, content) in files {
            public.write(name, content.as_bytes());
        }
        public
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn write(&self, name: &str, content: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        self.set_time(name, SystemTime::UNIX_EPOCH + Duration::from_secs(LONG_AGO));
    }

    fn set_time(&self, name: &str, time: SystemTime) {
        File::options().append(true).open(self.path(name)).unwrap().set_modified(time).unwrap();
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.path(name)).unwrap();
    }

    fn folder(&self) -> Folder {
        Folder::new(self.root.clone(), files(), None)
    }

    async fn get(&self, url: &str, fields: &[(&str, &str)]) -> Option<Answer> {
        self.ask(Method::GET, url, fields).await
    }

    async fn ask(&self, method: Method, url: &str, fields: &[(&str, &str)]) -> Option<Answer> {
        let response = self.folder().answer(&request(method, url, fields)).await?;
        Some(Answer::read(response).await.unwrap())
    }
}

impl Drop for Public {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn files() -> SiteFiles {
    SiteFiles::new(RunAs::Ourselves)
}

fn request(method: Method, url: &str, fields: &[(&str, &str)]) -> Parts {
    let mut builder = Request::builder().method(method).uri(url);
    for (name, value) in fields {
        builder = builder.header(*name, *value);
    }
    builder.body(()).unwrap().into_parts().0
}

/// A response with its body read.
#[derive(Debug)]
struct Answer {
    response: Response<Bytes>,
}

impl Answer {
    async fn read(response: Response<FileBody>) -> io::Result<Answer> {
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer { response: Response::from_parts(head, body) })
    }

    fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// Empty where there is no such field.
    fn field(&self, name: impl TryInto<HeaderName>) -> &str {
        let name = name.try_into().ok().unwrap();
        self.response.headers().get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn text(&self) -> &str {
        std::str::from_utf8(self.response.body()).unwrap()
    }
}
