//! The page after a logout. It names nobody, and nothing of the site.

use super::{
    accept::{form, Form},
    Page,
};
use maud::html;
use startup_report::html::document;

const TITLE: &str = "You are signed out";

/// `sign_in`: the address that signs in again.
pub fn signed_out(accept: Option<&str>, sign_in: &str) -> Page {
    let form = form(accept);
    let body = match form {
        Form::Html => {
            let main = html! {
                h1 { (TITLE) }
                p.said { a href=(sign_in) { "Sign in again" } }
            };
            document(TITLE, "narrow", &main).into_string()
        }
        Form::Text => format!("{TITLE}. Sign in again: {sign_in}\n"),
        Form::Json => format!("{}\n", serde_json::json!({ "message": TITLE, "sign_in": sign_in })),
    };
    (form.content_type(), body.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_so_in_every_form_and_leads_back() {
        let text = |accept| String::from_utf8(signed_out(accept, "/in?to=%2F").1.to_vec()).unwrap();
        let page = text(Some("text/html"));
        assert!(
            page.contains("You are signed out") && page.contains("<a href=\"/in?to=%2F\">Sign in again</a>"),
            "{page}"
        );
        assert_eq!(text(None), "You are signed out. Sign in again: /in?to=%2F\n");
        assert!(text(Some("application/json")).starts_with('{'));
    }
}
