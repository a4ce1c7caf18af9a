//! A public folder: which of its files answers a request, and with what head.
//! It never falls back to the app itself; None tells the caller to.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use http::{header, request::Parts, HeaderMap, HeaderValue, Method, Response, StatusCode};
use rustix::io::Errno;

use super::{
    body::{self, FileBody},
    content_type::content_type,
    encoding::{self, Twin},
    fingerprint::is_fingerprinted,
    open_file::{self, OpenFile},
    path, response,
    top::Top,
};
use crate::support::site_files::SiteFiles;
use http_guard::coding::AcceptEncoding;
use unix_user::Reader;

/// How often a file is looked up again when it shrank between being opened and being read.
const ATTEMPTS: usize = 3;
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

#[derive(Debug)]
pub struct Folder {
    public: PathBuf,
    cache_control: Option<HeaderValue>,
    /// None: each name is looked for.
    top: Option<Top>,
    files: SiteFiles,
}

/// What answers a request: which of the candidates, that file, and its compressed twins.
type Found = (usize, OpenFile, Vec<Twin>);

impl Folder {
    /// `max_age` is for files without a fingerprint in their name. None: no Cache-Control. `public` may be a symlink;
    /// it is followed anew for each request, and need not exist.
    pub fn new(public: PathBuf, files: SiteFiles, max_age: Option<Duration>) -> Folder {
        let cache_control =
            max_age.and_then(|age| HeaderValue::try_from(format!("public, max-age={}", age.as_secs())).ok());
        Folder { public, cache_control, top: None, files }
    }

    /// For a folder beside an app, where most requests mean no file: what is not there is known without a look at the
    /// disk, from names that are read twice a second at most. A new file is served that much later.
    pub fn glancing(self) -> Folder {
        Folder { top: Some(Top::default()), ..self }
    }

    /// Whether no file can have this name, as far as is known. Costs next to nothing.
    pub fn lacks(&self, url_path: &str) -> bool {
        self.top.as_ref().is_some_and(|top| top.lacks(&self.files, &self.public, url_path))
    }

    /// The finished response to a GET or HEAD for one of the files. None: no such file, or another method; the request
    /// goes on to the app. A file that can't be read for want of descriptors is 503, one on a failing disk 500.
    pub async fn answer(&self, head: &Parts) -> Option<Response<FileBody>> {
        let is_read = head.method == Method::GET || head.method == Method::HEAD;
        let candidates = is_read.then(|| path::candidates(head.uri.path())).flatten()?;
        self.first_of(&candidates, &head.method, &head.headers).await
    }

    /// 405 where a file has this name but the method is neither GET nor HEAD; for sites that have no app to ask.
    pub async fn method_not_allowed(&self, head: &Parts) -> Option<Response<FileBody>> {
        if head.method == Method::GET || head.method == Method::HEAD {
            return None;
        }
        let candidates = path::candidates(head.uri.path())?;
        self.find(&candidates).await.ok()??;
        let mut response = bare(StatusCode::METHOD_NOT_ALLOWED);
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        Some(response)
    }

    async fn first_of(&self, candidates: &[PathBuf], method: &Method, asked: &HeaderMap) -> Option<Response<FileBody>> {
        let mut outcome = Ok(None);
        for _ in 0..ATTEMPTS {
            outcome = match self.find(candidates).await {
                Ok(Some((at, file, twins))) => {
                    self.represent(&candidates[at], file, twins, method, asked).await.map(Some)
                }
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            if !matches!(&outcome, Err(error) if error.kind() == io::ErrorKind::UnexpectedEof) {
                break;
            }
        }
        outcome.unwrap_or_else(|error| Some(unreadable(&error)))
    }

    async fn find(&self, candidates: &[PathBuf]) -> io::Result<Option<Found>> {
        if let Some(found) = self.files.at_once(|reader| find(reader, &self.public, candidates)) {
            return found;
        }
        let (public, candidates) = (self.public.clone(), candidates.to_vec());
        self.files.wait(move |reader| find(reader, &public, &candidates)).await
    }

    async fn represent(
        &self,
        relative: &Path,
        original: OpenFile,
        twins: Vec<Twin>,
        method: &Method,
        asked: &HeaderMap,
    ) -> io::Result<Response<FileBody>> {
        let mut head = Response::new(());
        let fields = head.headers_mut();
        fields.insert(header::CONTENT_TYPE, content_type(relative));
        if is_fingerprinted(relative) {
            fields.insert(header::CACHE_CONTROL, IMMUTABLE);
        } else if let Some(cache_control) = &self.cache_control {
            fields.insert(header::CACHE_CONTROL, cache_control.clone());
        }
        let mut selected = original;
        if !twins.is_empty() {
            fields.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
            let accepted = AcceptEncoding::from_headers(asked);
            if let Some((coding, twin)) = encoding::choose(twins, &accepted) {
                fields.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
                selected = twin;
            }
        }
        let validators = selected.validators(SystemTime::now());
        response::fill_in_validators(fields, &validators);
        response::compose(method, asked, head, &selected, &validators).await
    }
}

/// The first candidate that is there.
fn find(reader: Reader, public: &Path, candidates: &[PathBuf]) -> io::Result<Option<Found>> {
    for (at, relative) in candidates.iter().enumerate() {
        let path = public.join(relative);
        if let Some(file) = open_file::open_if_present(reader, &path)? {
            let twins = encoding::twins(reader, &path, &file)?;
            return Ok(Some((at, file, twins)));
        }
    }
    Ok(None)
}

fn unreadable(error: &io::Error) -> Response<FileBody> {
    let overloaded =
        matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN));
    // A file that keeps shrinking is being rewritten: it too will be there in a moment.
    if !overloaded && error.kind() != io::ErrorKind::UnexpectedEof {
        return bare(StatusCode::INTERNAL_SERVER_ERROR);
    }
    let mut response = bare(StatusCode::SERVICE_UNAVAILABLE);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn bare(status: StatusCode) -> Response<FileBody> {
    let mut response = Response::new(body::empty());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_LENGTH, 0.into());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_files_are_the_servers_fault() {
        for (error, status) in [
            (io::Error::from(Errno::MFILE), 503),
            (io::Error::from(Errno::NFILE), 503),
            (io::ErrorKind::UnexpectedEof.into(), 503),
            (io::Error::from(Errno::IO), 500),
        ] {
            assert_eq!(unreadable(&error).status(), status, "{error}");
        }
    }
}
