//! Content codings and which of them a client accepts (RFC 9110 section 12.5.3).
//! It never compresses anything.

use cache::fields::text_tokens;
use http::{header, HeaderMap};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentCoding {
    Zstd,
    Brotli,
    Gzip,
}

impl ContentCoding {
    pub const ALL: [ContentCoding; 3] = [ContentCoding::Zstd, ContentCoding::Brotli, ContentCoding::Gzip];

    pub fn name(self) -> &'static str {
        match self {
            ContentCoding::Zstd => "zstd",
            ContentCoding::Brotli => "br",
            ContentCoding::Gzip => "gzip",
        }
    }
}

/// The client's weights in thousandths; 0 is "not acceptable", None "not listed".
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AcceptEncoding {
    zstd: Option<u16>,
    brotli: Option<u16>,
    gzip: Option<u16>,
    identity: Option<u16>,
    any: Option<u16>,
}

impl AcceptEncoding {
    /// Without the field any coding would be allowed; nothing but identity is then taken as understood.
    pub fn from_headers(headers: &HeaderMap) -> AcceptEncoding {
        let mut accepted = AcceptEncoding::default();
        // Members that are no text are no codings either.
        text_tokens(headers, header::ACCEPT_ENCODING).for_each(|member| accepted.add(member));
        accepted
    }

    fn add(&mut self, member: &str) {
        let (coding, weight) = member.split_once(';').unwrap_or((member, ""));
        let Some(weight) = parse_weight(weight) else {
            return;
        };
        let place = match coding.trim().to_ascii_lowercase().as_str() {
            "zstd" => &mut self.zstd,
            "br" => &mut self.brotli,
            "gzip" | "x-gzip" => &mut self.gzip,
            "identity" => &mut self.identity,
            "*" => &mut self.any,
            _ => return,
        };
        *place = Some(weight);
    }

    /// 0: not acceptable.
    pub fn weight(&self, coding: ContentCoding) -> u16 {
        let listed = match coding {
            ContentCoding::Zstd => self.zstd,
            ContentCoding::Brotli => self.brotli,
            ContentCoding::Gzip => self.gzip,
        };
        listed.or(self.any).unwrap_or(0)
    }

    /// Identity is acceptable without being listed, but anything listed is preferred to it. (Where it is forbidden and
    /// nothing else is to be had, it is sent all the same: a 406 would help nobody.)
    pub fn identity_weight(&self) -> u16 {
        self.identity.unwrap_or(0)
    }

    /// The best of `available`, where the smaller length wins between equals. None: identity.
    pub fn choose<T>(&self, available: impl IntoIterator<Item = (ContentCoding, u64, T)>) -> Option<T> {
        available
            .into_iter()
            .filter(|(coding, ..)| self.weight(*coding) >= self.identity_weight().max(1))
            .min_by_key(|(coding, length, _)| (u16::MAX - self.weight(*coding), *length))
            .map(|(.., item)| item)
    }
}

/// `q=0.5` as 500; an absent weight is 1. None: no weight of RFC 9110 section 12.4.2.
fn parse_weight(parameter: &str) -> Option<u16> {
    let parameter = parameter.trim();
    if parameter.is_empty() {
        return Some(1000);
    }
    let value = parameter.strip_prefix("q=").or_else(|| parameter.strip_prefix("Q="))?;
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let thousandths = format!("{fraction:0<3}").parse().ok()?;
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::{ContentCoding::*, *};

    fn accepting(value: &'static str) -> AcceptEncoding {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
        AcceptEncoding::from_headers(&headers)
    }

    #[test]
    fn a_member_that_is_no_coding_hides_no_other() {
        for value in ["gzip, \u{fc}", r#"", gzip"#, r#"a="1, gzip, 2""#] {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, value.parse().unwrap())]);
            assert_eq!(AcceptEncoding::from_headers(&headers).weight(Gzip), 1000, "{value}");
        }
    }

    /// RFC 9110 section 12.5.3.
    #[test]
    fn chooses() {
        // The lengths make zstd the best, then Brotli, then gzip.
        let all = [(Zstd, 1, Zstd), (Brotli, 2, Brotli), (Gzip, 3, Gzip)];
        for (value, expected) in [
            ("gzip", Some(Gzip)),
            ("gzip, deflate, br", Some(Brotli)),
            ("gzip, deflate, br, zstd", Some(Zstd)),
            ("GZIP", Some(Gzip)),
            ("x-gzip", Some(Gzip)),
            ("gzip;q=1.0, br;q=0.5", Some(Gzip)),
            ("gzip ; q=0.001", Some(Gzip)),
            ("br;q=0, gzip", Some(Gzip)),
            ("br;q=0.000, gzip;q=0", None),
            ("*", Some(Zstd)),
            ("*;q=0", None),
            ("zstd;q=0, *", Some(Brotli)),
            ("*;q=0, gzip;q=0.5", Some(Gzip)),
            ("identity;q=0, gzip;q=0.5", Some(Gzip)),
            ("identity;q=0, *;q=0", None),
            ("identity, gzip;q=0.5", None),
            ("identity, gzip", Some(Gzip)),
            ("identity;q=0.5, gzip;q=0.4, br;q=0.6", Some(Brotli)),
            ("identity", None),
            ("", None),
            ("deflate, compress", None),
            ("gzip;q=2", None),
            ("gzip;q=1.001", None),
            ("gzip;q=0.1234", None),
            ("gzip;level=9", None),
            ("gzip;q=", None),
            ("gzip;q=-1, br;q=0.x", None),
        ] {
            assert_eq!(accepting(value).choose(all), expected, "{value}");
        }
        assert_eq!(AcceptEncoding::default().choose(all), None);
        assert_eq!(accepting("br, gzip").choose([(Zstd, 1, Zstd), (Gzip, 3, Gzip)]), Some(Gzip));
    }
}
