//! Pages as the front would compress them: whether it may, how many bytes are left, and what it takes of the processor. The
//! bodies are those of an unchanged shadow, and stay in memory. It never decides whether that is worth it.

use bytes::Bytes;
use doctor::{
    observation::{header, Compressible},
    protocol::{ReplayResult, Request},
    statistics::median,
    verdict::CompressedRoute,
};
use http::{header::CONTENT_TYPE, request::Parts, HeaderMap, HeaderName, HeaderValue, Response};
use http_body_util::BodyExt;
use rustix::time::{clock_gettime, ClockId};

use crate::content::{
    body::ResponseBody,
    compress::{self, Effort, Settings},
};

/// How often each page is compressed: the middle time counts.
const TIMES: usize = 5;
/// As without any setting.
const SETTINGS: Settings = Settings { effort: Effort::Balanced, min: 1 << 10 };
/// The beginning of a body by which text is known.
const SNIFFED: usize = 4096;
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain");
/// A client that decodes these piece by piece may hold one back until the next comes.
const EVENTS: &str = "text/event-stream";

/// A page, compressed.
#[derive(Debug, PartialEq)]
pub struct CompressedPage {
    coding: String,
    before: u64,
    after: u64,
    cpu_us: f64,
}

/// Whether the front would compress this answer for this visitor.
pub fn compressible(request: &Request, answer: &ReplayResult) -> Compressible {
    let asked = asked(request);
    let is_compressed =
        |response| is_compressed(&compress::response(&asked, Settings { min: 0, ..SETTINGS }, response));
    // What is compressed here is thrown away: a few bytes of the body do.
    let body = || Bytes::copy_from_slice(&answer.body[..answer.body.len().min(SNIFFED)]);
    let is_events = header(&answer.headers, "content-type").is_some_and(|kind| kind.trim().starts_with(EVENTS));
    match () {
        () if answer.body.is_empty() || header(&answer.headers, "content-encoding").is_some() => Compressible::No,
        () if is_compressed(response(answer, body())) => Compressible::Yes,
        () if is_text(&answer.body) && !is_events && is_compressed(as_plain(response(answer, body()))) => {
            Compressible::OtherType
        }
        () => Compressible::No,
    }
}

/// None: the front would leave it as it is, whatever its type.
pub fn compressed(request: &Request, answer: &ReplayResult) -> Option<CompressedPage> {
    let is_other_type = match compressible(request, answer) {
        Compressible::No => return None,
        Compressible::Yes => false,
        Compressible::OtherType => true,
    };
    let (asked, body) = (asked(request), Bytes::copy_from_slice(&answer.body));
    let (mut times, mut page) = (Vec::new(), None);
    for _ in 0..TIMES {
        let plain = response(answer, body.clone());
        let plain = if is_other_type { as_plain(plain) } else { plain };
        let before = processor_us();
        let sent = compress::response(&asked, SETTINGS, plain);
        let coding = sent.headers().get(http::header::CONTENT_ENCODING)?.to_str().ok()?.to_owned();
        let after = length(sent.into_body())?;
        times.push(processor_us() - before);
        page = Some((coding, after));
    }
    let (coding, after) = page?;
    Some(CompressedPage { coding, before: answer.body.len() as u64, after, cpu_us: median(&times) })
}

/// Bytes of a body, all of which is there: nothing but this thread makes it go on.
fn length(body: ResponseBody) -> Option<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().ok()?;
    let whole = runtime.block_on(body.collect()).ok()?;
    Some(whole.to_bytes().len() as u64)
}

pub fn mean(route: &str, share: f64, pages: &[CompressedPage]) -> Option<CompressedRoute> {
    let first = pages.first()?;
    let of = |of: fn(&CompressedPage) -> f64| pages.iter().map(of).sum::<f64>() / pages.len() as f64;
    Some(CompressedRoute {
        route: route.to_owned(),
        share,
        coding: first.coding.clone(),
        before: of(|page| page.before as f64).round() as u64,
        after: of(|page| page.after as f64).round() as u64,
        cpu_us: of(|page| page.cpu_us),
    })
}

fn asked(request: &Request) -> Parts {
    let mut asked = http::Request::new(()).into_parts().0;
    asked.headers = fields(&request.headers);
    asked
}

fn response(answer: &ReplayResult, body: Bytes) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Whole(body));
    *response.status_mut() = http::StatusCode::from_u16(answer.status).unwrap_or_default();
    *response.headers_mut() = fields(&answer.headers);
    // A validator would have a visitor's own copy answer.
    response.headers_mut().remove(http::header::ETAG);
    response
}

fn as_plain(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    response.headers_mut().insert(CONTENT_TYPE, PLAIN);
    response
}

fn is_compressed(response: &Response<ResponseBody>) -> bool {
    response.headers().contains_key(http::header::CONTENT_ENCODING)
}

/// Those that are fields; others the front would not have taken.
fn fields(pairs: &[(String, String)]) -> HeaderMap {
    let known = pairs.iter().filter_map(|(name, value)| {
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_bytes(value.as_bytes()).ok()?))
    });
    let mut map = HeaderMap::new();
    for (name, value) in known {
        map.append(name, value);
    }
    map
}

/// By its bytes: UTF-8 without control characters. A letter at the end of what is looked at may be cut.
fn is_text(body: &[u8]) -> bool {
    let head = &body[..body.len().min(SNIFFED)];
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !text.is_empty() && !text.chars().any(|letter| letter.is_control() && !"\t\n\r\u{c}".contains(letter))
}

/// What this thread has had of the processor.
fn processor_us() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(accept: &str) -> Request {
        Request { headers: vec![("Accept-Encoding".into(), accept.into())], ..Request::default() }
    }

    fn answer(kind: &str, body: &[u8]) -> ReplayResult {
        let headers = vec![("Content-Type".into(), kind.into()), ("ETag".into(), "\"1\"".into())];
        ReplayResult { status: 200, headers, body: body.to_vec(), ..ReplayResult::default() }
    }

    fn rows(count: usize) -> Vec<u8> {
        (0..count).flat_map(|row| format!("row {row} of the price list\n").into_bytes()).collect()
    }

    #[test]
    fn what_the_front_would_compress() {
        use Compressible::{No, OtherType, Yes};
        let gzip = request("gzip, br");
        for (kind, body, expected) in [
            ("text/html", &b"<p>hello</p>"[..], Yes),
            ("application/x-price-list", b"beer;3.20\n\xc3\xa9", OtherType),
            ("application/octet-stream", b"beer;3.20\n\xc3", OtherType),
            ("application/octet-stream", b"PK\x03\x04\x00", No),
            ("image/png", b"\x89PNG", No),
            ("text/event-stream", b"data: 1\n\n", No),
            ("text/html", b"", No),
        ] {
            assert_eq!(compressible(&gzip, &answer(kind, body)), expected, "{kind} {body:?}");
        }
        assert_eq!(compressible(&request("identity"), &answer("text/html", b"<p>hello</p>")), No);
        assert_eq!(compressible(&Request::default(), &answer("text/html", b"<p>hello</p>")), No);
        for (name, value) in [("Content-Encoding", "gzip"), ("Cache-Control", "no-transform")] {
            let mut answer = answer("text/html", b"<p>hello</p>");
            answer.headers.push((name.into(), value.into()));
            assert_eq!(compressible(&gzip, &answer), No, "{name}");
        }
    }

    /// What is compressed in one go, and what is compressed piece by piece.
    #[test]
    fn pages_become_smaller_by_what_the_visitor_accepts() {
        for (count, kind) in [(200, "text/html"), (40_000, "text/html"), (40_000, "application/x-price-list")] {
            for (accept, coding) in [("gzip", "gzip"), ("gzip, deflate, br", "br"), ("zstd", "zstd")] {
                let body = rows(count);
                let page = compressed(&request(accept), &answer(kind, &body)).unwrap();
                assert_eq!((&*page.coding, page.before), (coding, body.len() as u64));
                assert!(page.after > 0 && page.after < page.before / 3 && page.cpu_us > 0.0, "{page:?}");
            }
        }
        assert_eq!(compressed(&request("gzip"), &answer("image/png", b"\x89PNG")), None);
        assert_eq!(compressed(&request("gzip"), &answer("text/html", b"<p>hello</p>")), None, "too small");
    }

    #[test]
    fn a_route_is_the_mean_of_its_pages() {
        let page = |before, after| CompressedPage { coding: "br".into(), before, after, cpu_us: 100.0 };
        let route = mean("GET /a", 0.5, &[page(1000, 100), page(3000, 301)]).unwrap();
        assert_eq!((route.before, route.after, route.cpu_us, &*route.coding), (2000, 201, 100.0, "br"));
        assert_eq!(mean("GET /a", 0.5, &[]), None);
    }
}
