//! A page as it will be, for people: on the command line, and behind a signed link. It is rendered as for a visitor
//! without cookies, and never stored.
//!
//! Reading order: `rendering` (one page by a copy), `link` (who may see it).

mod link;
pub mod rendering;

use std::sync::Arc;

use http::{header, request::Parts, HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use tokio::{
    runtime::Handle,
    sync::{AcquireError, Semaphore},
    task::JoinError,
};

use scheduled::Millis;

use self::{
    link::{BadLink, Link},
    rendering::{Ask, RenderError, Rendered, Renderer},
};
use crate::{
    caching::scheduled::RenderedPage, content::body::ResponseBody, exchange::Exchange, request::route::Site,
    support::clock,
};

/// Copies of applications for previews, at a time.
static COPIES: Semaphore = Semaphore::const_new(2);

/// A page that somebody wants to see.
#[derive(Debug, Clone)]
pub struct Wish {
    pub scheme: String,
    pub host: String,
    /// Path and query.
    pub target: String,
    pub at: Millis,
}

/// Why a page can't be shown as it will be.
#[derive(Debug, thiserror::Error)]
pub enum NoPreview {
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The application has failed, or the page depends on what can't be known before; where in its code, if that is known.
    #[error("{why}{}", at_shown(.at))]
    Application { why: String, at: String },
    /// The server is ending.
    #[error(transparent)]
    Ending(#[from] AcquireError),
    /// A mistake in Paceline.
    #[error(transparent)]
    Mistake(#[from] JoinError),
}

fn at_shown(at: &str) -> String {
    if at.is_empty() {
        String::new()
    } else {
        format!(": {at}")
    }
}

/// Renders it.
pub async fn render(site: &Arc<Site>, wish: Wish) -> Result<RenderedPage, NoPreview> {
    let Some(app) = site.app.clone() else { return Err(RenderError::OtherServer.into()) };
    let turn = COPIES.acquire().await?;
    let event_loop = Handle::current();
    let rendering = tokio::task::spawn_blocking(move || {
        let mut renderer = Renderer::fork(&app, &event_loop)?;
        let headers: HeaderMap =
            [(header::ACCEPT, HeaderValue::from_static("text/html,*/*;q=0.8"))].into_iter().collect();
        let Wish { scheme, host, target, at } = &wish;
        renderer.render(&Ask { scheme, host, target, headers: &headers, at: *at })
    });
    let rendered = rendering.await;
    drop(turn);
    match rendered?? {
        Rendered::Page(page) => Ok(page),
        Rendered::Dynamic { why, at } | Rendered::Failed { why, at } => Err(NoPreview::Application { why, at }),
    }
}

/// The path and query of a link that shows `target` as it will be, until `expires`.
pub fn signed(site: &Site, target: &str, at: Millis, expires: Millis) -> std::io::Result<String> {
    let token = Link { at, expires }.sign(&link::key()?, &site.config.name, target);
    let separator = if target.contains('?') { '&' } else { '?' };
    Ok(format!("{target}{separator}{}={token}", link::PARAMETER))
}

/// What a request for a preview is answered.
pub enum Previewed {
    Page(Response<ResponseBody>),
    /// The status, a sentence for the one who has the link, and what the log has of it.
    Refused(StatusCode, String, Option<String>),
}

/// Whether a request may be one for a preview.
pub fn is_asked(head: &Parts) -> bool {
    head.method == http::Method::GET && head.uri.query().is_some_and(|query| query.contains(link::PARAMETER))
}

/// None: it is no such request. `exchange`: as whom it comes.
pub async fn answer(site: &Arc<Site>, head: &Parts, exchange: &Exchange, host: &str) -> Option<Previewed> {
    let (target, token) = link::taken_out(head.uri.path_and_query()?.as_str())?;
    // Where nobody has ever signed a link, the parameter is the application's.
    let key = link::known_key()?;
    let link = match Link::verify(token, &key, &site.config.name, &target, clock::unix_millis()) {
        Ok(link) => link,
        Err(BadLink::Forged) => return refused(StatusCode::FORBIDDEN, "This link to a preview is not valid.".into()),
        Err(BadLink::Expired) => return refused(StatusCode::GONE, "This link to a preview has expired.".into()),
    };
    let wish = Wish { scheme: exchange.client.scheme().into(), host: host.into(), target, at: link.at };
    match render(site, wish).await {
        Ok(page) => Some(Previewed::Page(response(page))),
        // What the application says of its failures is for those who may see it: the link is for anybody.
        Err(why) if !site.shows_details() => {
            let sentence = "This page can't be shown as it will be. The server's log says why.".into();
            Some(Previewed::Refused(StatusCode::CONFLICT, sentence, Some(format!("preview: {why}"))))
        }
        Err(why) => refused(StatusCode::CONFLICT, format!("This page can't be shown as it will be: {why}")),
    }
}

fn refused(status: StatusCode, sentence: String) -> Option<Previewed> {
    Some(Previewed::Refused(status, sentence, None))
}

fn response(page: RenderedPage) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Whole(page.body));
    *response.status_mut() = page.status;
    *response.headers_mut() = page.headers;
    for name in [header::SET_COOKIE, header::EXPIRES, header::ETAG, header::LAST_MODIFIED, scheduled::CHANGES_AT] {
        response.headers_mut().remove(name);
    }
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-robots-tag"), "noindex, nofollow"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
