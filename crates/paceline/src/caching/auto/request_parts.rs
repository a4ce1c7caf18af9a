//! What a request has of the names that its page was made of, as the application would see it. It looks at no file.

use std::net::IpAddr;

use ::auto_cache::{
    keys::{Held, Name, Source},
    watch::{Around, Field, FileMark},
};
use cache::{parts::wanted_format, vary::is_visit};
use http::{header, request::Parts, HeaderMap, Method};
use percent_encoding::percent_decode;

use super::{
    file_marks::AskedFiles,
    request_fields::{self, is_plain},
};
use crate::exchange::Exchange;

/// All of a request's cookies.
const ALL: &str = "*";

/// The site that embeds what is asked for; absent for all that visitors go to (`is_visit`).
pub const EMBEDDING_SITE: &str = "embedding-site";

/// A request that may be answered with a page.
#[derive(Clone, Copy)]
pub struct RequestView<'a> {
    pub headers: &'a HeaderMap,
    pub query: Option<&'a str>,
    pub address: Option<IpAddr>,
    pub files: &'a AskedFiles<'a>,
}

/// What is kept of one until its answer is whole.
pub struct RequestParts {
    pub headers: HeaderMap,
    pub query: Option<String>,
    pub address: Option<IpAddr>,
}

impl RequestParts {
    pub fn view<'a>(&'a self, files: &'a AskedFiles<'a>) -> RequestView<'a> {
        RequestView { headers: &self.headers, query: self.query.as_deref(), address: self.address, files }
    }
}

impl Around for RequestView<'_> {
    fn held(&self, name: &Name) -> Held {
        match (name.source, name.name.as_str()) {
            (Source::Cookie, ALL) => joined(self.headers, header::COOKIE.as_str()),
            (Source::Cookie, name) => self.cookie(name),
            (Source::Header, name) => joined(self.headers, name),
            (Source::Query | Source::Parameter, _) => present(self.query.map(str::as_bytes)),
            (Source::Request, "accept") => self.accept(),
            (Source::Request, EMBEDDING_SITE) => {
                if is_visit(self.headers) {
                    Held::Absent
                } else {
                    joined(self.headers, "sec-fetch-site")
                }
            }
            (Source::Request, "address") => {
                present(self.address.map(|address| address.to_string()).as_ref().map(String::as_bytes))
            }
            _ => Held::Unknown,
        }
    }

    fn each_field(&self, see: &mut dyn FnMut(Field)) {
        request_fields::each_field(self.headers, self.address, see);
    }

    fn file(&self, path: &str) -> Option<FileMark> {
        self.files.mark(path)
    }
}

impl RequestView<'_> {
    /// Which of several the application takes, and what it makes of text that no browser sends, depends on its version of
    /// Rack: then all of them count.
    fn cookie(&self, name: &str) -> Held {
        if !self.headers.get_all(header::COOKIE).iter().all(|line| is_plain(line.as_bytes())) {
            return joined(self.headers, header::COOKIE.as_str());
        }
        let is_it = |own: &[u8]| own == name.as_bytes() || percent_decode(own).eq(name.bytes());
        let mut found = cache::cookies::cookies(self.headers).filter(|(own, _)| is_it(own)).map(|(_, value)| value);
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => joined(self.headers, header::COOKIE.as_str()),
            (value, _) => present(value),
        }
    }

    /// Of what a browser sends, Rails only looks that it is a browser's; of any other it takes the first format. With
    /// X-Requested-With it always does.
    fn accept(&self) -> Held {
        // Without the field it is HTML as well.
        wanted_format(self.headers).map_or(Held::Absent, Held::Present)
    }
}

/// A request that asks for no more than the page.
pub fn is_for_pages(head: &Parts, exchange: &Exchange) -> bool {
    let headers = &head.headers;
    let refuses = || {
        let lines = headers.get_all(header::CACHE_CONTROL).iter();
        let wants = |line: &[u8]| {
            let line = line.to_ascii_lowercase();
            ["no-cache", "no-store", "max-age", "min-fresh"].iter().any(|word| contains(&line, word.as_bytes()))
        };
        lines.into_iter().any(|line| wants(line.as_bytes())) || headers.contains_key(header::PRAGMA)
    };
    let is_read = head.method == Method::GET || head.method == Method::HEAD;
    let is_plain = ![header::UPGRADE, header::AUTHORIZATION].iter().any(|name| headers.contains_key(name));
    is_read && is_plain && !exchange.response.protected && exchange.requester.user.is_none() && !refuses()
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}

fn present(value: Option<&[u8]>) -> Held {
    value.map_or(Held::Absent, |value| Held::Present(value.to_vec()))
}

/// Lines of one field, as the application gets them.
fn joined(headers: &HeaderMap, name: &str) -> Held {
    let lines: Vec<&[u8]> = headers.get_all(name).iter().map(|value| value.as_bytes()).collect();
    if lines.is_empty() {
        Held::Absent
    } else {
        let separator: &[u8] = if name == header::COOKIE.as_str() { b"; " } else { b", " };
        Held::Present(lines.join(separator))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{caching::auto::file_marks::FileMarks, support::site_files::SiteFiles};
    use http::HeaderValue;
    use unix_user::RunAs;

    fn asked(fields: &[(&'static str, &'static str)]) -> RequestParts {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        RequestParts { headers, query: None, address: None }
    }

    fn held(asked: &RequestParts, source: Source, name: &str) -> Held {
        let marks = FileMarks::new(SiteFiles::new(RunAs::own()));
        asked.view(&AskedFiles::new(&marks)).held(&Name { source, name: name.into() })
    }

    fn text(text: &str) -> Held {
        Held::Present(text.into())
    }

    #[test]
    fn cookies_and_headers() {
        let request = asked(&[("cookie", "a=1; loc%61le=de; a=2"), ("x-tenant", "one"), ("x-tenant", "two")]);
        assert_eq!(held(&request, Source::Cookie, "a"), text("a=1; loc%61le=de; a=2"), "versions of Rack differ");
        assert_eq!(held(&request, Source::Cookie, "locale"), text("de"));
        assert_eq!(held(&request, Source::Cookie, "b"), Held::Absent);
        assert_eq!(held(&request, Source::Cookie, "*"), text("a=1; loc%61le=de; a=2"));
        assert_eq!(held(&request, Source::Header, "x-tenant"), text("one, two"));
        assert_eq!(held(&request, Source::Header, "x-other"), Held::Absent);
        assert_eq!(held(&request, Source::Session, "user_id"), Held::Unknown);
    }

    #[test]
    fn all_visits_get_the_same_page() {
        let site = |fields: &[(&'static str, &'static str)]| held(&asked(fields), Source::Request, EMBEDDING_SITE);
        let visit = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        assert_eq!(
            (site(&[]), site(&visit), site(&[("sec-fetch-site", "none")])),
            (Held::Absent, Held::Absent, Held::Absent)
        );
        assert_eq!(site(&[("sec-fetch-site", "cross-site"), ("sec-fetch-dest", "image")]), text("cross-site"));
    }

    #[test]
    fn lines_of_cookies_are_joined_as_the_application_gets_them() {
        let (lines, one) = (asked(&[("cookie", "a=1"), ("cookie", "b=2")]), asked(&[("cookie", "a=1, b=2")]));
        assert_eq!(held(&lines, Source::Cookie, "*"), text("a=1; b=2"));
        assert_ne!(held(&lines, Source::Cookie, "*"), held(&one, Source::Cookie, "*"));
    }

    #[test]
    fn cookies_that_rack_reads_in_another_way_count_as_they_are() {
        for other in ["locale; locale=de", "locale=de ; a=1", "a=1;\tlocale=de", " locale=de", "a=1; locale=de\t"] {
            assert_eq!(held(&asked(&[("cookie", other)]), Source::Cookie, "locale"), text(other), "{other:?}");
        }
        for plain in ["locale=de", "a=1;locale=de", "a=1;  locale=de; ", "a=1 2;; locale=de;"] {
            assert_eq!(held(&asked(&[("cookie", plain)]), Source::Cookie, "locale"), text("de"), "{plain:?}");
        }
    }

    #[test]
    fn browsers_get_the_same_format() {
        let accept = |fields: &[(&'static str, &'static str)]| held(&asked(fields), Source::Request, "accept");
        for browser in ["text/html,application/xml;q=0.9,*/*;q=0.8", "*/* , text/html"] {
            assert_eq!(accept(&[("accept", browser)]), Held::Absent, "{browser}");
        }
        for other in ["*/*", "application/json", "text/html"] {
            assert_eq!(accept(&[("accept", other)]), text(other));
        }
        let script = [("accept", "text/html, */*"), ("x-requested-with", "XMLHttpRequest")];
        assert_eq!(accept(&script), text("text/html, */*"));
        assert_eq!(accept(&[]), Held::Absent);
    }
}
