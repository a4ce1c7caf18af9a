//! What is to be purged, as a request says it: by the method PURGE, as reverse proxies have it, or by JSON.
//! It never guesses: what is unclear is refused.

use std::sync::Arc;

use cache::{key::Target, store::How};
use cluster::Outcome;
use http::{header, request::Parts, StatusCode, Uri};
use percent_encoding::{utf8_percent_encode, AsciiSet};
use serde_json::{json, Value};

use super::answer::{aside, ControlRequest, JsonResult, Refusal};
use crate::{
    caching::{Purge, PurgeShared, SHARING_TIME},
    request::front::Front,
};

/// What one request wants purged.
#[derive(Debug, PartialEq, Eq)]
struct Wish {
    what: Vec<Purge>,
    how: How,
    /// Other fronts are waited for until they have confirmed it; else only for a moment.
    wait: bool,
}

/// POST /cache/purge.
pub async fn posted(asked: ControlRequest, server: Arc<Front>) -> JsonResult {
    purge(of_json(&asked.body)?, server).await
}

/// PURGE of a URL.
pub async fn by_method(asked: ControlRequest, server: Arc<Front>) -> JsonResult {
    purge(of_head(&asked.head)?, server).await
}

async fn purge(wish: Wish, server: Arc<Front>) -> JsonResult {
    let (wait, cluster) = (wish.wait, server.cluster.clone());
    let (purged, shared) = aside(move || {
        // What they are named by is no concern of these: all of them are made once more.
        server.routes().all().iter().for_each(|site| site.purger()());
        let caches: Vec<_> = server.routes().all().iter().filter_map(|site| site.cache.clone()).collect();
        let mut what = wish.what;
        // A URL may be kept under a shorter one, without the parameters that do not matter.
        let known: Vec<_> = what
            .iter()
            .filter_map(|purge| match purge {
                Purge::Url(url) => Some(url),
                _ => None,
            })
            .flat_map(|url| caches.iter().filter_map(|cache| cache.kept_under(url)).map(Purge::Url))
            .collect();
        what.extend(known);
        let mut done: Vec<Purge> = Vec::new();
        let (mut purged, mut shared) = (0, Vec::new());
        for purge in what {
            if !done.contains(&purge) {
                let (count, elsewhere) = server.cache.purge_everywhere(&purge, wish.how);
                purged += count;
                shared.extend(elsewhere);
                done.push(purge);
            }
        }
        (purged, shared)
    })
    .await?;
    let Some(cluster) = cluster else { return Ok(json!({ "purged": purged })) };
    let time = if wait { cluster.patience() } else { SHARING_TIME };
    let outcome = tokio::time::timeout(time, outcome(shared)).await;
    outcome_json(purged, wait, outcome.ok())
}

/// The outcome of the last of several purges, or of the first that could not be shared.
async fn outcome(shared: Vec<PurgeShared>) -> Outcome {
    let mut last = Outcome::Unconfirmed("the server is ending".into());
    for shared in shared {
        last = shared.await.unwrap_or(last);
        if !matches!(last, Outcome::Confirmed { .. }) {
            break;
        }
    }
    last
}

/// The answer. `outcome`: None if the other fronts took too long.
fn outcome_json(purged: usize, wait: bool, outcome: Option<Outcome>) -> JsonResult {
    let failed = |why: String| {
        let pages = if purged == 1 { "1 response is".to_owned() } else { format!("{purged} responses are") };
        let why = format!("{pages} purged on this front, but {why}");
        Err(Refusal { status: StatusCode::SERVICE_UNAVAILABLE, why })
    };
    match outcome {
        Some(Outcome::Confirmed { fronts, silent }) => {
            Ok(json!({ "purged": purged, "confirmed": true, "fronts": fronts, "silent": silent }))
        }
        _ if !wait => Ok(json!({ "purged": purged, "confirmed": false })),
        Some(Outcome::Unsent(why)) => failed(format!(
            "the cluster's server can't be reached: {why}. The others get the purge as soon as this front reaches it; fronts that have \
             lost it, too, ask the application after partition_ttl"
        )),
        Some(Outcome::Unconfirmed(why)) => {
            failed(format!("could not learn whether the other servers have it: {why}. They read it as soon as they can"))
        }
        None => failed("other fronts have not confirmed it in time: `paceline cluster` shows which".into()),
    }
}

const KEYS: &str = "\"url\", \"tag\", \"prefix\" or \"all\": true";

fn of_json(body: &[u8]) -> Result<Wish, Refusal> {
    let said: Value =
        serde_json::from_slice(body).map_err(|why| Refusal::bad(format!("the body is not JSON: {why}")))?;
    let Value::Object(said) = said else { return Err(Refusal::bad(format!("the body must be an object with {KEYS}"))) };
    let (mut how, mut wait) = (How::Drop, false);
    let mut what = None;
    for (key, value) in &said {
        let text = || match value.as_str() {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(Refusal::bad(format!("\"{key}\" must be a non-empty text, not {value}"))),
        };
        let one = match key.as_str() {
            "soft" => {
                let soft = value.as_bool();
                if soft.ok_or_else(|| Refusal::bad(format!("\"soft\" must be true or false, not {value}")))? {
                    how = How::Expire;
                }
                continue;
            }
            "wait" => {
                let said = value.as_bool();
                wait = said.ok_or_else(|| Refusal::bad(format!("\"wait\" must be true or false, not {value}")))?;
                continue;
            }
            "url" => Purge::Url(url(text()?)?),
            "tag" => Purge::Tag(text()?.to_owned()),
            "prefix" => Purge::Prefix(prefix(text()?)?),
            "all" if value == &Value::Bool(true) => Purge::All,
            "all" => return Err(Refusal::bad(format!("\"all\" can only be true, not {value}"))),
            _ => return Err(Refusal::bad(format!("unknown key \"{key}\"; use {KEYS}"))),
        };
        if what.replace(one).is_some() {
            return Err(Refusal::bad(format!("use only one of {KEYS}")));
        }
    }
    let what = what.ok_or_else(|| Refusal::bad(format!("nothing to purge: give {KEYS}")))?;
    Ok(Wish { what: vec![what], how, wait })
}

fn of_head(head: &Parts) -> Result<Wish, Refusal> {
    let how = match head.headers.get("soft").map(|soft| soft.as_bytes().to_ascii_lowercase()).as_deref() {
        None | Some(b"0" | b"false") => How::Drop,
        Some(b"1" | b"true") => How::Expire,
        Some(_) => return Err(Refusal::bad("the header Soft must be 1 or 0")),
    };
    let uri = &head.uri;
    let full = uri.path_and_query().map_or("/", |full| full.as_str());
    let what = match (uri.scheme_str(), uri.authority()) {
        (Some(_), Some(_)) => vec![Purge::Url(url(&uri.to_string())?)],
        // Nothing says how the page is asked for: it goes in both ways.
        _ => {
            let host =
                head.headers.get(header::HOST).and_then(|host| host.to_str().ok()).filter(|host| !host.is_empty());
            let host = host.ok_or_else(|| Refusal::bad("the host is missing: send a Host header, or the whole URL"))?;
            if !full.starts_with('/') {
                return Err(Refusal::bad("PURGE takes a URL or a path that begins with /"));
            }
            let both = ["http", "https"].map(|scheme| url(&format!("{scheme}://{host}{full}")).map(Purge::Url));
            both.into_iter().collect::<Result<_, _>>()?
        }
    };
    Ok(Wish { what, how, wait: false })
}

/// What clients percent-encode before they ask: controls, spaces, quotes, and all that is not ASCII.
const UNSENDABLE: &AsciiSet = &percent_encoding::CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'`');

/// A URL as responses are kept by it: host in lower case, no default port, a path.
fn url(text: &str) -> Result<String, Refusal> {
    let wrong = |why: &str| Refusal::bad(format!("{text:?} is no URL like https://shop.test/products/1: {why}"));
    let sendable = utf8_percent_encode(text.split('#').next().unwrap_or(text), UNSENDABLE).to_string();
    let uri: Uri = sendable.parse().map_err(|_| wrong("it can't be read"))?;
    let Some(scheme @ ("http" | "https")) = uri.scheme_str() else {
        return Err(wrong("it must begin with http:// or https://"));
    };
    let Some(authority) = uri.authority().filter(|authority| !authority.as_str().contains('@')) else {
        return Err(wrong("it must have a host and no user name"));
    };
    let path = uri.path_and_query().map_or("/", |full| full.as_str());
    let slash = if path.starts_with('/') { "" } else { "/" };
    let path = format!("{slash}{path}");
    Ok(Target { scheme, authority: authority.as_str(), path: &path }.url())
}

/// The beginning of such URLs. It may end within the host's name.
fn prefix(text: &str) -> Result<String, Refusal> {
    let known = ["http://", "https://"]
        .into_iter()
        .find(|known| text.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known)));
    let Some(known) = known else {
        let why = format!("{text:?} is not how a URL begins: http:// or https:// and a host come first");
        return Err(Refusal::bad(why));
    };
    let rest = &text[known.len()..];
    match rest.find('/') {
        Some(0) => Err(Refusal::bad(format!("{text:?} has no host"))),
        Some(slash) => {
            let path = utf8_percent_encode(&rest[slash..], UNSENDABLE).to_string();
            let scheme = known.trim_end_matches("://");
            Ok(Target { scheme, authority: &rest[..slash], path: &path }.url())
        }
        None => Ok(format!("{known}{}", rest.to_ascii_lowercase())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Result<Wish, String> {
        of_json(text.as_bytes()).map_err(|refusal| refusal.why)
    }

    fn purge(target: &str, headers: &[(&'static str, &str)]) -> Result<Wish, String> {
        let mut request = http::Request::builder().method("PURGE").uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        of_head(&request.body(()).unwrap().into_parts().0).map_err(|refusal| refusal.why)
    }

    #[test]
    fn urls_are_named_as_they_are_kept() {
        for (given, kept) in [
            ("http://shop.test", "http://shop.test/"),
            ("HTTP://Shop.Test:80/A?b=C", "http://shop.test/A?b=C"),
            ("https://shop.test:443/a#here", "https://shop.test/a"),
            ("http://shop.test?a", "http://shop.test/?a"),
            ("http://shop.test:8080/%61//b/../c", "http://shop.test:8080/%61//b/../c"),
            ("http://shop.test/käse brot", "http://shop.test/k%C3%A4se%20brot"),
            ("http://[::1]:3000/", "http://[::1]:3000/"),
        ] {
            assert_eq!(url(given).as_deref(), Ok(kept), "{given}");
        }
        for (given, told) in [
            ("/a", "must begin with http://"),
            ("shop.test/a", "is no URL"),
            ("ftp://shop.test/", "must begin with http://"),
            ("http://me:secret@shop.test/", "no user name"),
            ("http:///a", "is no URL"),
            ("", "is no URL"),
        ] {
            let why = url(given).unwrap_err().why;
            assert!(why.contains(told), "{given}: {why}");
        }
    }

    #[test]
    fn prefixes_may_end_anywhere() {
        for (given, kept) in [
            ("http://", "http://"),
            ("HTTPS://Sho", "https://sho"),
            ("http://Shop.test:80/A", "http://shop.test/A"),
            ("http://shop.test/ä", "http://shop.test/%C3%A4"),
        ] {
            assert_eq!(prefix(given).as_deref(), Ok(kept), "{given}");
        }
        for given in ["/a", "shop.test", "", "http:///a", "ä"] {
            assert!(prefix(given).is_err(), "{given}");
        }
    }

    #[test]
    fn json_says_one_thing() {
        let soft = Wish { what: vec![Purge::Tag("https://shop.test a b".into())], how: How::Expire, wait: false };
        assert_eq!(json(r#"{"tag": "https://shop.test a b", "soft": true}"#), Ok(soft));
        assert_eq!(
            json(r#"{"all": true, "soft": false}"#),
            Ok(Wish { what: vec![Purge::All], how: How::Drop, wait: false })
        );
        assert!(json(r#"{"all": true, "wait": true}"#).unwrap().wait);
        let of_url = json(r#"{"url": "http://A/"}"#).unwrap();
        assert_eq!(of_url.what, [Purge::Url("http://a/".into())]);
        for (said, told) in [
            ("", "not JSON"),
            ("[]", "must be an object"),
            ("{}", "nothing to purge"),
            (r#"{"soft": true}"#, "nothing to purge"),
            (r#"{"all": false}"#, "can only be true"),
            (r#"{"all": true, "soft": 1}"#, "\"soft\" must be true or false, not 1"),
            (r#"{"all": true, "wait": 1}"#, "\"wait\" must be true or false, not 1"),
            (r#"{"tag": ""}"#, "non-empty text"),
            (r#"{"tag": ["a"]}"#, "must be a non-empty text"),
            (r#"{"tag": "a", "url": "http://a/"}"#, "use only one"),
            (r#"{"key": "a"}"#, "unknown key \"key\""),
        ] {
            let why = json(said).unwrap_err();
            assert!(why.contains(told), "{said}: {why}");
        }
    }

    #[test]
    fn who_waits_is_told_what_has_become_of_it() {
        let confirmed = || Some(Outcome::Confirmed { fronts: 2, silent: vec!["web3 (pid 7)".into()] });
        let answer = json!({ "purged": 1, "confirmed": true, "fronts": 2, "silent": ["web3 (pid 7)"] });
        assert_eq!(
            (outcome_json(1, true, confirmed()), outcome_json(1, false, confirmed())),
            (Ok(answer.clone()), Ok(answer))
        );
        for (outcome, words) in [
            (Some(Outcome::Unsent("refused".into())), "can't be reached: refused"),
            (
                Some(Outcome::Unconfirmed("refused".into())),
                "could not learn whether the other servers have it: refused",
            ),
            (None, "have not confirmed it in time"),
        ] {
            let refusal = outcome_json(1, true, outcome.clone()).unwrap_err();
            assert_eq!(refusal.status, StatusCode::SERVICE_UNAVAILABLE);
            assert!(
                refusal.why.starts_with("1 response is purged on this front") && refusal.why.contains(words),
                "{refusal:?}"
            );
            assert_eq!(outcome_json(1, false, outcome), Ok(json!({ "purged": 1, "confirmed": false })));
        }
    }

    #[test]
    fn the_method_takes_a_url_or_a_path_of_a_host() {
        let url = |url: &str| Purge::Url(url.into());
        let whole = purge("http://shop.test/a?b", &[("soft", "1")]).unwrap();
        assert_eq!(whole, Wish { what: vec![url("http://shop.test/a?b")], how: How::Expire, wait: false });
        let both = purge("/a", &[("host", "Shop.test")]).unwrap();
        assert_eq!(both.what, [url("http://shop.test/a"), url("https://shop.test/a")]);
        for (target, headers, told) in [
            ("/a", &[][..], "the host is missing"),
            ("/a", &[("host", "a b")], "is no URL"),
            ("/a", &[("host", "me@shop.test")], "no user name"),
            ("*", &[("host", "shop.test")], "PURGE takes"),
            ("/a", &[("host", "shop.test"), ("soft", "perhaps")], "Soft must be"),
        ] {
            let why = purge(target, headers).unwrap_err();
            assert!(why.contains(told), "{target}: {why}");
        }
    }
}
