//! What is counted and remembered of each route: how many of its requests could have been hits, what they read and vary by,
//! why they can't be kept. All of it has bounds. It decides nothing.

use std::{
    collections::{hash_map::DefaultHasher, BTreeMap, BTreeSet},
    hash::{Hash, Hasher},
    ops::Range,
    sync::atomic::AtomicU64,
};

use super::{
    cut::Cut,
    life::Life,
    made::{is_release, shown, Reading, Refusal},
};
use crate::{
    holes::Template,
    keys::{Held, Name},
};

const MAX_ROUTES: usize = 300;
/// Where the requests of more routes are counted.
const OTHERS: &str = "other routes";
const MAX_READINGS: usize = 32;
const MAX_REFUSALS: usize = 16;
const MAX_NAMES: usize = 32;
/// Different values of one name that are told apart.
const MAX_VALUES: usize = 1000;
/// Bytes that are shown of each side before and after the first that differs.
const BEFORE: usize = 40;
const AFTER: usize = 80;

/// One route.
#[derive(Debug, Default)]
pub struct Route {
    /// GETs that were answered 200.
    pub requests: u64,
    /// Of these a cache would have answered so many.
    pub hits: u64,
    /// Of these the application's answer was another page.
    pub differed: u64,
    /// Requests whose page can't be kept.
    pub refused: u64,
    /// Requests that were answered with a page, and did not reach the application.
    pub served: AtomicU64,
    pub life: Life,
    refusals: BTreeMap<Refusal, u64>,
    pub readings: Vec<Reading>,
    varies: BTreeMap<Name, BTreeSet<u64>>,
    /// CSRF tokens and nonces of a page, at most.
    pub tokens: usize,
    pub nonces: usize,
    /// Places of random texts.
    pub texts: usize,
    pub difference: Option<Difference>,
}

/// What a page varies by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Varies {
    pub name: String,
    /// Different values so far, up to a bound.
    pub values: usize,
}

/// Where a page that a cache would have shown differs from the application's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub url: String,
    pub at: u64,
    pub kept: String,
    pub application: String,
}

impl Difference {
    /// The application has answered with no page at all.
    pub fn of_status(url: &str, status: u16, now: u64) -> Difference {
        let said = |status: u16| format!("status {status}");
        Difference { url: without_values(url), at: now, kept: said(200), application: said(status) }
    }

    pub fn between(url: &str, kept: &Template, application: &Template, now: u64) -> Difference {
        let (kept, application) = (kept.text(), application.text());
        let first = kept.iter().zip(application).position(|(one, other)| one != other);
        let first = first.unwrap_or(kept.len().min(application.len()));
        let around = |text: &[u8]| {
            let part = &text[part(text, first.saturating_sub(BEFORE), first + AFTER)];
            without_secrets(&String::from_utf8_lossy(part).replace(char::is_control, " "))
        };
        Difference { url: without_values(url), at: now, kept: around(kept), application: around(application) }
    }
}

/// Shorter runs of letters and digits are words, numbers and the like.
const SECRET: usize = 20;

fn is_of_token(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "+/_-=".contains(letter)
}

fn is_secret(token: &[u8]) -> bool {
    token.len() >= SECRET && token.iter().any(u8::is_ascii_digit)
}

/// This part, with all of a secret that it would cut: without its rest, nobody could tell that it is one.
fn part(text: &[u8], from: usize, to: usize) -> Range<usize> {
    let (from, to) = (from.min(text.len()), to.min(text.len()));
    let is_end = |byte: &u8| !is_of_token(char::from(*byte));
    let around = |at: usize| {
        let begin = text[..at].iter().rposition(is_end).map_or(0, |end| end + 1);
        let end = text[at..].iter().position(is_end).map_or(text.len(), |length| at + length);
        if is_secret(&text[begin..end]) {
            begin..end
        } else {
            at..at
        }
    };
    around(from).start..around(to).end
}

/// A URL without the values of its query, without tokens in its path, and without the part of the page that was asked for.
fn without_values(url: &str) -> String {
    let url = url.split('\n').next().unwrap_or_default();
    let (path, query) = url.split_once('?').map_or((url, None), |(path, query)| (path, Some(query)));
    let path: Vec<String> = path.split('/').map(without_secrets).collect();
    let names = query.map(|query| {
        let pairs = query
            .split('&')
            .map(|pair| pair.split_once('=').map_or("…".into(), |(name, _)| format!("{}=…", without_secrets(name))));
        format!("?{}", pairs.collect::<Vec<_>>().join("&"))
    });
    path.join("/") + &names.unwrap_or_default()
}

/// Tokens and keys are not shown: they may let somebody in.
fn without_secrets(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let run = rest.find(|letter| !is_of_token(letter)).unwrap_or(rest.len());
        let (token, after) = rest.split_at(run);
        if is_secret(token.as_bytes()) {
            shown.push_str(&format!("[{run} characters]"))
        } else {
            shown.push_str(token)
        }
        rest = after;
        if run == 0 {
            shown.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    shown
}

impl Route {
    pub(super) fn refuse(&mut self, refusal: Refusal) {
        self.refused += 1;
        if self.refusals.len() < MAX_REFUSALS || self.refusals.contains_key(&refusal) {
            *self.refusals.entry(refusal).or_default() += 1;
        }
    }

    pub(super) fn saw(&mut self, cut: &Cut, held: impl Fn(&Name) -> Held) {
        let made = &cut.made;
        for reading in &made.readings {
            if self.readings.len() < MAX_READINGS && !self.readings.iter().any(|known| known.what == reading.what) {
                self.readings.push(reading.clone());
            }
        }
        for name in made.names.iter().filter(|name| !is_release(name)) {
            if self.varies.len() < MAX_NAMES || self.varies.contains_key(name) {
                let values = self.varies.entry(name.clone()).or_default();
                if values.len() < MAX_VALUES {
                    values.insert(digest(&held(name)));
                }
            }
        }
        self.tokens = self.tokens.max(cut.tokens());
        self.nonces = self.nonces.max(cut.nonces());
        self.texts = self.texts.max(cut.texts());
    }

    /// The most frequent first.
    pub fn refusals(&self) -> Vec<(&Refusal, u64)> {
        let mut all: Vec<_> = self.refusals.iter().map(|(refusal, count)| (refusal, *count)).collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        all
    }

    pub fn varies(&self) -> Vec<Varies> {
        self.varies.iter().map(|(name, values)| Varies { name: shown(name), values: values.len() }).collect()
    }
}

fn digest(held: &Held) -> u64 {
    let mut hasher = DefaultHasher::new();
    match held {
        Held::Absent => 0u8.hash(&mut hasher),
        Held::Present(value) => value.hash(&mut hasher),
        Held::Unknown => 1u8.hash(&mut hasher),
    }
    hasher.finish()
}

#[derive(Debug, Default)]
pub struct Routes(BTreeMap<String, Route>);

impl Routes {
    pub fn of(&mut self, label: &str) -> &mut Route {
        let label = if self.0.len() < MAX_ROUTES || self.0.contains_key(label) { label } else { OTHERS };
        self.0.entry(label.to_owned()).or_default()
    }

    /// The route of this label, counted by itself. None: there are too many.
    pub fn own(&mut self, label: &str) -> Option<&mut Route> {
        let fits = self.0.len() < MAX_ROUTES || self.0.contains_key(label);
        fits.then(|| self.0.entry(label.to_owned()).or_default())
    }

    /// One that is counted by itself.
    pub fn find(&self, label: &str) -> Option<&Route> {
        self.0.get(label)
    }

    /// Another load of the code answers: nothing is proved of it.
    pub fn restart(&mut self) {
        self.0.values_mut().for_each(|route| route.life.restart());
    }

    pub fn all(&self) -> impl Iterator<Item = (&str, &Route)> {
        self.0.iter().map(|(label, route)| (label.as_str(), route))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_shows_no_secrets() {
        let cut = |text: &str| Template::cut(text.as_bytes(), &crate::holes::Visitor::default());
        let difference = |kept: &str, own: &str| Difference::between("http://shop.test/", &cut(kept), &cut(own), 0);
        let found = difference("<a key=\"d41d8cd98f00b204e9800998ecf8427e\">7 für", "<a key=\"q\">8");
        assert_eq!(
            (found.kept.as_str(), found.application.as_str()),
            ("<a key=\"[32 characters]\">7 für", "<a key=\"q\">8")
        );
        assert_eq!(
            difference("seen 1 times in pneumonoultramicroscopic", "").kept,
            "seen 1 times in pneumonoultramicroscopic"
        );
        // Both ends of the part are within a secret.
        let secret = "d41d8cd98f00b204e9800998ecf8427e";
        let text = |end: &str| format!("<{secret}\"{}{end}{}\"{secret}>", "a ".repeat(11), " b".repeat(32));
        let (kept, own) = (text("1"), text("2"));
        let found = difference(&kept, &own);
        assert!(found.kept.starts_with("[32 characters]\"") && found.kept.ends_with("\"[32 characters]"), "{found:?}");
        let of = |url: &str| Difference::between(url, &cut("a"), &cut("b"), 0).url;
        assert_eq!(of("http://shop.test/beers/1?page=2&token=abc123&x"), "http://shop.test/beers/1?page=…&token=…&…");
        assert_eq!(of(&format!("http://shop.test/reset/{secret}/edit")), "http://shop.test/reset/[32 characters]/edit");
    }
}
