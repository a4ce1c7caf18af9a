//! Why a request is not in the sample, and how requests are named for people. It never replays one.

use doctor::{
    observation::header,
    protocol::{ReplayResult, Request},
    report::Why,
};
use path_patterns::route::is_id;

use super::{replaying::line, samples::is_visitors};
use crate::origins::shadow::ShadowError;

/// Why a request is not for the sample. What an application says of an error may name what a visitor sent: of live
/// requests only the kind of the error is told.
pub fn refused(result: &ReplayResult, is_live: bool) -> Option<Why> {
    if let Some(write) = &result.write {
        return Some(Why::Writes(write.clone()));
    }
    if let Some(error) = &result.error {
        let at = if error.at.is_empty() { String::new() } else { format!(" ({})", error.at) };
        let message = if is_live || error.message.is_empty() { String::new() } else { format!(": {}", error.message) };
        return Some(Why::Failed { error: line(&format!("{}{message}{at}", error.class)).into_owned() });
    }
    (result.status >= 500).then(|| Why::Status { status: result.status, to: String::new() })
}

/// Somebody has named this request, and there is no page: what is measured of it would say nothing of the one that was
/// meant. A visitor has got what is sampled, whatever it is.
pub fn without_page(result: &ReplayResult, is_live: bool) -> Option<Why> {
    let is_page = (200..300).contains(&result.status) || result.status == 304;
    if is_live || is_page {
        return None;
    }
    let to = header(&result.headers, "location").unwrap_or_default();
    let path = to.split_once("://").map_or(to, |(_, rest)| rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/"));
    let path = path.split(['?', '#']).next().unwrap_or_default();
    Some(Why::Status { status: result.status, to: line(path).into_owned() })
}

/// Why a request is not for the sample, in words.
pub fn left_out(result: &ReplayResult, is_live: bool) -> Option<String> {
    refused(result, is_live).as_ref().map(why)
}

/// As behind `GET /beers`.
pub fn why(why: &Why) -> String {
    match why {
        Why::Writes(write) => line(&format!("tries to write ({}: {})", write.kind, write.what)).into_owned(),
        Why::Failed { error } => format!("fails: {error}"),
        Why::Status { status, to } if to.is_empty() => format!("is answered {status}"),
        Why::Status { status, to } => format!("is answered {status} (to {to})"),
    }
}

/// As `GET /beers?page=2`; of a visitor's request without what may be a secret (a token of a link to set a password):
/// `GET /beers/7?page=…`, `GET /invitations/*`.
pub fn named(request: &Request) -> String {
    let target = if is_visitors(request) { without_values(request) } else { request.target() };
    line(&format!("GET {target}")).into_owned()
}

fn without_values(request: &Request) -> String {
    let is_number = |step: &str| step.bytes().all(|byte| byte.is_ascii_digit());
    let steps = request.path.split('/').map(|step| if is_id(step) && !is_number(step) { "*" } else { step });
    let path = steps.collect::<Vec<_>>().join("/");
    let fields = request.query.split('&').map(|field| match field.split_once('=') {
        Some((name, value)) if !value.is_empty() && !is_id(name) => format!("{name}=…"),
        Some((name, "")) if !is_id(name) => format!("{name}="),
        _ => "…".into(),
    });
    if request.query.is_empty() {
        path
    } else {
        format!("{path}?{}", fields.collect::<Vec<_>>().join("&"))
    }
}

pub fn failed(error: &ShadowError) -> Why {
    Why::Failed { error: line(&error.to_string()).into_owned() }
}

#[cfg(test)]
mod tests {
    use doctor::protocol::{ErrorNote, WriteNote};

    use super::*;
    use crate::doctor::samples::Samples;

    #[test]
    fn what_is_left_out() {
        let fine = ReplayResult { status: 404, ..ReplayResult::default() };
        assert_eq!(refused(&fine, true), None);
        let failed = ReplayResult { status: 503, ..fine.clone() };
        assert_eq!(refused(&failed, true), Some(Why::Status { status: 503, to: String::new() }));
        let write = WriteNote { what: "INSERT".into(), kind: "sql".into(), ..WriteNote::default() };
        let writes = ReplayResult { write: Some(write.clone()), ..failed };
        assert_eq!(refused(&writes, true), Some(Why::Writes(write)));
        let error = ErrorNote { class: "KeyError".into(), message: "no \"ann@shop.test\"".into(), at: "a.rb:3".into() };
        let raised = ReplayResult { error: Some(error), ..fine };
        let told = |live| match refused(&raised, live) {
            Some(Why::Failed { error }) => error,
            other => panic!("{other:?}"),
        };
        assert_eq!((&*told(true), &*told(false)), ("KeyError (a.rb:3)", "KeyError: no \"ann@shop.test\" (a.rb:3)"));
    }

    #[test]
    fn a_named_request_without_a_page_is_left_out_with_where_it_is_sent() {
        let told = |status: u16, location: &str, is_live: bool| {
            let headers = vec![("Location".to_owned(), location.to_owned())];
            without_page(&ReplayResult { status, headers, ..ReplayResult::default() }, is_live).as_ref().map(why)
        };
        assert_eq!(
            told(302, "http://shop.test/login?next=%2Forders", false).as_deref(),
            Some("is answered 302 (to /login)")
        );
        assert_eq!(told(301, "https://shop.test", false).as_deref(), Some("is answered 301 (to /)"));
        assert_eq!(told(404, "", false).as_deref(), Some("is answered 404"));
        assert_eq!([200, 204, 304].map(|status| told(status, "", false)), [None, None, None]);
        assert_eq!(told(404, "", true), None, "a visitor has asked for it");
    }

    #[test]
    fn of_a_visitors_request_no_secret_is_told() {
        let own = |target: &str| {
            let samples = Samples::of_paths(&[target.to_owned()], "shop.test");
            samples.routes[0].requests[0].clone()
        };
        for (target, told) in [
            ("/beers/7?page=2", "GET /beers/7?page=…"),
            ("/password/edit?reset_password_token=s3cret&locale=", "GET /password/edit?reset_password_token=…&locale="),
            ("/invitations/7f9c2ba4e88f4d3f", "GET /invitations/*"),
            ("/unsubscribe?7f9c2ba4e88f4d3f", "GET /unsubscribe?…"),
            ("/", "GET /"),
        ] {
            let asked = own(target);
            assert_eq!(named(&asked), format!("GET {target}"), "who has named it may see it");
            assert_eq!(named(&Request { headers: Vec::new(), ..asked }), told);
        }
    }
}
