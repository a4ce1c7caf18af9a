//! The page for an exception the app raised while it answered a request (development; an ERROR frame).
//! In production it must never be sent: it shows source.

use super::{
    accept::{form, Form},
    Page,
};
use maud::html;
use startup_report::{
    backtrace,
    html::{self, visible},
    phrases::{plain, plain_lines},
    place::Root,
    text, Failure, Suggestion,
};
use std::{fmt::Write, path::Path};
use unix_user::RunAs;

/// What an ERROR frame says, and whose request it was.
#[derive(Debug, Clone, Copy)]
pub struct AppException<'a> {
    /// An exception.
    pub failure: &'a Failure,
    pub suggestion: Option<&'a Suggestion>,
    /// The app's directory.
    pub root: &'a Path,
    /// With whose rights its source is read. None: it is not shown.
    pub read_as: Option<&'a RunAs>,
    /// `GET /beers/7`
    pub request_line: &'a str,
    /// The request's id, as in the log.
    pub id: &'a str,
}

/// The exception in the form the client accepts.
pub fn exception(error: &AppException, accept: Option<&str>) -> Page {
    let form = form(accept);
    let body = match form {
        Form::Html => exception_page(error),
        Form::Text => exception_text(error),
        Form::Json => {
            let Raised { class, message, backtrace } = raised(error.failure);
            let trace: Vec<&String> = backtrace.iter().take(50).collect();
            let suggestion = error.suggestion.map(super::suggestion);
            format!(
                "{}\n",
                serde_json::json!({"status": 500, "error": class, "message": message, "id": error.id, "suggestion": suggestion, "backtrace": trace})
            )
        }
    };
    (form.content_type(), body.into())
}

/// What each form shows of a failure.
struct Raised<'a> {
    class: &'a str,
    message: &'a str,
    backtrace: &'a [String],
}

fn raised(failure: &Failure) -> Raised<'_> {
    match failure {
        Failure::Exception { class, message, backtrace, .. } => Raised { class, message, backtrace },
        _ => Raised { class: "", message: "", backtrace: &[] },
    }
}

pub fn exception_page(error: &AppException) -> String {
    let Raised { class, backtrace, .. } = raised(error.failure);
    let root = Root::of(error.root).read_as(error.read_as.cloned());
    let main = html! {
        header {
            p.kicker { (html::badge("500")) " " span { (visible(error.request_line)) } }
            h1 { (visible(class)) }
        }
        (html::exception("", error.failure, &root))
        @if let Some(found) = error.suggestion { (html::what_to_do(found, error.root)) }
        (html::backtrace_section(&backtrace::frames(backtrace, &root)))
        (html::footer(&[error.root.display().to_string(), format!("id {}", error.id)]))
    };
    html::document(&format!("{class} · {}", error.request_line), "wide", &main).into_string()
}

fn exception_text(error: &AppException) -> String {
    let Raised { class, message, backtrace } = raised(error.failure);
    let mut out = format!("{}: {}\n", plain(class), plain_lines(message).join("\n  "));
    let _ = writeln!(out, "{} (id {})", plain(error.request_line), plain(error.id));
    out.extend(error.suggestion.map(text::what_to_do));
    out.push('\n');
    let (app, other) = backtrace::app_first(backtrace::frames(backtrace, &Root::of(error.root)));
    for frame in app.iter().chain(&other).take(30) {
        let _ = writeln!(out, "  {}", plain(&frame.to_string()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_is_told_in_every_form_and_escaped() {
        let failure = Failure::Exception {
            class: "Beer<Empty>".into(),
            message: "no <script>alert(1)</script>\nleft".into(),
            file: Some("/srv/app/<b>.rb".into()),
            line: Some(3),
            backtrace: vec!["/srv/app/<b>.rb:3:in `<x>'".into(), "/g/gems/rack-2.2/lib/rack.rb:1:in `call'".into()],
            cause: None,
            detail: None,
        };
        let suggestion = Suggestion { text: "Brew <more>.".into(), command: Some("brew --now".into()) };
        let error = AppException {
            failure: &failure,
            suggestion: Some(&suggestion),
            read_as: None,
            root: "/srv/app".as_ref(),
            request_line: "GET /<img src=x>",
            id: "\"id'",
        };
        let page = exception_page(&error);
        for raw in ["<script>", "<img", "<Empty>", "<b>.rb", "<x>", "\"id"] {
            assert!(!page.contains(raw), "{raw} is not escaped");
        }
        assert!(
            page.contains(
                "no &lt;script&gt;alert(1)&lt;/script&gt;</p><pre class=\"further\" tabindex=\"0\">left</pre>"
            ) && page.contains("rack-2.2")
                && page.contains("<p>Brew &lt;more&gt;.</p>")
        );
        let (_, text) = exception(&error, None);
        assert_eq!(text, "Beer<Empty>: no <script>alert(1)</script>\n  left\nGET /<img src=x> (id \"id')\n\nWhat to do\n  Brew <more>.\n\n      brew --now\n\n  <b>.rb:3 in <x>\n  rack-2.2 lib/rack.rb:1 in call\n");
        let (_, json) = exception(&error, Some("application/json"));
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&json).unwrap()["error"], "Beer<Empty>");
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&json).unwrap()["suggestion"]["command"], "brew --now");
    }
}
