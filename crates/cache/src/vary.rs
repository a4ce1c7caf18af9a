//! Which of several stored responses answers a request: the fields that Vary nominates, and their values made
//! comparable (RFC 9111 section 4.1). It never looks at fields that no response nominated.

use http::{header, HeaderMap, HeaderName};

use crate::fields::{members, pair, split, tokens, trim};

/// How a browser came to ask (Fetch Metadata): from which site, and what for.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The names in a response's Vary, in order, each once. Responses with the same names are found by one lookup.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct VaryNames(Box<[HeaderName]>);

impl VaryNames {
    /// None: `*` is among them, and nothing but the origin can tell (section 4.1).
    pub fn of(headers: &HeaderMap) -> Option<VaryNames> {
        let mut names = Vec::new();
        for member in tokens(headers, header::VARY) {
            // What is no name of a field can't be compared: as good as `*`, which is none either.
            names.push(HeaderName::from_bytes(member).ok().filter(|_| member != b"*")?);
        }
        names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        Some(VaryNames(names.into()))
    }

    /// Those that were nominated once: in order again, should they not be.
    pub(crate) fn known(mut names: Vec<HeaderName>) -> VaryNames {
        names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        VaryNames(names.into())
    }

    pub fn names(&self) -> &[HeaderName] {
        &self.0
    }

    /// These but one.
    pub fn without(&self, name: &HeaderName) -> VaryNames {
        VaryNames(self.0.iter().filter(|nominated| *nominated != name).cloned().collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is a field that a page does not depend on, as long as it is for a visit (`is_visit`). Rails 8.2
    /// nominates Sec-Fetch-Site with every page whose forms it protects, and looks at it only where something is changed,
    /// so never for GET and HEAD. An application that nominates more of these fields means what it says.
    pub fn is_for_forms(&self, name: &HeaderName) -> bool {
        *name == FETCH_SITE && !self.0.iter().any(|other| *other == FETCH_MODE || *other == FETCH_DEST)
    }

    /// What the request says in these fields, such that the same bytes come out for what means the same.
    pub fn selecting(&self, request: &HeaderMap, mut write: impl FnMut(&[u8])) {
        for name in self.names() {
            write(name.as_str().as_bytes());
            write(b"\0");
            // A field that is absent is not one that is empty.
            if !request.contains_key(name) || self.is_for_forms(name) && is_visit(request) {
                write(b"\x01");
            } else {
                normalised(request, name, &mut write);
            }
            write(b"\0");
        }
    }
}

/// Whether a request is for a page that somebody goes to, or something that pages of the same origin use. What other sites embed is
/// neither: a site may refuse that by Sec-Fetch-Site (resource isolation), and its refusal is nobody else's page.
pub fn is_visit(request: &HeaderMap) -> bool {
    let said = |name: &HeaderName| -> Option<&[u8]> {
        let mut lines = request.get_all(name).iter();
        lines.next().map(|line| trim(line.as_bytes())).filter(|_| lines.next().is_none())
    };
    match said(&FETCH_SITE) {
        Some(b"none" | b"same-origin") => true,
        None if !request.contains_key(&FETCH_SITE) => true,
        _ => said(&FETCH_MODE) == Some(b"navigate") && said(&FETCH_DEST) == Some(b"document"),
    }
}

/// "normalizing both header field values in a way that is known to have identical semantics" (section 4.1).
fn normalised(request: &HeaderMap, name: &HeaderName, write: &mut impl FnMut(&[u8])) {
    match *name {
        header::ACCEPT_ENCODING => weighted(request, name, true, write),
        header::ACCEPT_LANGUAGE | header::ACCEPT | header::ACCEPT_CHARSET => weighted(request, name, false, write),
        // Several lines are one list (RFC 9110 section 5.3), except where a line is a whole.
        header::COOKIE => lines(request, name, b"; ", write),
        _ => {
            for (index, line) in request.get_all(name).iter().enumerate() {
                if index > 0 {
                    write(b",");
                }
                // Space around the commas of a list says nothing; in what is no list it is at most told apart too
                // little by a byte that no sender varies.
                for (index, member) in split(line.as_bytes(), b',').enumerate() {
                    if index > 0 {
                        write(b",");
                    }
                    write(member);
                }
            }
        }
    }
}

fn lines(request: &HeaderMap, name: &HeaderName, between: &[u8], write: &mut impl FnMut(&[u8])) {
    for (index, line) in request.get_all(name).iter().enumerate() {
        if index > 0 {
            write(between);
        }
        write(trim(line.as_bytes()));
    }
}

/// A list with weights: members in order of weight, then by name; in lower case. (`codings`: aliases too.) What is not
/// acceptable (weight 0) stays, since it excludes what `*` would admit.
fn weighted(request: &HeaderMap, name: &HeaderName, codings: bool, write: &mut impl FnMut(&[u8])) {
    let mut list: Vec<(u16, Vec<u8>)> = members(request, name).map(|member| weight(member, codings)).collect();
    list.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    list.dedup();
    for (weight, value) in list {
        write(&value);
        write(&weight.to_be_bytes());
    }
}

/// RFC 9110 section 12.4.2, in thousandths; what is no weight is as if it were absent.
fn weight(member: &[u8], codings: bool) -> (u16, Vec<u8>) {
    let (mut weight, mut value) = (1000, Vec::new());
    for (index, part) in split(member, b';').enumerate() {
        match pair(part) {
            Some((name, Some(number))) if index > 0 && name.eq_ignore_ascii_case(b"q") => {
                let number = std::str::from_utf8(&number).ok().and_then(|text| text.parse::<f32>().ok());
                weight = number
                    .filter(|number| (0.0..=1.0).contains(number))
                    .map_or(1000, |number| (number * 1000.0) as u16);
            }
            _ => {
                if index > 0 {
                    value.push(b';');
                }
                value.extend(part.to_ascii_lowercase());
            }
        }
    }
    if codings && matches!(&value[..], b"x-gzip" | b"x-compress") {
        value.drain(..2);
    }
    (weight, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    fn selecting(vary: &'static str, request: &[(&'static str, &'static str)]) -> Vec<u8> {
        let mut said = Vec::new();
        VaryNames::of(&headers(&[("vary", vary)]))
            .unwrap()
            .selecting(&headers(request), |bytes| said.extend_from_slice(bytes));
        said
    }

    #[test]
    fn a_star_anywhere_is_a_star() {
        for lines in [&["*"][..], &["*, *"], &["", "*"], &["foo, *"], &[", *"], &["a b"]] {
            let map: HeaderMap = lines.iter().map(|line| (header::VARY, HeaderValue::from_static(line))).collect();
            assert_eq!(VaryNames::of(&map), None, "{lines:?}");
        }
        assert_eq!(VaryNames::of(&HeaderMap::new()), Some(VaryNames::default()));
    }

    #[test]
    fn names_have_no_case_nor_order() {
        let of = |value| VaryNames::of(&headers(&[("vary", value)])).unwrap();
        assert_eq!(of("Foo, Bar,foo"), of("bar,FOO"));
    }

    #[test]
    fn what_means_the_same_is_the_same() {
        for (name, one, other) in [
            ("accept-language", "en, de", "de, en"),
            ("accept-language", "en, de", " eN ,   De"),
            ("accept-language", "en;q=0.5, de", "de;q=1.0, en; q=0.50"),
            ("accept-encoding", "gzip, br", "br,x-gzip"),
            ("foo", "1,2", " 1, 2 "),
        ] {
            assert_eq!(selecting(name, &[(name, one)]), selecting(name, &[(name, other)]), "{one} {other}");
        }
        assert_eq!(selecting("foo", &[("foo", "1, 2")]), selecting("foo", &[("foo", "1"), ("foo", "2")]));
    }

    #[test]
    fn where_a_visitor_comes_from_makes_no_other_page() {
        let vary = "accept-language, sec-fetch-site";
        let visit = |site| [("sec-fetch-site", site), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        let page = selecting(vary, &[]);
        for site in ["none", "same-origin", "same-site", "cross-site"] {
            assert_eq!(selecting(vary, &visit(site)), page, "a link or a form, {site}");
        }
        for site in ["none", "same-origin"] {
            assert_eq!(selecting(vary, &[("sec-fetch-site", site), ("sec-fetch-mode", "cors")]), page, "fetch, {site}");
        }
    }

    #[test]
    fn what_another_site_embeds_stays_apart() {
        let page = selecting("sec-fetch-site", &[]);
        for (site, mode, dest) in [
            ("cross-site", "no-cors", "image"),
            ("same-site", "cors", "empty"),
            ("cross-site", "navigate", "iframe"),
            ("cross-site", "navigate", "object"),
            ("strange", "no-cors", "image"),
        ] {
            let fields = [("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)];
            assert_ne!(selecting("sec-fetch-site", &fields), page, "{fields:?}");
        }
        assert_ne!(selecting("sec-fetch-site", &[("sec-fetch-site", "cross-site")]), page);
        let twice = [("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")];
        assert_ne!(selecting("sec-fetch-site", &twice), page, "two lines");
    }

    #[test]
    fn an_application_that_looks_at_more_is_believed() {
        for vary in ["sec-fetch-site, sec-fetch-mode", "sec-fetch-dest, sec-fetch-site"] {
            let visit =
                |site| [("sec-fetch-site", site), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
            assert_ne!(selecting(vary, &visit("none")), selecting(vary, &visit("cross-site")), "{vary}");
        }
    }

    #[test]
    fn what_differs_differs() {
        for (name, one, other) in [
            ("accept-language", "en, de", "en, de;q=0.9"),
            ("accept-encoding", "gzip", "gzip;q=0"),
            ("foo", "1 2", "12"),
            ("foo", "\"1, 2\"", "\"1,2\""),
            ("cookie", "a=1; b=2", "b=2; a=1"),
        ] {
            assert_ne!(selecting(name, &[(name, one)]), selecting(name, &[(name, other)]), "{one} {other}");
        }
        assert_ne!(selecting("foo", &[]), selecting("foo", &[("foo", "")]), "absent is not empty");
        assert_ne!(selecting("a, b", &[("a", "1")]), selecting("a, b", &[("b", "1")]));
    }
}
