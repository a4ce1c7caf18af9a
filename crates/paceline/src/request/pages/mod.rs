//! The pages the front answers with itself: refusals, failures, starts that failed, the list of sites.
//! It never decides that one is needed; the caller names the status and hands over what is known.

mod accept;
mod advice;
mod exception;
mod maintenance;
mod public;
#[cfg(test)]
mod samples;
mod signed_out;
mod sites;
mod status;

pub use accept::{form, Form};
pub use advice::advise;
pub use exception::{exception, exception_page, AppException};
pub use maintenance::maintenance;
pub use public::public_page;
pub use signed_out::signed_out;
pub use sites::{sites, sites_page, SiteLink};
pub use status::{render, status_page, words};

use bytes::Bytes;
use startup_report::{html, text, StartupReport, Suggestion};

/// A body and its Content-Type.
pub type Page = (&'static str, Bytes);

/// Why an app did not start, for a client in development: in a browser, on a terminal (`curl`), as JSON.
pub fn startup(report: &StartupReport, accept: Option<&str>) -> Page {
    match form(accept) {
        Form::Html => (Form::Html.content_type(), html::development_html(report).into()),
        Form::Text => (Form::Text.content_type(), text::render(report, false).into()),
        Form::Json => {
            let error = serde_json::json!({
                "status": 503,
                "error": report.summary(),
                "id": report.id,
                "step": report.failed_step().map(|step| step.name()),
                "suggestion": startup_report::suggest(report).as_ref().map(suggestion),
            });
            (Form::Json.content_type(), format!("{error}\n").into())
        }
    }
}

/// The page of a failed start in production: the id under which the log has the details, and nothing of the app.
pub fn startup_in_production(id: &str, accept: Option<&str>) -> Page {
    match form(accept) {
        Form::Html => (Form::Html.content_type(), html::production_html(id).into()),
        _ => render(503, accept, Some("This application could not start."), Some(id)),
    }
}

fn suggestion(found: &Suggestion) -> serde_json::Value {
    serde_json::json!({"text": found.text, "command": found.command})
}
