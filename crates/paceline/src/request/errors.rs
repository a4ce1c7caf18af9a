//! The responses the front makes itself, and the last touches to the app's: one place that turns what went wrong into a
//! status, a page and a note in the log.
//! It never talks to workers.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use http::{header, request::Parts, HeaderName, HeaderValue, Response, StatusCode};
use units::show_duration;

use crate::{
    content::{body::ResponseBody, static_files},
    exchange::{
        incoming::{LeftUnread, Unread},
        Exchange,
    },
    observe::incidents::Failed,
    origins::{
        upstream,
        workers::{
            dispatch::{origin::Unavailable, queue::Refused, Failure, RetryRefusal},
            protocol::frame::AppError,
        },
    },
    request::{front::Front, pages, route::Site},
};
use http_guard::{
    guard::SLOW_BODY,
    strict::{BadBody, Refusal},
};
use startup_report::{StartupReport, Suggestion};
use unix_user::RunAs;

type Answer = Response<ResponseBody>;

/// Seconds after which a client that found the queue full may try again.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");
/// Seconds for a crawler: those that know the field come back later, and slow down.
const CRAWLERS_RETRY_AFTER: HeaderValue = HeaderValue::from_static("30");

/// The app's own response: a file it names (X-Sendfile, X-Accel-Redirect) takes the place of the body.
pub async fn from_app(site: &Site, head: &Parts, exchange: &mut Exchange, mut response: Answer) -> Answer {
    if response.status().is_server_error() {
        let raised = response.extensions_mut().remove::<Arc<AppError>>();
        let failed = raised.as_deref().map(failed_by).unwrap_or_default();
        remember(site, head, exchange, Failed { status: response.status().as_u16(), ..failed });
        if let Some(error) = raised {
            exchange.log.note = Some(format!("raised {}", error.class));
            if site.shows_details() {
                let raised = RaisedError::of(site, head, exchange, error);
                response.extensions_mut().insert(PageOfFiles::Advice(Arc::new(raised)));
            }
        }
    }
    let Some(path) = site.config.x_sendfile.then(|| sendfile_path(site, &response)).flatten() else { return response };
    let (parts, _) = response.into_parts();
    let sent = match &site.files {
        // On the heap, so that other responses have no room for it.
        Some(files) => Box::pin(static_files::send_file(head, Response::from_parts(parts, ()), files, &path)).await,
        None => Err(std::io::ErrorKind::PermissionDenied.into()),
    };
    match sent {
        Ok(response) => response.map(ResponseBody::stream),
        Err(error) => {
            exchange.log.note = Some(format!("the app sent {}: {error}", path.display()));
            status(site, head, exchange, StatusCode::NOT_FOUND, "The file of this page is missing.")
        }
    }
}

/// A request that failed in the application, for its page in the dashboard.
#[cold]
fn remember(site: &Site, head: &Parts, exchange: &Exchange, failed: Failed) {
    let Some(app) = &site.app else { return };
    app.incidents.failed(Failed {
        site: site.config.name.clone(),
        method: head.method.as_str().into(),
        path: head.uri.path().into(),
        request: exchange.id.clone(),
        ..failed
    });
}

/// The exception, as the dashboard shows it.
fn failed_by(error: &AppError) -> Failed {
    let AppError { class, message, file, line, backtrace, .. } = error.clone();
    Failed { class, message, file, line, backtrace, ..Failed::default() }
}

const X_SENDFILE: HeaderName = HeaderName::from_static("x-sendfile");
const X_ACCEL_REDIRECT: HeaderName = HeaderName::from_static("x-accel-redirect");

/// X-Sendfile names a file by its path; X-Accel-Redirect names one below the site's root.
fn sendfile_path(site: &Site, response: &Answer) -> Option<PathBuf> {
    let value = |name| response.headers().get(name).and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
    if let Some(path) = value(X_SENDFILE) {
        return Some(site.config.root.join(path));
    }
    let internal: Vec<u8> = percent_encoding::percent_decode_str(value(X_ACCEL_REDIRECT)?).collect();
    let below = Path::new(OsStr::from_bytes(&internal)).strip_prefix("/").unwrap_or(Path::new(""));
    let plain = below.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    // Nothing outside the root: the root itself is no file.
    Some(if plain { site.config.root.join(below) } else { site.config.root.clone() })
}

/// A page that is made of files of the site, which nobody reads on an event loop: `complete` puts it in the place of a response's body.
#[derive(Clone)]
enum PageOfFiles {
    /// `public/STATUS.html`.
    Public,
    Exception(Arc<RaisedError>),
    /// The application's own page of it, with what to do.
    Advice(Arc<RaisedError>),
}

/// What the page of an exception shows.
struct RaisedError {
    error: Arc<AppError>,
    root: PathBuf,
    environment: String,
    request_line: String,
    id: String,
    accept: Option<String>,
}

/// A page with a status, in the form the client accepts. `complete` has `public/STATUS.html` come first for browsers.
pub fn status(site: &Site, head: &Parts, exchange: &Exchange, status: StatusCode, sentence: &str) -> Answer {
    let accept = accept(head);
    let (content_type, body) = pages::render(status.as_u16(), accept, Some(sentence), Some(&exchange.id));
    let mut answer = page_response(status, content_type, body);
    if site.files.is_some() && accept.is_some_and(|accept| accept.contains("text/html")) {
        answer.extensions_mut().insert(PageOfFiles::Public);
    }
    answer
}

/// The response with the page that was left to be read from files.
pub async fn complete(site: &Site, mut answer: Answer) -> Answer {
    let page = answer.extensions_mut().remove::<PageOfFiles>();
    let Some((page, files)) = page.zip(site.files.as_ref()) else { return answer };
    let made = match page {
        PageOfFiles::Public => {
            let path = site.config.root.join(&site.config.public).join(format!("{}.html", answer.status().as_u16()));
            let read = move |reader| Ok(pages::public_page(reader, &path));
            files.wait(read).await.unwrap_or(None).map(|page| ("text/html; charset=utf-8", page))
        }
        PageOfFiles::Exception(raised) => {
            let run_as = files.run_as().clone();
            files.beside(move || raised.page(&run_as)).await.ok()
        }
        PageOfFiles::Advice(raised) => {
            let run_as = files.run_as().clone();
            let found = files.beside(move || raised.suggestion(&raised.failure(), &run_as)).await.ok().flatten();
            return match found {
                Some(found) => pages::advise(answer, &found, &site.config.root),
                None => answer,
            };
        }
    };
    if let Some((content_type, body)) = made {
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        *answer.body_mut() = ResponseBody::Whole(body);
    }
    answer
}

impl RaisedError {
    fn of(site: &Site, head: &Parts, exchange: &Exchange, error: Arc<AppError>) -> RaisedError {
        RaisedError {
            error,
            root: site.config.root.clone(),
            environment: site.config.environment.clone(),
            request_line: format!("{} {}", head.method, head.uri),
            id: exchange.id.to_string(),
            accept: accept(head).map(str::to_owned),
        }
    }

    fn failure(&self) -> startup_report::Failure {
        AppError::clone(&self.error).into()
    }

    fn suggestion(&self, failure: &startup_report::Failure, read_as: &RunAs) -> Option<Suggestion> {
        startup_report::suggest_for_request(failure, &self.root, &self.environment, Some(read_as))
    }

    /// It reads the source with the rights of `read_as`.
    fn page(&self, read_as: &RunAs) -> pages::Page {
        let failure = self.failure();
        let suggestion = self.suggestion(&failure, read_as);
        let exception = pages::AppException {
            failure: &failure,
            suggestion: suggestion.as_ref(),
            root: &self.root,
            read_as: Some(read_as),
            request_line: &self.request_line,
            id: &self.id,
        };
        pages::exception(&exception, self.accept.as_deref())
    }
}

/// CONNECT asks for a proxy (RFC 9110 section 9.3.6), and 2xx would turn the connection into a tunnel to nowhere.
pub fn no_tunnel(head: &Parts, exchange: &Exchange) -> Answer {
    let sentence = "This server is no proxy.";
    let (content_type, body) = pages::render(501, accept(head), Some(sentence), Some(&exchange.id));
    page_response(StatusCode::NOT_IMPLEMENTED, content_type, body)
}

/// A request that is not looked at further.
pub fn refused(head: &Parts, exchange: &mut Exchange, status: StatusCode, sentence: &'static str) -> Answer {
    exchange.log.note = Some(sentence.into());
    let (content_type, body) = pages::render(status.as_u16(), accept(head), Some(sentence), Some(&exchange.id));
    page_response(status, content_type, body)
}

/// Where a browser arrives that has signed out. `again`: the address that signs in once more.
pub fn signed_out(head: &Parts, again: &str) -> Answer {
    let (content_type, body) = pages::signed_out(accept(head), again);
    page_response(StatusCode::OK, content_type, body)
}

/// A host that no site answers. In development a list of those there are.
pub fn unknown_host(front: &Front, head: &Parts, host: &str, exchange: &mut Exchange) -> Answer {
    exchange.log.note = Some(format!("no site for host {host}"));
    let routes = front.routes();
    if front.config.site_defaults.environment == "production" {
        let sentence = "This server has no site of that name: the name in the address chooses the site.";
        let (content_type, body) = pages::render(421, accept(head), Some(sentence), Some(&exchange.id));
        return page_response(StatusCode::MISDIRECTED_REQUEST, content_type, body);
    }
    let scheme = exchange.client.scheme();
    let port = exchange.connection.local.map_or(80, |local| local.port());
    let links: Vec<_> = routes
        .all()
        .iter()
        .map(|site| {
            let name = site.config.hosts.iter().find(|host| host.ends_with(".localhost")).or(site.config.hosts.first());
            let url = format!("{scheme}://{}:{port}/", name.unwrap_or(&site.config.name));
            pages::SiteLink { name: site.config.name.clone(), url, note: site.config.serves() }
        })
        .collect();
    let (content_type, body) = pages::sites(host, &links, accept(head));
    page_response(StatusCode::NOT_FOUND, content_type, body)
}

/// A message that was refused before it was a request. Who sent it may be no browser at all: plain words.
pub fn malformed(exchange: &mut Exchange, refusal: Refusal) -> Answer {
    exchange.log.note = Some(format!("refused: {}", refusal.reason));
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST);
    let mut answer = page_response(status, "text/plain; charset=utf-8", format!("{}.\n", refusal.reason).into());
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// A client that asks too often.
pub fn too_often(site: &Site, head: &Parts, exchange: &mut Exchange, wait: Duration) -> Answer {
    exchange.log.note = Some("rate_limit".into());
    let sentence = "You are asking for this too often. Please wait a moment.";
    let mut answer = status(site, head, exchange, StatusCode::TOO_MANY_REQUESTS, sentence);
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs_f64().ceil() as u64));
    answer
}

/// A request body that could not be read.
pub fn unread(site: &Site, head: &Parts, exchange: &mut Exchange, unread: Unread) -> Answer {
    let mut answer = match unread {
        Unread::TooLarge(max) => {
            let sentence = format!("The body of this request is larger than the {max} bytes this server takes.");
            status(site, head, exchange, StatusCode::PAYLOAD_TOO_LARGE, &sentence)
        }
        Unread::Broken(error) => {
            let refusal = refusal_of(&error);
            exchange.log.note = Some(match refusal {
                Some(refusal) => format!("request body: refused: {}", refusal.reason),
                None => format!("request body: {error}"),
            });
            let code = refusal.and_then(|refusal| StatusCode::from_u16(refusal.status).ok());
            let sentence = match refusal {
                Some(refusal) => format!("{}.", refusal.reason),
                None => "The body of this request broke off or was not well framed.".into(),
            };
            status(site, head, exchange, code.unwrap_or(StatusCode::BAD_REQUEST), &sentence)
        }
        Unread::Late => {
            exchange.log.note = Some(format!("request body: refused: {}", SLOW_BODY.reason));
            status(site, head, exchange, StatusCode::REQUEST_TIMEOUT, &format!("{}.", SLOW_BODY.reason))
        }
        Unread::Spool(error) => {
            exchange.log.note = Some(format!("request body could not be spooled: {error}"));
            status(
                site,
                head,
                exchange,
                StatusCode::INSUFFICIENT_STORAGE,
                "The server has no room for the body of this request.",
            )
        }
    };
    // What is left of the body is not read: the connection can't go on.
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer.extensions_mut().insert(LeftUnread);
    answer
}

/// Why the guard let no more of a body pass.
fn refusal_of(error: &hyper::Error) -> Option<Refusal> {
    let source = std::error::Error::source(error)?.downcast_ref::<std::io::Error>()?;
    source.get_ref()?.downcast_ref::<BadBody>().map(|bad| bad.0)
}

/// No response from the app: the one place that gives each failure its status.
pub fn failure(site: &Site, head: &Parts, exchange: &mut Exchange, failure: Failure) -> Answer {
    match failure {
        Failure::Unavailable(Unavailable::Refused(refused)) => busy(site, head, exchange, refused),
        Failure::Unavailable(Unavailable::Failed(report)) => not_started(site, head, exchange, &report),
        Failure::WorkerDied(why) => worker_died(site, head, exchange, why),
        Failure::Refused(time) => deadly(site, head, exchange, time),
        Failure::Misdirected => {
            exchange.log.note = Some("the worker answered another request".into());
            let sentence = "The application's worker did not answer this request.";
            status(site, head, exchange, StatusCode::BAD_GATEWAY, sentence)
        }
        Failure::TimedOut => {
            exchange.log.note = Some("app_hard_timeout".into());
            status(site, head, exchange, StatusCode::GATEWAY_TIMEOUT, "The application took too long to answer.")
        }
        Failure::Spool(error) => {
            exchange.log.note = Some(format!("request body could not be handed over: {error}"));
            let sentence = "The body of this request could not be handed to the application.";
            status(site, head, exchange, StatusCode::INTERNAL_SERVER_ERROR, sentence)
        }
        Failure::Unsendable(unsendable) => {
            exchange.log.note = Some(format!("unsendable response: {}", unsendable.0));
            let sentence = "The application's response could not be sent.";
            status(site, head, exchange, StatusCode::INTERNAL_SERVER_ERROR, sentence)
        }
        Failure::Raised(error) => raised(site, head, exchange, *error),
    }
}

/// The queue took no more, or the request waited in it for too long.
fn busy(site: &Site, head: &Parts, exchange: &mut Exchange, refused: Refused) -> Answer {
    exchange.log.note = Some(match refused {
        Refused::Full => "queue full".into(),
        Refused::TooOld => "waited too long for a worker".into(),
        Refused::CrawlersFull => "crawler refused: queue full".into(),
        Refused::CrawlerTooOld => "crawler refused: no idle worker".into(),
    });
    let is_crawler = matches!(refused, Refused::CrawlersFull | Refused::CrawlerTooOld);
    exchange.log.refused_crawler = is_crawler;
    let sentence = "All of this application's workers are busy. Please try again in a moment.";
    let mut answer = status(site, head, exchange, StatusCode::SERVICE_UNAVAILABLE, sentence);
    let retry_after = if is_crawler { CRAWLERS_RETRY_AFTER } else { RETRY_AFTER };
    answer.headers_mut().insert(header::RETRY_AFTER, retry_after);
    answer
}

/// The app did not start: the report of it, as far as this environment shows one.
fn not_started(site: &Site, head: &Parts, exchange: &mut Exchange, report: &StartupReport) -> Answer {
    exchange.log.note = Some(format!("app did not start: {}", report.id));
    let (content_type, body) = if site.shows_details() {
        pages::startup(report, accept(head))
    } else {
        pages::startup_in_production(&report.id, accept(head))
    };
    let mut answer = page_response(StatusCode::SERVICE_UNAVAILABLE, content_type, body);
    answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// A worker ended with this request, which is not repeated.
fn worker_died(site: &Site, head: &Parts, exchange: &mut Exchange, why: RetryRefusal) -> Answer {
    exchange.log.note = Some(match why {
        RetryRefusal::NotRepeatable => "worker died".into(),
        RetryRefusal::TwoDied => "two workers died with this request".into(),
        RetryRefusal::NoneLeft => "worker died; too many requests were asked again lately".into(),
    });
    let sentence = "The application's worker ended in the middle of this request.";
    status(site, head, exchange, StatusCode::BAD_GATEWAY, sentence)
}

/// A request like those that workers died with. `time`: until it is tried again.
fn deadly(site: &Site, head: &Parts, exchange: &mut Exchange, time: Duration) -> Answer {
    exchange.log.note = Some("refused: workers died with this request".into());
    let sentence = "The application's workers died with this request. It is not tried again for a while.";
    let mut answer = status(site, head, exchange, StatusCode::SERVICE_UNAVAILABLE, sentence);
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(time.as_secs_f64().ceil() as u64));
    answer
}

/// The app raised an exception. It is remembered, and shown where this environment shows details.
fn raised(site: &Site, head: &Parts, exchange: &mut Exchange, error: AppError) -> Answer {
    exchange.log.note = Some(format!("raised {}", error.class));
    remember(site, head, exchange, Failed { status: 500, ..failed_by(&error) });
    if !site.shows_details() {
        let sentence = "Something went wrong in the application.";
        return status(site, head, exchange, StatusCode::INTERNAL_SERVER_ERROR, sentence);
    }
    let (content_type, body) = pages::render(500, accept(head), Some(&error.message), Some(&exchange.id));
    let raised = RaisedError::of(site, head, exchange, Arc::new(error));
    let mut answer = page_response(StatusCode::INTERNAL_SERVER_ERROR, content_type, body);
    answer.extensions_mut().insert(PageOfFiles::Exception(Arc::new(raised)));
    answer
}

/// No response from an upstream.
pub fn upstream_failure(site: &Site, head: &Parts, exchange: &mut Exchange, failure: upstream::Failure) -> Answer {
    use upstream::Failure::{Body, Broken, ConnectTimedOut, Spool, TimedOut, Unreachable};
    let (code, note, sentence) = match failure {
        Body(why) => return unread(site, head, exchange, why),
        Unreachable { upstream, why, .. } => (
            StatusCode::BAD_GATEWAY,
            format!("upstream {upstream}: no connection: {why}"),
            "The server behind this one can't be reached.",
        ),
        Broken { upstream, why } => (
            StatusCode::BAD_GATEWAY,
            format!("upstream {upstream}: no response: {why}"),
            "The server behind this one gave no proper answer.",
        ),
        ConnectTimedOut { upstream, after } => (
            StatusCode::GATEWAY_TIMEOUT,
            format!("upstream {upstream}: no connection within {} (upstream_connect_timeout)", show_duration(after)),
            "The server behind this one can't be reached.",
        ),
        TimedOut { upstream, after } => (
            StatusCode::GATEWAY_TIMEOUT,
            format!("upstream {upstream}: no answer within {} (app_hard_timeout)", show_duration(after)),
            "The server behind this one took too long to answer.",
        ),
        Spool(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("request body could not be handed over: {error}"),
            "The body of this request could not be handed on.",
        ),
    };
    exchange.log.note = Some(note);
    status(site, head, exchange, code, sentence)
}

/// A page of which a part can't be had.
pub fn incomplete(site: &Site, head: &Parts, exchange: &Exchange) -> Answer {
    status(site, head, exchange, StatusCode::BAD_GATEWAY, "A part of this page can't be had.")
}

fn accept(head: &Parts) -> Option<&str> {
    head.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok())
}

fn page_response(status: StatusCode, content_type: &'static str, body: bytes::Bytes) -> Answer {
    let mut response = Response::new(ResponseBody::Whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
