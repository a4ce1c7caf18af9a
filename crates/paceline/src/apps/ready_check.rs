//! Whether a generation that has booted answers, asked of its workers before they get visitors; and the pages that it
//! is warmed with. It never decides what follows.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use http::StatusCode;

use crate::{
    config::SiteConfig,
    origins::workers::{
        dispatch::{
            queue::Queue,
            replay::{replay, NoAnswer, Replay, ReplayAnswer},
        },
        protocol::frame::AppError,
    },
};
use startup_report::{phrases, Failure};

/// What the app's own log may show as the client.
const CHECKING: &str = concat!("Paceline/", env!("CARGO_PKG_VERSION"), " (ready check)");
const WARMING: &str = concat!("Paceline/", env!("CARGO_PKG_VERSION"), " (warm-up)");
/// Of an answer's first line, in a report.
const LINE: usize = 200;
/// What all of the warm-up may take.
const WARM_UP: Duration = Duration::from_secs(10);

/// A page to warm a generation with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub https: bool,
    pub host: String,
    /// Path and query.
    pub target: String,
}

/// Asks for the first of the site's ready paths that the app has. Ok: which it was and its status, or None where none
/// is to be asked for.
pub async fn check(queue: &Arc<Queue>, site: &SiteConfig) -> Result<Option<(String, StatusCode)>, Failure> {
    let host = site.hosts.iter().find(|host| !host.starts_with('*')).map_or("localhost", String::as_str);
    let end = Instant::now() + site.start_timeout;
    let mut paths = site.ready_paths.iter().peekable();
    while let Some(path) = paths.next() {
        let patience = end.saturating_duration_since(Instant::now());
        // As https: what an application redirects to https says nothing of it.
        let asked = Replay { target: path, host, https: true, agent: CHECKING, patience };
        match replay(queue, &asked).await {
            Ok(answer) if answer.status == StatusCode::NOT_FOUND && paths.peek().is_some() => {}
            Ok(answer) if answer.status.is_server_error() => {
                return Err(match &answer.raised {
                    Some(error) => raised(path, AppError::clone(error)),
                    None => Failure::Unready { path: path.clone(), told: described(&answer) },
                })
            }
            Ok(answer) => return Ok(Some((path.clone(), answer.status))),
            Err(none) => return Err(failed(path, none, site.start_timeout)),
        }
    }
    Ok(None)
}

fn failed(path: &str, none: NoAnswer, after: Duration) -> Failure {
    let told = match none {
        NoAnswer::Raised(error) => return raised(path, *error),
        NoAnswer::TimedOut => format!("was not answered within {}", phrases::duration(after)),
        NoAnswer::Died => "was not answered: the worker died of it".into(),
        NoAnswer::Unsendable => "was answered with something that is no HTTP response".into(),
        NoAnswer::NoRequest => "can't be asked for".into(),
    };
    Failure::Unready { path: path.into(), told }
}

/// The exception itself, also where the application made a page of it.
fn raised(path: &str, mut error: AppError) -> Failure {
    if !error.detail.is_empty() {
        error.detail.push('\n');
    }
    error.detail.push_str(&format!("GET {path} raised it: the ready check of the new generation."));
    error.into()
}

fn described(answer: &ReplayAnswer) -> String {
    let status = answer.status;
    let line = first_line(&String::from_utf8_lossy(&answer.body));
    let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
    let line = if line.is_empty() { line } else { format!(": {line}") };
    format!("was answered {}{reason}{line}", status.as_u16())
}

/// The first line of text, of HTML its title if it has one.
fn first_line(body: &str) -> String {
    let title = body.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>")).map(|(title, _)| title);
    let mut text = String::new();
    let mut depth = 0;
    for character in title.unwrap_or(body).chars() {
        match character {
            '<' => depth = 1,
            '>' if depth > 0 => {
                depth = 0;
                text.push('\n');
            }
            _ if depth > 0 => {}
            other => text.push(other),
        }
    }
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    phrases::plain(line).chars().take(LINE).collect()
}

/// Asks for the pages one after the other, within bounds. How many were answered.
pub async fn warm(queue: &Arc<Queue>, pages: &[Page]) -> usize {
    let end = Instant::now() + WARM_UP;
    let mut answered = 0;
    for page in pages {
        let patience = end.saturating_duration_since(Instant::now());
        if patience.is_zero() {
            break;
        }
        let asked = Replay { target: &page.target, host: &page.host, https: page.https, agent: WARMING, patience };
        match replay(queue, &asked).await {
            Ok(_) => answered += 1,
            // A worker that was lost by it is seen elsewhere.
            Err(NoAnswer::TimedOut | NoAnswer::Died) => break,
            Err(_) => {}
        }
    }
    answered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_body() {
        assert_eq!(first_line("\n  database is down\nmore"), "database is down");
        let page = "<!DOCTYPE html><html><head><title>We're sorry (500)</title></head><body><h1>Oh</h1></body>";
        assert_eq!(first_line(page), "We're sorry (500)");
        assert_eq!(first_line("<html><body><h1>Oh</h1><p>no</p>"), "Oh");
        assert_eq!(first_line(&"x".repeat(9999)).len(), LINE);
        assert_eq!(first_line(""), "");
    }
}
