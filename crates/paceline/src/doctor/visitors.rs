//! Requests of the sample as other visitors would send them: whether a page is the same for each of them. It never replays one.

use doctor::protocol::Request;

/// A request of somebody else: without what says who its visitor is, or, if it says nothing, with the cookies of
/// another. None: there are none.
pub fn of_another_visitor(request: &Request, cookies: &[String]) -> Option<Request> {
    let is_of_visitor = |name: &str| ["cookie", "authorization"].iter().any(|one| name.eq_ignore_ascii_case(one));
    let mut another = Request { user: None, ..request.clone() };
    another.headers.retain(|(name, _)| !is_of_visitor(name));
    if another == *request {
        another.headers.push(("cookie".into(), cookies.first()?.clone()));
    }
    Some(another)
}

/// A request of a visitor who does not exist, and brings all that a visitor may bring: what the page depends on is
/// asked for only if it may be there. The cookies that are known have other values.
pub fn of_stranger(request: &Request, cookies: &[String]) -> Request {
    const REPLACED: [&str; 8] = [
        "cookie",
        "authorization",
        "user-agent",
        "x-forwarded-for",
        "x-real-ip",
        "forwarded",
        "accept-language",
        "referer",
    ];
    let mut stranger = Request { user: None, ..request.clone() };
    let own = stranger.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("cookie")).map(|(_, value)| value);
    let known = own.chain(cookies).flat_map(|value| value.split(';')).filter_map(|one| one.trim().split_once('='));
    let mut brought: Vec<String> = known.map(|(name, _)| format!("{name}=paceline-stranger")).collect();
    brought.extend(["session_id", "user_id", "remember_token"].map(|name| format!("{name}=paceline-stranger")));
    stranger.headers.retain(|(name, _)| !REPLACED.iter().any(|one| name.eq_ignore_ascii_case(one)));
    let fields = [
        ("cookie", brought.join("; ")),
        ("authorization", "Bearer paceline-stranger".into()),
        ("user-agent", "paceline-stranger/1.0".into()),
        ("x-forwarded-for", "203.0.113.77".into()),
        ("accept-language", "x-stranger".into()),
    ];
    stranger.headers.extend(fields.map(|(name, value)| (name.to_owned(), value)));
    stranger
}

/// Cookies of the sample, for requests that have none.
pub fn cookies<'a>(requests: impl Iterator<Item = &'a Request>) -> Vec<String> {
    let fields = requests.flat_map(|request| &request.headers);
    fields.filter(|(name, _)| name.eq_ignore_ascii_case("cookie")).take(1).map(|(_, value)| value.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Or a page for one of them would be taken for a page for all.
    #[test]
    fn another_visitor_is_nobody_that_the_request_names() {
        let of = |headers: &[(&str, &str)], user: Option<&str>| {
            let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Request { headers, user: user.map(Into::into), ..Request::default() }
        };
        let (accept, cookie) = (("accept", "*/*"), ("cookie", "s=other"));
        let plain = of(&[accept], None);
        for own in [
            of(&[accept, ("Cookie", "s=own")], None),
            of(&[("Authorization", "Bearer own"), accept], None),
            of(&[accept], Some("ann")),
        ] {
            assert_eq!(of_another_visitor(&own, &["s=other".into()]).as_ref(), Some(&plain));
            assert_eq!(of_another_visitor(&own, &[]).as_ref(), Some(&plain));
        }
        assert_eq!(of_another_visitor(&plain, &["s=other".into()]), Some(of(&[accept, cookie], None)));
        assert_eq!(of_another_visitor(&plain, &[]), None);
    }
}
