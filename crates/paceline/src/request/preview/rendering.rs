//! One page as a copy of the application renders it at another time. It waits: for threads that may.
//! It never decides whether the page may be stored.

use std::io;

use doctor::protocol::{Patch, Replay, ReplayResult, Request};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use scheduled::Millis;
use tokio::runtime::Handle;
use unix_user::RunAs;

use crate::{
    apps::{app::App, generation::NotForked, startable_app::StartableApp},
    caching::scheduled::RenderedPage,
    origins::shadow::{Shadow, ShadowError, ShadowSocket},
    request::{forwarded::SURROGATE_CAPABILITY, fragments, route::Site},
};

/// After the whole second, so that no rounding in between makes it the moment before.
const JUST_AFTER: f64 = 0.001;
/// Fields that are the server's to say, or of one connection.
const NOT_KEPT: [&str; 8] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "server-timing",
    "transfer-encoding",
    "upgrade",
    "x-request-id",
];
/// Where the body is a file that the front sends.
const SENDS_A_FILE: [&str; 2] = ["x-sendfile", "x-accel-redirect"];

/// Why there is no copy of the application, or none any more.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    #[error(transparent)]
    NoCopy(#[from] NotForked),
    #[error("another server renders this site's pages")]
    OtherServer,
    #[error("the socket for a copy of the application: {0}")]
    Socket(#[from] io::Error),
    #[error("{0}")]
    Shadow(#[from] ShadowError),
}

/// A page to be rendered.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    pub scheme: &'a str,
    pub host: &'a str,
    /// Path and query.
    pub target: &'a str,
    pub headers: &'a HeaderMap,
    pub at: Millis,
}

/// What came of it.
#[derive(Debug)]
pub enum Rendered {
    Page(RenderedPage),
    /// It can't be known before. Why, and where in the application's code if that is known.
    Dynamic {
        why: String,
        at: String,
    },
    /// The application has failed: that says nothing of the page.
    Failed {
        why: String,
        at: String,
    },
}

/// The fields of a request, as the application gets them from this site: it may leave fragments to the server.
pub fn offering(site: &Site, sample: &HeaderMap) -> HeaderMap {
    let mut headers = sample.clone();
    headers.extend(fragments::capability(site).map(|capability| (SURROGATE_CAPABILITY, capability)));
    headers
}

/// A copy of the application, with a clock that is set for each page.
pub struct Renderer {
    shadow: Shadow,
    seed: u64,
    next: u64,
}

impl Renderer {
    /// Has the application forked. `event_loop`: on which its actor can be reached.
    pub fn fork(app: &App, event_loop: &Handle) -> Result<Renderer, RenderError> {
        let run_as = StartableApp::at(&app.site).ok().and_then(|found| found.run_as(&app.site).ok());
        let socket = ShadowSocket::open(&[std::env::temp_dir()], &run_as.unwrap_or_else(RunAs::own))?;
        event_loop.block_on(app.shadow(socket.path()))?;
        let mut shadow = Shadow::greet(socket.accept()?)?;
        shadow.patch(&Patch::named("sql_clock"))?;
        Ok(Renderer { shadow, seed: fastrand::u64(..), next: 1 })
    }

    pub fn render(&mut self, ask: &Ask<'_>) -> Result<Rendered, RenderError> {
        Ok(rendered(self.replay(ask, self.seed, 0.0)?))
    }

    /// Renders with other random numbers, a little later: what differs then is no difference.
    pub fn render_otherwise(&mut self, ask: &Ask<'_>) -> Result<Rendered, RenderError> {
        Ok(rendered(self.replay(ask, self.seed ^ 0x5eed, 1.0)?))
    }

    fn replay(&mut self, ask: &Ask<'_>, seed: u64, later: f64) -> Result<ReplayResult, ShadowError> {
        let (path, query) = ask.target.split_once('?').unwrap_or((ask.target, ""));
        let headers =
            ask.headers.iter().filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
        let request = Request {
            method: "GET".into(),
            path: path.into(),
            query: query.into(),
            scheme: ask.scheme.into(),
            host: ask.host.into(),
            headers: headers.collect(),
            user: None,
        };
        let id = self.next;
        self.next += 1;
        let clock = ask.at as f64 / 1000.0 + JUST_AFTER + later;
        // It asks others as it would: their answers are those of now.
        self.shadow.replay(Replay::plain(id, request, clock, seed))
    }
}

impl Drop for Renderer {
    fn drop(&mut self) {
        // It ends with its socket, too; one that is stuck in a page does not.
        self.shadow.kill();
    }
}

fn rendered(result: ReplayResult) -> Rendered {
    if let Some(note) = result.write {
        let why = match note.kind.as_str() {
            "clock" => format!("{} in SQL", note.what),
            kind => format!("it writes ({kind}: {})", note.what),
        };
        return Rendered::Dynamic { why, at: note.at };
    }
    if let Some(error) = result.error {
        return Rendered::Failed { why: format!("{}: {}", error.class, error.message), at: error.at };
    }
    let dynamic = |why: &str| Rendered::Dynamic { why: why.into(), at: String::new() };
    let Ok(status) = StatusCode::from_u16(result.status) else { return dynamic("no status") };
    if status.is_server_error() {
        return Rendered::Failed { why: format!("status {}", status.as_u16()), at: String::new() };
    }
    let mut headers = HeaderMap::new();
    for (name, value) in &result.headers {
        let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) else {
            continue;
        };
        if SENDS_A_FILE.contains(&name.as_str()) {
            return dynamic("its body is a file");
        }
        if !NOT_KEPT.contains(&name.as_str()) {
            headers.append(name, value);
        }
    }
    Rendered::Page(RenderedPage { status, headers, body: result.body.into() })
}

#[cfg(test)]
mod tests {
    use doctor::protocol::{ErrorNote, WriteNote};

    use super::*;

    fn why(result: ReplayResult) -> (String, String) {
        match rendered(result) {
            Rendered::Dynamic { why, at } | Rendered::Failed { why, at } => (why, at),
            Rendered::Page(page) => panic!("{page:?}"),
        }
    }

    #[test]
    fn why_a_page_stays_dynamic() {
        let note =
            |kind: &str, what: &str| Some(WriteNote { what: what.into(), at: "app/a.rb:4".into(), kind: kind.into() });
        let at = || "app/a.rb:4".to_owned();
        let clock = ReplayResult { status: 200, write: note("clock", "NOW()"), ..ReplayResult::default() };
        assert_eq!(why(clock), ("NOW() in SQL".into(), at()));
        let write = ReplayResult { status: 500, write: note("sql", "INSERT INTO x"), ..ReplayResult::default() };
        assert_eq!(why(write), ("it writes (sql: INSERT INTO x)".into(), at()));
        let error = ErrorNote { class: "ArgumentError".into(), message: "no".into(), at: at() };
        assert_eq!(
            why(ReplayResult { status: 500, error: Some(error), ..ReplayResult::default() }).0,
            "ArgumentError: no"
        );
        let is_failure = |status, error| {
            matches!(rendered(ReplayResult { status, error, ..ReplayResult::default() }), Rendered::Failed { .. })
        };
        let error = ErrorNote { class: "ArgumentError".into(), message: "no".into(), at: at() };
        assert!(is_failure(500, Some(error)) && is_failure(503, None) && !is_failure(404, None));
        let headers = vec![("X-Sendfile".into(), "/x".into())];
        assert_eq!(why(ReplayResult { status: 200, headers, ..ReplayResult::default() }).0, "its body is a file");
    }

    #[test]
    fn what_the_server_says_itself_is_not_the_page_s() {
        let headers = [("Content-Length", "2"), ("ETag", "\"a\""), ("Date", "x"), ("bad name", "x")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let result = ReplayResult { status: 200, headers, body: b"hi".to_vec(), ..ReplayResult::default() };
        let Rendered::Page(page) = rendered(result) else { panic!("no page") };
        assert_eq!(
            (page.headers.len(), &page.headers["etag"], &page.body[..]),
            (1, &HeaderValue::from_static("\"a\""), &b"hi"[..])
        );
    }
}
