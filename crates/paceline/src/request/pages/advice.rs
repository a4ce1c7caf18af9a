//! Puts what to do into an error page that the application has made itself, as Rails and Sinatra do in development.
//! It changes nothing that the page says, and leaves alone what is neither a page nor plain text.

use std::path::Path;

use http::{header, Response};
use maud::html;
use startup_report::{
    html::{visible, with_code},
    text, Suggestion,
};

use crate::content::body::ResponseBody;

/// Of its own colours, whatever the page's are.
const BOX: &str =
    "all:initial;display:block;color-scheme:light;background:#e9f5ee;color:#1d1c1a;border-left:6px solid #1d7a46;\
     padding:12px 24px;font:16px/1.5 system-ui,sans-serif";
const COMMAND: &str =
    "display:block;margin:8px 0 0;padding:8px 12px;background:#fff;border-radius:6px;overflow-x:auto;user-select:all;\
     font:14px ui-monospace,Menlo,Consolas,monospace";

/// The response with the suggestion above the page, or below the text.
pub fn advise(answer: Response<ResponseBody>, found: &Suggestion, root: &Path) -> Response<ResponseBody> {
    let (mut head, body) = answer.into_parts();
    let content_type = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let body = match body {
        ResponseBody::Whole(page) if !head.headers.contains_key(header::CONTENT_ENCODING) => {
            let advised = match content_type.split(';').next().unwrap_or_default().trim() {
                "text/html" => above(&page, &advice(found, root)),
                "text/plain" => Some([&page, text::what_to_do(found).as_bytes()].concat()),
                _ => None,
            };
            ResponseBody::Whole(advised.map_or(page, Into::into))
        }
        body => body,
    };
    if let (ResponseBody::Whole(page), true) = (&body, head.headers.contains_key(header::CONTENT_LENGTH)) {
        head.headers.insert(header::CONTENT_LENGTH, page.len().into());
    }
    Response::from_parts(head, body)
}

/// As the first thing in `<body>`. None: there is none.
fn above(page: &[u8], advice: &str) -> Option<Vec<u8>> {
    let start = page.windows(5).position(|tag| tag.eq_ignore_ascii_case(b"<body"))?;
    let end = start + page[start..].iter().position(|byte| *byte == b'>')? + 1;
    Some([&page[..end], advice.as_bytes(), &page[end..]].concat())
}

fn advice(found: &Suggestion, root: &Path) -> String {
    let advice = html! {
        div style=(BOX) {
            b { "What to do" } br;
            (with_code(&found.text))
            @if let Some(command) = &found.command {
                code style=(COMMAND) title=(visible(&format!("in {}", root.display()))) { (visible(command)) }
            }
        }
    };
    advice.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advised(content_type: &str, page: &'static str) -> (Option<usize>, String) {
        let answer = Response::builder().header("content-type", content_type).header("content-length", page.len());
        let answer = answer.body(ResponseBody::Whole(page.into())).unwrap();
        let found = Suggestion { text: "Run <it>.".into(), command: Some("bin/rails db:migrate".into()) };
        let (head, body) = advise(answer, &found, "/srv/app".as_ref()).into_parts();
        let ResponseBody::Whole(page) = body else { panic!("the body is no longer whole") };
        let length = head.headers["content-length"].to_str().unwrap().parse().ok();
        assert_eq!(length, Some(page.len()));
        (length, String::from_utf8(page.to_vec()).unwrap())
    }

    #[test]
    fn pages_and_texts_say_what_to_do_and_all_else_stays() {
        let (_, page) = advised("text/html; charset=utf-8", "<html><BODY class=x><h1>no</h1></body></html>");
        assert!(page.starts_with("<html><BODY class=x><div style="), "{page}");
        assert!(page.contains("Run &lt;it&gt;.") && page.contains(">bin/rails db:migrate</code>"), "{page}");
        assert!(page.ends_with("<h1>no</h1></body></html>"));
        let (_, text) = advised("text/plain", "no");
        assert_eq!(text, "no\nWhat to do\n  Run <it>.\n\n      bin/rails db:migrate\n");
        for (content_type, page) in [("application/json", "{}"), ("text/html", "<h1>no</h1>")] {
            assert_eq!(advised(content_type, page).1, page);
        }
    }
}
