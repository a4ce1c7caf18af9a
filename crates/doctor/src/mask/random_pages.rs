//! Random pages with noise in them: what is noise must pass, and every real change must not.

use super::{Answer, Mask};
use fastrand::Rng;

/// The parts of a page that stay, and slots for what changes.
#[derive(Debug, Clone)]
enum Part {
    Fixed(String),
    Slot(Slot),
}

#[derive(Debug, Clone, Copy)]
enum Slot {
    Csrf,
    Nonce,
    Hex,
    Counter,
    Time,
    Duration,
    Digit,
}

const SLOTS: [Slot; 7] = [Slot::Csrf, Slot::Nonce, Slot::Hex, Slot::Counter, Slot::Time, Slot::Duration, Slot::Digit];
const WORDS: [&str; 16] = [
    "Alt", "Kölsch", "Weizen", "Pils", "of", "the", "brewery", "price", "stock", "dark", "beer", "hops", "malt",
    "barrel", "in", "and",
];

fn base64(random: &mut Rng, length: usize) -> String {
    const SIGNS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let text: String = (0..length).map(|_| SIGNS[random.usize(..SIGNS.len())] as char).collect();
    text + "=="
}

impl Slot {
    fn value(self, random: &mut Rng) -> String {
        match self {
            Slot::Csrf => base64(random, 86),
            Slot::Nonce => base64(random, 22),
            Slot::Hex => format!("{:08x}", random.u64(..) as u32),
            Slot::Counter => (1 + random.usize(..5000)).to_string(),
            Slot::Time => format!("2026-11-24 12:{:02}:{:02}", random.usize(..60), random.usize(..60)),
            Slot::Duration => format!("{:.1} ms", random.f64() * 120.0),
            Slot::Digit => random.usize(..10).to_string(),
        }
    }

    /// Ids, attributes and text, one line with several of them.
    fn markup(self, name: usize) -> [String; 2] {
        let [before, after] = match self {
            Slot::Csrf => ["<input type=\"hidden\" name=\"authenticity_token\" value=\"", "\" />"],
            Slot::Nonce => ["<script nonce=\"", "\">start()</script>"],
            Slot::Hex => ["<div id=\"x-", "\"></div>"],
            Slot::Counter => ["<a href=\"/visits/", "\">visit</a>"],
            Slot::Time => ["<time>", "</time>"],
            Slot::Duration => ["<small>made in ", "</small>"],
            Slot::Digit => ["<i>", "</i>"],
        };
        [format!("<b class=\"s{name}\">{before}"), format!("{after}</b>")]
    }
}

/// A page of a route: the frame is that of all of them, the rows are its own.
fn page(random: &mut Rng, frame: &[Slot]) -> Vec<Part> {
    let mut parts = vec![Part::Fixed("<!DOCTYPE html>\n<html><head>".into())];
    for (nth, slot) in frame.iter().enumerate() {
        let [before, after] = slot.markup(nth);
        parts.extend([Part::Fixed(before), Part::Slot(*slot), Part::Fixed(after)]);
        if random.usize(..3) == 0 {
            parts.push(Part::Fixed("\n".into()));
        }
    }
    parts.push(Part::Fixed("</head><body>\n<table>".into()));
    let row_slot = SLOTS[random.usize(..SLOTS.len())];
    for row in 0..5 + random.usize(..40) {
        let words: Vec<&str> = (0..1 + random.usize(..6)).map(|_| WORDS[random.usize(..WORDS.len())]).collect();
        let text = words.join(" ");
        parts.push(Part::Fixed(format!(
            "<tr id=\"r{row}\"><td>{text}</td><td class=\"n\">{}</td>",
            random.usize(..900)
        )));
        if random.usize(..2) == 0 {
            parts.extend([Part::Fixed("<td><em>".into()), Part::Slot(row_slot), Part::Fixed("</em></td>".into())]);
        }
        parts.push(Part::Fixed("</tr>\n".into()));
    }
    parts.push(Part::Fixed("</table></body></html>\n".into()));
    parts
}

fn rendered(random: &mut Rng, parts: &[Part]) -> String {
    let text = |part: &Part| match part {
        Part::Fixed(text) => text.clone(),
        Part::Slot(slot) => slot.value(random),
    };
    parts.iter().map(text).collect()
}

fn answer(body: &str) -> Answer<'_> {
    Answer { status: 200, headers: &[], body: body.as_bytes() }
}

fn learned(random: &mut Rng, pages: &[Vec<Part>]) -> Mask {
    let pairs: Vec<(String, String)> =
        pages.iter().map(|page| (rendered(random, page), rendered(random, page))).collect();
    let answers: Vec<(Answer, Answer)> = pairs.iter().map(|(one, other)| (answer(one), answer(other))).collect();
    Mask::learn(&answers)
}

/// Something that a wrong change of the application would do to a page. None: there is nothing to do it to.
fn broken(random: &mut Rng, page: &[Part]) -> Option<(Vec<Part>, &'static str)> {
    let fixed: Vec<usize> =
        (0..page.len()).filter(|at| matches!(&page[*at], Part::Fixed(text) if text.starts_with("<tr id"))).collect();
    let at = *random.choice(&fixed)?;
    let mut page = page.to_vec();
    let Part::Fixed(text) = &page[at] else { return None };
    let text = text.clone();
    let what = match random.usize(..7) {
        0 => {
            // Up to the next row.
            let end = (at + 1..page.len()).find(|next| fixed.contains(next)).unwrap_or(page.len() - 1);
            page.drain(at..end);
            "a row is missing"
        }
        1 => {
            let end = (at + 1..page.len()).find(|next| fixed.contains(next)).unwrap_or(page.len() - 1);
            let row = page[at..end].to_vec();
            page.splice(at..at, row);
            "a row is there twice"
        }
        2 => {
            page[at] = Part::Fixed(text.replacen("class=\"n\">", "class=\"n\">1", 1));
            "another number"
        }
        3 => {
            page[at] = Part::Fixed(text.replacen("</td>", " sour</td>", 1));
            "a word more"
        }
        4 => {
            page[at] = Part::Fixed(text.replacen(" class=\"n\"", "", 1));
            "an attribute is missing"
        }
        5 => {
            page[at] = Part::Fixed(text.replacen("<td>", "<td>&lt;", 1));
            "a sign more"
        }
        _ => {
            page.truncate(at);
            "the end is missing"
        }
    };
    Some((page, what))
}

#[test]
fn noise_passes_and_real_changes_do_not() {
    let (mut passed, mut refused, mut noise) = (0, 0, 0);
    for seed in 0..60 {
        let mut random = Rng::with_seed(seed);
        let frame: Vec<Slot> = (0..1 + random.usize(..6)).map(|_| SLOTS[random.usize(..SLOTS.len())]).collect();
        let pages: Vec<Vec<Part>> = (0..6).map(|_| page(&mut random, &frame)).collect();
        let mask = learned(&mut random, &pages);
        assert!(!mask.is_too_noisy(), "seed {seed}: {}", mask.noise());
        for page in &pages {
            let (control, trial) = (rendered(&mut random, page), rendered(&mut random, page));
            noise += 1;
            match mask.equal(answer(&control), answer(&trial)) {
                Ok(()) => passed += 1,
                // A digit that was the same in both controls by chance, at a place that nothing else resembles.
                Err(difference) => assert!(
                    difference.body.iter().all(|change| change.control.len() == 1 || change.control.len() < 5),
                    "seed {seed}: {difference:?}"
                ),
            }
            if let Some((wrong, what)) = broken(&mut random, page) {
                let trial = rendered(&mut random, &wrong);
                assert!(mask.equal(answer(&control), answer(&trial)).is_err(), "seed {seed}: {what} passed");
                refused += 1;
            }
        }
    }
    assert!(passed * 100 >= noise * 97, "{passed} of {noise}");
    assert!(refused > 300, "{refused}");
}

#[test]
fn without_noise_every_byte_counts() {
    for seed in 0..50 {
        let mut random = Rng::with_seed(seed);
        let page = page(&mut random, &[]);
        let only: Vec<Part> = page.into_iter().filter(|part| matches!(part, Part::Fixed(_))).collect();
        let text = rendered(&mut random, &only);
        let mask = Mask::learn(&[(answer(&text), answer(&text))]);
        assert!(!mask.has_noise() && mask.equal(answer(&text), answer(&text)).is_ok());
        let at = random.usize(..text.len());
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1;
        let changed = Answer { status: 200, headers: &[], body: &bytes };
        assert!(mask.equal(answer(&text), changed).is_err(), "byte {at}");
    }
}

/// With a token in each line; and with nothing in it that is unique.
#[test]
fn large_pages_are_compared() {
    let mut random = Rng::with_seed(9);
    let mut lines = |is_unique: bool| {
        let line = |nth: usize| {
            let name = if is_unique { nth } else { 0 };
            format!("<li id=\"l{name}\"><input value=\"{}\"> Alt</li>\n", base64(&mut random, 30))
        };
        (0..12_000).map(line).collect::<String>()
    };
    for is_unique in [true, false] {
        let (one, other, trial) = (lines(is_unique), lines(is_unique), lines(is_unique));
        let mask = Mask::learn(&[(answer(&one), answer(&other))]);
        let wrong = trial.replacen(" Alt", "", 1);
        assert!(mask.equal(answer(&one), answer(&wrong)).is_err());
        assert!(mask.is_too_noisy() || mask.equal(answer(&one), answer(&trial)).is_ok(), "unique: {is_unique}");
    }
}
