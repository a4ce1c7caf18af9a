//! A body whose CSRF tokens, nonces and random texts are cut out. Rails (up to 8.1) masks the token of a session again for each form: 32
//! random bytes, and those bytes XOR the token, in Base64. So a token is recognized by the session's secret alone, and is
//! minted for another visitor by his. It reads no session and makes no random bytes: both are arguments.

use std::{ops::Range, sync::Arc};

use base64::{
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
    Engine,
};
use ring::hmac;

use crate::random_text::Place;

/// A session's `_csrf_token`, decoded.
pub type Secret = [u8; 32];

/// The random half of a token.
pub type Pad = [u8; 32];

/// Which token of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// For all forms.
    Global,
    /// For one form, with `per_form_csrf_tokens`.
    Form { path: String, method: String },
    /// The session's secret itself, as Rails before 5.2.4 has it.
    Secret,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hole {
    Token { kind: Kind, url_safe: bool },
    Nonce,
    Text(Place),
}

/// A body, or the value of a header, with its holes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: Arc<[u8]>,
    holes: Vec<(usize, Hole)>,
}

/// What a page was made with.
#[derive(Debug, Clone, Default)]
pub struct Visitor<'a> {
    /// None: without a session, so that no token can be there.
    pub secret: Option<&'a Secret>,
    /// `action` and `method` of each form that got a token of its own.
    pub forms: &'a [(String, String)],
    /// Of the Content-Security-Policy.
    pub nonce: Option<&'a str>,
    /// Where its random texts are.
    pub texts: &'a [(Range<usize>, Place)],
}

/// Characters of a masked token: 64 bytes, without padding.
const TOKEN: usize = 86;
/// A longer run of Base64 is a picture or the like, and is not looked through.
const MAX_RUN: usize = 512;
/// A shorter nonce may be in a text by chance.
const MIN_NONCE: usize = 16;

impl Kind {
    fn token(&self, secret: &Secret) -> Secret {
        let message = match self {
            Kind::Secret => return *secret,
            Kind::Global => String::from("!real_csrf_token"),
            Kind::Form { path, method } => format!("{path}#{}", method.to_lowercase()),
        };
        let mut token = [0; 32];
        token.copy_from_slice(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes()).as_ref());
        token
    }
}

impl Template {
    /// Cuts the visitor's tokens, nonce and random texts out of the body. What it does not find stays: compare `tokens()` with the
    /// number of tokens that were minted for the page before it is kept, and `texts()` with the number of their places.
    pub fn cut(body: &[u8], visitor: &Visitor) -> Template {
        let mut found = visitor.secret.map_or_else(Vec::new, |secret| tokens(body, secret, visitor.forms));
        if let Some(nonce) = visitor.nonce.filter(|nonce| nonce.len() >= MIN_NONCE) {
            found.extend(occurrences(body, nonce.as_bytes()).map(|range| (range, Hole::Nonce)));
        }
        found.extend(visitor.texts.iter().map(|(range, place)| (range.clone(), Hole::Text(*place))));
        found.sort_by_key(|(range, _)| range.start);
        let (mut text, mut holes) = (Vec::with_capacity(body.len()), Vec::new());
        let mut at = 0;
        for (range, hole) in found {
            // A nonce that is part of a token or a text, or the reverse.
            if range.start < at {
                continue;
            }
            text.extend(&body[at..range.start]);
            holes.push((text.len(), hole));
            at = range.end;
        }
        text.extend(&body[at..]);
        Template { text: text.into(), holes }
    }

    /// What is left without them.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// All of it, if it has no holes.
    pub fn whole(&self) -> Option<&Arc<[u8]>> {
        self.holes.is_empty().then_some(&self.text)
    }

    /// Bytes that it takes, about.
    pub fn size(&self) -> usize {
        self.text.len() + 64 * self.holes.len()
    }

    /// How many tokens were cut out.
    pub fn tokens(&self) -> usize {
        self.holes.iter().filter(|(_, hole)| matches!(hole, Hole::Token { .. })).count()
    }

    pub fn nonces(&self) -> usize {
        self.holes.iter().filter(|(_, hole)| matches!(hole, Hole::Nonce)).count()
    }

    /// Places of random texts.
    pub fn texts(&self) -> usize {
        self.holes.iter().filter(|(_, hole)| matches!(hole, Hole::Text(_))).count()
    }

    /// The body for another visitor. None: it has tokens or a nonce, and this visitor has no secret or nonce.
    pub fn fill(&self, secret: Option<&Secret>, nonce: Option<&str>, mut pad: impl FnMut() -> Pad) -> Option<Vec<u8>> {
        let mut body = Vec::with_capacity(self.text.len() + 90 * self.holes.len());
        let mut texts: Vec<String> = Vec::new();
        let mut at = 0;
        for (place, hole) in &self.holes {
            body.extend(&self.text[at..*place]);
            at = *place;
            match hole {
                Hole::Nonce => body.extend(nonce?.as_bytes()),
                // They are numbered as they come.
                Hole::Text(Place { number, form, length }) => {
                    if *number == texts.len() {
                        texts.push(form.text(*length, &mut pad));
                    }
                    body.extend(texts.get(*number)?.as_bytes());
                }
                Hole::Token { kind, url_safe } => {
                    let masked = mask(&kind.token(secret?), &pad());
                    let token = if *url_safe { URL_SAFE_NO_PAD.encode(masked) } else { STANDARD.encode(masked) };
                    body.extend(token.as_bytes());
                }
            }
        }
        body.extend(&self.text[at..]);
        Some(body)
    }
}

fn mask(token: &Secret, pad: &Pad) -> [u8; 64] {
    let mut masked = [0; 64];
    masked[..32].copy_from_slice(pad);
    for (at, byte) in masked[32..].iter_mut().enumerate() {
        *byte = pad[at] ^ token[at];
    }
    masked
}

fn tokens(body: &[u8], secret: &Secret, forms: &[(String, String)]) -> Vec<(Range<usize>, Hole)> {
    let form = |(path, method): &(String, String)| Kind::Form { path: path.clone(), method: method.clone() };
    let kinds = [Kind::Global, Kind::Secret].into_iter().chain(forms.iter().map(form));
    let known: Vec<(Secret, Kind)> = kinds.map(|kind| (kind.token(secret), kind)).collect();
    let mut found = Vec::new();
    for run in runs(body) {
        let mut at = run.start;
        while at + TOKEN <= run.end {
            match token_at(body, at, &known) {
                Some((kind, url_safe)) => {
                    let end = at + TOKEN + if url_safe { 0 } else { 2 };
                    found.push((at..end, Hole::Token { kind, url_safe }));
                    at = end;
                }
                None => at += 1,
            }
        }
    }
    found
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte)
}

/// Where text could have a token.
fn runs(body: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < body.len() {
        let length = body[at..].iter().take_while(|byte| is_base64(**byte)).count();
        if (TOKEN..=MAX_RUN).contains(&length) {
            found.push(at..at + length);
        }
        at += length + 1;
    }
    found
}

fn token_at(body: &[u8], at: usize, known: &[(Secret, Kind)]) -> Option<(Kind, bool)> {
    let text = &body[at..at + TOKEN];
    let padded = body[at + TOKEN..].starts_with(b"==");
    let mut standard = [0; TOKEN + 2];
    for (to, from) in standard.iter_mut().zip(text) {
        *to = match from {
            b'-' => b'+',
            b'_' => b'/',
            byte => *byte,
        };
    }
    standard[TOKEN..].copy_from_slice(b"==");
    let masked = STANDARD.decode(standard).ok()?;
    let (pad, rest) = masked.split_first_chunk::<32>()?;
    let matches = |token: &Secret| rest.iter().enumerate().all(|(at, byte)| pad[at] ^ token[at] == *byte);
    let (_, kind) = known.iter().find(|(token, _)| matches(token))?;
    // Rails writes one form or the other; URL-safe ones have no padding.
    Some((kind.clone(), !padded))
}

fn occurrences<'a>(body: &'a [u8], text: &'a [u8]) -> impl Iterator<Item = Range<usize>> + 'a {
    let mut at = 0;
    std::iter::from_fn(move || {
        let found = body[at..].windows(text.len()).position(|window| window == text)? + at;
        at = found + text.len();
        Some(found..at)
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::random_text::{places, RandomText};

    const ANN: Secret = [7; 32];
    const BOB: Secret = [9; 32];

    /// As Rails writes it.
    pub(crate) fn token(secret: &Secret, kind: &Kind, pad: u8, url_safe: bool) -> String {
        let masked = mask(&kind.token(secret), &[pad; 32]);
        if url_safe {
            URL_SAFE_NO_PAD.encode(masked)
        } else {
            STANDARD.encode(masked)
        }
    }

    fn form() -> Kind {
        Kind::Form { path: "/posts".into(), method: "post".into() }
    }

    #[test]
    fn another_visitor_gets_his_own_tokens() {
        let forms = [(String::from("/posts"), String::from("POST"))];
        for url_safe in [true, false] {
            let page = |secret, first, second| {
                let (global, form) =
                    (token(secret, &Kind::Global, first, url_safe), token(secret, &form(), second, url_safe));
                format!("<meta name=\"csrf-token\" content=\"{global}\"><input value=\"{form}\">")
            };
            let visitor = Visitor { secret: Some(&ANN), forms: &forms, nonce: None, ..Visitor::default() };
            let template = Template::cut(page(&ANN, 200, 251).as_bytes(), &visitor);
            assert_eq!(template.tokens(), 2);
            let mut pads = [[3; 32], [255; 32]].into_iter();
            let filled = template.fill(Some(&BOB), None, || pads.next().unwrap()).unwrap();
            assert_eq!(String::from_utf8(filled).unwrap(), page(&BOB, 3, 255));
            assert_eq!(template.fill(None, None, || [0; 32]), None, "a page with tokens is nothing without a session");
        }
    }

    #[test]
    fn nothing_of_the_first_visitor_is_left() {
        let page = format!("a{}b", token(&ANN, &Kind::Global, 5, true));
        let template = Template::cut(page.as_bytes(), &Visitor { secret: Some(&ANN), ..Visitor::default() });
        // The letters around it are Base64, too.
        assert_eq!((template.tokens(), &*template.text), (1, b"ab".as_slice()));
    }

    #[test]
    fn what_is_no_token_of_this_session_stays() {
        let page = format!("{} {}", token(&BOB, &Kind::Global, 1, true), "A".repeat(2000));
        let template = Template::cut(page.as_bytes(), &Visitor { secret: Some(&ANN), ..Visitor::default() });
        assert_eq!(template.tokens(), 0);
        assert_eq!(template.fill(None, None, || [0; 32]).unwrap(), page.as_bytes());
        // A form that nobody has told of.
        let page = token(&ANN, &form(), 1, true);
        assert_eq!(Template::cut(page.as_bytes(), &Visitor { secret: Some(&ANN), ..Visitor::default() }).tokens(), 0);
    }

    #[test]
    fn each_visitor_gets_texts_of_his_own() {
        let text = |form, text: &str| RandomText::new(form, text.into()).unwrap();
        let texts = [text("hex", "1a2b3c4d"), text("alphanumeric", "aaaaaaaaaa")];
        let page = |hex, letters| {
            format!("<form id=\"a-{letters}\" name=\"f-{hex}\"><b id=\"{hex}\"><label for=\"a-{letters}\">")
        };
        let cut = |body: &str| {
            let places = places(body.as_bytes(), &texts).unwrap();
            Template::cut(body.as_bytes(), &Visitor { texts: &places, ..Visitor::default() })
        };
        let template = cut(&page("1a2b3c4d", "aaaaaaaaaa"));
        assert_eq!((template.texts(), template.tokens(), template.nonces()), (4, 0, 0));
        assert!(!String::from_utf8_lossy(template.text()).contains("1a2b3c4d"));
        let mut pads = [[1; 32], [0xab; 32]].into_iter();
        let filled = template.fill(None, None, || pads.next().unwrap()).unwrap();
        assert_eq!(String::from_utf8(filled).unwrap(), page("abababab", "BBBBBBBBBB"));
        let texts = [text("hex", "99999999"), text("alphanumeric", "bbbbbbbbbb")];
        let again = page("99999999", "bbbbbbbbbb");
        let places = places(again.as_bytes(), &texts).unwrap();
        assert_eq!(template, Template::cut(again.as_bytes(), &Visitor { texts: &places, ..Visitor::default() }));
        // Not each time the text that it was.
        let crossed = again.replacen("99999999", "bbbbbbbbbb", 1);
        assert_ne!(template, cut(&crossed.replace("99999999", "1a2b3c4d").replace("bbbbbbbbbb", "aaaaaaaaaa")));
    }

    #[test]
    fn nonces_in_body_and_header() {
        let nonce = "cGFjZWxpbmUtbm9uY2U=";
        let visitor = Visitor { nonce: Some(nonce), ..Visitor::default() };
        let header = Template::cut(format!("script-src 'nonce-{nonce}'").as_bytes(), &visitor);
        let body = Template::cut(
            format!("<script nonce=\"{nonce}\"></script><script nonce=\"{nonce}\">").as_bytes(),
            &visitor,
        );
        assert_eq!((header.nonces(), body.nonces()), (1, 2));
        let filled = header.fill(None, Some("fresh"), || [0; 32]).unwrap();
        assert_eq!(filled, b"script-src 'nonce-fresh'");
        assert_eq!(body.fill(None, None, || [0; 32]), None);
        assert_eq!(Template::cut(b"aaa", &Visitor { nonce: Some("a"), ..Visitor::default() }).nonces(), 0);
    }
}
