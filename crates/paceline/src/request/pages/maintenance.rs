//! The page of a site that is closed for a while, for those who have not written one of their own.
//! It never says why, or for how long.

use super::{
    accept::{form, Form},
    status::render,
    Page,
};
use maud::html;
use startup_report::html::document;

const TITLE: &str = "We will be back soon";
const SENTENCE: &str = "This site is being worked on. Please come back in a few minutes.";

/// `own`: the owner's page, for browsers.
pub fn maintenance(accept: Option<&str>, own: Option<&str>) -> Page {
    match (form(accept), own) {
        (Form::Html, Some(own)) => (Form::Html.content_type(), own.to_owned().into()),
        (Form::Html, None) => {
            let main = html! {
                h1 { (TITLE) }
                p.said { (SENTENCE) }
            };
            (Form::Html.content_type(), document(TITLE, "narrow", &main).into_string().into())
        }
        _ => render(503, accept, Some(SENTENCE), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_for_everybody() {
        let text = |accept, own| String::from_utf8(maintenance(accept, own).1.to_vec()).unwrap();
        assert!(text(Some("text/html"), None).contains(TITLE));
        assert_eq!(text(Some("text/html"), Some("<p>own")), "<p>own");
        assert!(
            text(None, Some("<p>own")).starts_with("503 ") && text(Some("application/json"), None).starts_with('{')
        );
    }
}
