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
    Failure,
};
use std::{fmt::Write, path::Path};
use unix_user::RunAs;

/// What an ERROR frame says, and whose request it was.
#[derive(Debug, Clone, Copy)]
pub struct AppException<'a> {
    pub class: &'a str,
    pub message: &'a str,
    pub file: Option<&'a Path>,
    pub line: Option<u32>,
    pub backtrace: &'a [String],
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
            let trace: Vec<&String> = error.backtrace.iter().take(50).collect();
            format!(
                "{}\n",
                serde_json::json!({"status": 500, "error": error.class, "message": error.message, "id": error.id, "backtrace": trace})
            )
        }
    };
    (form.content_type(), body.into())
}

pub fn exception_page(error: &AppException) -> String {
    let failure = Failure::Exception {
        class: error.class.into(),
        message: error.message.into(),
        file: error.file.map(Into::into),
        line: error.line,
        backtrace: Vec::new(),
        cause: None,
        detail: None,
    };
    let root = Root::of(error.root).read_as(error.read_as.cloned());
    let main = html! {
        header {
            p.kicker { (html::badge("500")) " " span { (visible(error.request_line)) } }
            h1 { (visible(error.class)) }
        }
        (html::exception("", &failure, &root))
        (html::backtrace_section(&backtrace::frames(error.backtrace, &root)))
        (html::footer(&[error.root.display().to_string(), format!("id {}", error.id)]))
    };
    html::document(&format!("{} · {}", error.class, error.request_line), "wide", &main).into_string()
}

fn exception_text(error: &AppException) -> String {
    let mut out = format!("{}: {}\n", plain(error.class), plain_lines(error.message).join("\n  "));
    let _ = writeln!(out, "{} (id {})\n", plain(error.request_line), plain(error.id));
    let (app, other) = backtrace::app_first(backtrace::frames(error.backtrace, &Root::of(error.root)));
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
        let backtrace =
            ["/srv/app/<b>.rb:3:in `<x>'".to_string(), "/g/gems/rack-2.2/lib/rack.rb:1:in `call'".to_string()];
        let error = AppException {
            class: "Beer<Empty>",
            message: "no <script>alert(1)</script>\nleft",
            file: Some("/srv/app/<b>.rb".as_ref()),
            line: Some(3),
            backtrace: &backtrace,
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
        );
        let (_, text) = exception(&error, None);
        assert_eq!(text, "Beer<Empty>: no <script>alert(1)</script>\n  left\nGET /<img src=x> (id \"id')\n\n  <b>.rb:3 in <x>\n  rack-2.2 lib/rack.rb:1 in call\n");
        let (_, json) = exception(&error, Some("application/json"));
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&json).unwrap()["error"], "Beer<Empty>");
    }
}
