//! Whether two answers are equal where they can be: what differs between two answers of the same application is noise
//! (Diffy's rule), and only that is passed over. Never passes over the status, or a value of another form than the
//! noise had.

mod align;
mod difference;
mod headers;
mod holes;
mod tokens;

#[cfg(test)]
mod random_pages;

pub use difference::{Change, Difference, HeaderChange};

use std::collections::HashSet;

use align::Span;
use holes::Holes;
use tokens::Tokens;

/// Larger bodies are equal only if they are byte for byte.
pub const MAX_BODY: usize = 16 << 20;
/// A route is too noisy to compare if so much of its bytes is in places that change as a whole, rather than by a value.
const MAX_NOISE: f64 = 0.34;
/// Places that a difference lists.
const MAX_CHANGES: usize = 8;

/// A response.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    pub status: u16,
    pub headers: &'a [(String, String)],
    pub body: &'a [u8],
}

/// What is noise in the answers of one route. A mask that has learned nothing wants every byte equal, except for
/// headers that always differ (`Date` and so on).
#[derive(Debug, Clone, Default)]
pub struct Mask {
    holes: Holes,
    /// Lower-case names of headers that came in one of two controls.
    optional: HashSet<String>,
    /// Of the bytes: in places that change as a whole.
    noise: f64,
}

impl Mask {
    /// From pairs of answers to the same request, with another clock and another seed. Holds the pieces of one pair at
    /// a time: 8 bytes for each.
    pub fn learn(pairs: &[(Answer, Answer)]) -> Mask {
        let mut mask = Mask::default();
        let (mut noisy, mut all) = (0usize, 0usize);
        for (one, other) in pairs {
            for (name, values) in headers::paired(one.headers, other.headers) {
                match values {
                    (Some(one), Some(other)) if one != other => {
                        let (one, other) = (headers::text(&name, &one), headers::text(&name, &other));
                        mask.learn_text(one.as_bytes(), other.as_bytes());
                    }
                    (Some(_), Some(_)) => {}
                    _ => drop(mask.optional.insert(name)),
                }
            }
            if one.body != other.body && one.body.len().max(other.body.len()) <= MAX_BODY {
                noisy += mask.learn_text(one.body, other.body);
            }
            all += one.body.len();
        }
        if mask.has_noise() {
            let bodies = pairs.iter().map(|(one, _)| one.body).filter(|body| body.len() <= MAX_BODY);
            bodies.for_each(|body| mask.holes.count(&Tokens::new(body)));
        }
        mask.noise = noisy as f64 / all.max(1) as f64;
        mask
    }

    /// Returns the bytes in places that change as a whole.
    fn learn_text(&mut self, one: &[u8], other: &[u8]) -> usize {
        let (one, other) = (Tokens::new(one), Tokens::new(other));
        let spans = align::spans(&one, &other);
        self.holes.learn(&one, &other, &spans);
        let large = spans.iter().filter(|span| span.a.len().max(span.b.len()) > 3);
        large.map(|span| one.bytes(span.a.start, span.a.end).len()).sum()
    }

    /// 0 to 1: the part of the bytes that changes as a whole from one answer to the next.
    pub fn noise(&self) -> f64 {
        self.noise
    }

    /// Nothing can be said of the answers' bytes: too much of them changes each time.
    pub fn is_too_noisy(&self) -> bool {
        self.noise > MAX_NOISE || self.holes.is_full
    }

    /// Two controls differed somewhere.
    pub fn has_noise(&self) -> bool {
        !self.holes.is_empty()
    }

    /// Whether a trial answered as control did. Of a route that is too noisy only equal bytes are equal.
    pub fn equal(&self, control: Answer, trial: Answer) -> Result<(), Difference> {
        let body = self.body_changes(control.body, trial.body);
        let is_same_body = control.body == trial.body;
        let headers = headers::changes(self, control.headers, trial.headers, is_same_body);
        let status = (control.status != trial.status).then_some((control.status, trial.status));
        let difference = Difference { status, headers, body };
        if difference.is_none() {
            Ok(())
        } else {
            Err(difference)
        }
    }

    fn body_changes(&self, control: &[u8], trial: &[u8]) -> Vec<Change> {
        if control == trial {
            return Vec::new();
        }
        if control.len().max(trial.len()) > MAX_BODY {
            return vec![Change::of_lengths(control.len(), trial.len())];
        }
        let (a, b) = (Tokens::new(control), Tokens::new(trial));
        let spans = align::spans(&a, &b);
        // Nothing explains a difference where everything changes.
        let changes = if self.is_too_noisy() { spans } else { self.holes.unexplained(&a, &b, &spans, MAX_CHANGES) };
        changes.iter().take(MAX_CHANGES).map(|span| Change::new(&a, &b, span)).collect()
    }

    /// A header's value under the mask.
    fn is_same_text(&self, control: &str, trial: &str) -> bool {
        let (a, b) = (Tokens::new(control.as_bytes()), Tokens::new(trial.as_bytes()));
        let spans: Vec<Span> = align::spans(&a, &b);
        self.holes.unexplained(&a, &b, &spans, 1).is_empty()
    }

    fn is_optional(&self, name: &str) -> bool {
        self.optional.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Headers = Vec<(String, String)>;

    fn headers(fields: &[(&str, &str)]) -> Headers {
        fields.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string())).collect()
    }

    fn with<'a>(headers: &'a Headers, body: &'a str) -> Answer<'a> {
        Answer { status: 200, headers, body: body.as_bytes() }
    }

    fn bodies(pairs: &[(&str, &str)]) -> Mask {
        let none = Headers::new();
        Mask::learn(&pairs.iter().map(|(one, other)| (with(&none, one), with(&none, other))).collect::<Vec<_>>())
    }

    fn is_equal(mask: &Mask, control: &str, trial: &str) -> bool {
        let none = Headers::new();
        mask.equal(with(&none, control), with(&none, trial)).is_ok()
    }

    /// What controls gave, then control and trial, and whether they are equal.
    #[test]
    fn only_what_differed_between_controls_may_differ() {
        for (controls, control, trial, expected) in [
            (("<p>a</p>", "<p>a</p>"), "<p>a</p>", "<p>b</p>", false),
            (("<p>id 17</p>", "<p>id 18</p>"), "<p>id 17</p>", "<p>id 201199999</p>", false),
            (("<p>id 17</p>", "<p>id 18</p>"), "<p>id 17</p>", "<p>id 201</p>", true),
            (("<p>id 17</p>", "<p>id 18</p>"), "<p>id 17</p>", "<p>id none</p>", false),
            (("<p>id 17</p>", "<p>id 18</p>"), "<p>id 17</p>", "<p>id </p>", false),
            (("<p>id 17</p>", "<p>id 18</p>"), "<p>id 17</p>", "<p>id <b>17</b></p>", false),
            (("<p>id 17</p>", "<p>id 18</p>"), "<p>id 17</p><p>x</p>", "<p>id 18</p>", false),
            (("{\"t\":1.5,\"n\":3}", "{\"t\":12.25,\"n\":3}"), "{\"t\":9,\"n\":3}", "{\"t\":8.75,\"n\":3}", true),
            (("{\"t\":1.5,\"n\":3}", "{\"t\":12.25,\"n\":3}"), "{\"t\":9,\"n\":3}", "{\"t\":9,\"n\":4}", false),
            (("1 minute ago", "2 minutes ago"), "1 minute ago", "3 minutes ago", true),
            (("x<i></i>y", "x<i>new</i>y"), "x<i>new</i>y", "x<i></i>y", true),
            (("", "a"), "", "", true),
        ] {
            let mask = bodies(&[controls]);
            assert_eq!(is_equal(&mask, control, trial), expected, "{controls:?}: {control} and {trial}");
        }
    }

    /// The order of rows is random, what is outside of them is not.
    #[test]
    fn a_list_in_random_order_is_noise_and_the_rest_is_not() {
        let page = |rows: &[&str], price: u32| {
            let list: String = rows.iter().map(|row| format!("<li><a href=\"/beers\">{row}</a></li>\n")).collect();
            let frame = "<p>We brew with water, hops and malt since the year of the great fire.</p>\n".repeat(3);
            format!("<h1>Beers of the day</h1>\n{frame}<ul class=\"day\">\n{list}</ul>\n<p>From {price} cents.</p>\n{frame}")
        };
        let mask = bodies(&[(&page(&["Alt", "Pils", "Bock"], 90), &page(&["Bock", "Alt", "Pils"], 90))]);
        assert!(!mask.is_too_noisy(), "{}", mask.noise());
        let control = page(&["Pils", "Bock", "Alt"], 90);
        assert!(is_equal(&mask, &control, &page(&["Alt", "Bock", "Pils"], 90)));
        assert!(!is_equal(&mask, &control, &page(&["Alt", "Bock", "Pils"], 80)));
        assert!(!is_equal(&mask, &control, &page(&["Pils", "Bock", "Alt"], 90).replacen("hops", "", 1)));
    }

    #[test]
    fn what_changes_altogether_is_not_compared() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut text =
            || (0..400).map(|_| format!("{}<{}> ", random.usize(..99), random.usize(..99))).collect::<String>();
        let (one, other) = (text(), text());
        let mask = bodies(&[(&one, &other)]);
        assert!(mask.is_too_noisy() && mask.noise() > 0.5, "{}", mask.noise());
        assert!(!is_equal(&mask, &one, &other) && is_equal(&mask, &one, &one));
    }

    #[test]
    fn headers_differ_only_where_they_may() {
        let control = headers(&[
            ("Date", "Tue, 24 Nov 2026 10:00:00 GMT"),
            ("Content-Type", "text/html"),
            ("ETag", "W/\"1\""),
            ("X-Runtime", "0.1"),
            ("Set-Cookie", "_shop=abc; path=/; HttpOnly\nseen=1; Expires=Tue, 24 Nov 2026 10:00:00 GMT"),
            ("Content-Security-Policy", "script-src 'nonce-aB3dE5gH7jK9mN1pQ3==' 'self'"),
        ]);
        let changed = |name: &str, value: &str| {
            let mut all = control.clone();
            all.retain(|(field, _)| field != name);
            if !value.is_empty() {
                all.push((name.into(), value.into()));
            }
            all
        };
        let csp = |nonce: &str, rest: &str| format!("script-src 'nonce-{nonce}' {rest}");
        let other = changed("Content-Security-Policy", &csp("zZ9xY8wV7uT6sR5qP4==", "'self'"));
        let mask = Mask::learn(&[(with(&control, "x"), with(&other, "x"))]);
        for (name, value, body, expected) in [
            ("Date", "another", "x", true),
            ("X-Runtime", "", "x", true),
            ("Content-Type", "text/plain", "x", false),
            ("Content-Type", "", "x", false),
            ("Vary", "*", "x", false),
            ("ETag", "W/\"2\"", "x", false),
            ("Set-Cookie", "_shop=def; Path=/; HttpOnly\nseen=2; expires=Wed, 25 Nov 2026", "x", true),
            ("Set-Cookie", "_shop=def; path=/\nseen=1; expires=x", "x", false),
            ("Set-Cookie", "_other=def; path=/; HttpOnly\nseen=1; expires=x", "x", false),
            ("Set-Cookie", "", "x", false),
            ("Content-Security-Policy", &csp("qW2eR4tY6uI8oP0aS1==", "'self'"), "x", true),
            ("Content-Security-Policy", &csp("qW2eR4tY6uI8oP0aS1==", "*"), "x", false),
        ] {
            let trial = changed(name, value);
            assert_eq!(mask.equal(with(&control, "x"), with(&trial, body)).is_ok(), expected, "{name}: {value}");
        }
        let failed = Answer { status: 500, ..with(&control, "x") };
        let difference = mask.equal(with(&control, "x"), failed).unwrap_err();
        assert_eq!(difference.to_string(), "status 200 became 500");
    }

    #[test]
    fn an_etag_follows_the_body() {
        let (one, other) = (headers(&[("ETag", "W/\"1\"")]), headers(&[("ETag", "W/\"2\"")]));
        let mask = bodies(&[("<p>id 17</p>", "<p>id 18</p>")]);
        assert!(mask.equal(with(&one, "<p>id 17</p>"), with(&other, "<p>id 18</p>")).is_ok());
        assert!(mask.equal(with(&one, "<p>id 17</p>"), with(&other, "<p>id 17</p>")).is_err());
    }

    #[test]
    fn a_header_that_came_once_may_be_missing() {
        let (one, none) = (headers(&[("X-Cache", "hit")]), Headers::new());
        let mask = Mask::learn(&[(with(&one, ""), with(&none, ""))]);
        assert!(mask.equal(with(&none, ""), with(&one, "")).is_ok());
        assert!(Mask::default().equal(with(&none, ""), with(&one, "")).is_err());
    }
}
