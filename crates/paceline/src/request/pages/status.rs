//! One page per status the front answers with itself, as HTML, text or JSON.
//! It never tells a client anything of the app or the machine.

use super::{
    accept::{form, Form},
    Page,
};
use maud::html;
use startup_report::html::{document, visible};

/// A status in words: its title, and what happened in one sentence.
pub fn words(status: u16) -> (&'static str, &'static str) {
    match status {
        400 => ("Bad request", "The server could not understand this request."),
        403 => ("Forbidden", "You may not see this page."),
        404 => ("Not found", "There is nothing at this address."),
        405 => ("Method not allowed", "This address does not support that method."),
        408 => ("Request time-out", "The request did not arrive in time."),
        413 => ("Content too large", "The request is larger than this server accepts."),
        414 => ("Address too long", "The address of this request is longer than this server accepts."),
        417 => ("Expectation failed", "The server can't do what this request expects."),
        421 => ("Misdirected request", "This server does not answer for that host name."),
        431 => ("Header too large", "The header of this request is larger than this server accepts."),
        500 => ("Something went wrong", "The application failed while it answered this request."),
        501 => ("Not implemented", "This server does not support what this request asks for."),
        502 => ("Bad gateway", "The application stopped before it had answered this request."),
        503 => ("Service unavailable", "The application can't answer at the moment; please try again shortly."),
        504 => ("Gateway time-out", "The application took too long to answer this request."),
        505 => ("HTTP version not supported", "This server does not speak that version of HTTP."),
        other if (400..500).contains(&other) => ("Request refused", "The server could not accept this request."),
        _ => ("Something went wrong", "The server could not answer this request."),
    }
}

/// The page in the form the client accepts; `sentence` in place of the status's own.
pub fn render(status: u16, accept: Option<&str>, sentence: Option<&str>, id: Option<&str>) -> Page {
    let (title, own) = words(status);
    let sentence = sentence.unwrap_or(own);
    let form = form(accept);
    let body = match form {
        Form::Html => status_page(status, title, sentence, id),
        Form::Text => {
            let id = id.map(|id| format!(" (id {id})")).unwrap_or_default();
            format!("{status} {title}: {sentence}{id}\n")
        }
        Form::Json => {
            let mut error = serde_json::json!({"status": status, "error": title, "message": sentence});
            if let (Some(fields), Some(id)) = (error.as_object_mut(), id) {
                fields.insert("id".into(), id.into());
            }
            format!("{error}\n")
        }
    };
    (form.content_type(), body.into())
}

pub fn status_page(status: u16, title: &str, sentence: &str, id: Option<&str>) -> String {
    let main = html! {
        p.code { (status) }
        h1 { (title) }
        p.said { (visible(sentence)) }
        @if let Some(id) = id {
            p.again { "If it happens again, quote this number:" }
            p.number { (visible(id)) }
        }
    };
    document(&format!("{title} ({status})"), "narrow", &main).into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BROWSER: Option<&str> = Some("text/html,*/*;q=0.8");

    #[test]
    fn every_status_has_its_own_words_in_every_form() {
        let mut seen = std::collections::HashSet::new();
        for status in [400, 404, 408, 413, 414, 421, 431, 500, 502, 503, 504] {
            let (title, sentence) = words(status);
            assert!(seen.insert(sentence), "{sentence} is used twice");
            let (kind, body) = render(status, BROWSER, None, Some("1a2b3c4d"));
            let body = String::from_utf8(body.to_vec()).unwrap();
            assert_eq!(kind, "text/html; charset=utf-8");
            for part in [title, sentence, "1a2b3c4d", &status.to_string(), "<meta name=\"robots\" content=\"noindex\">"]
            {
                assert!(body.contains(part), "{status} lacks {part}");
            }
            let (_, text) = render(status, None, None, None);
            assert_eq!(text, format!("{status} {title}: {sentence}\n"));
            let (kind, json) = render(status, Some("application/json"), None, Some("x\"y"));
            let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
            assert_eq!(
                (kind, &json["status"], &json["id"]),
                ("application/json; charset=utf-8", &status.into(), &"x\"y".into())
            );
        }
    }

    #[test]
    fn what_is_handed_in_is_escaped() {
        let page = status_page(400, "<a>", "<b> & 'c'", Some("\"><script>"));
        assert!(!page.contains("<a>") && !page.contains("<script>") && !page.contains("<b> &"));
        assert!(page.contains("&lt;b&gt; &amp; 'c'"));
    }

    #[test]
    fn unknown_statuses_have_words_too() {
        assert_eq!(words(418).0, "Request refused");
        assert_eq!(words(599).0, "Something went wrong");
    }
}
