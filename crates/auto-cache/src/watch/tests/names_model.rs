//! A model of an application whose pages have random texts, beside the real `Watch`: pages of random shapes, visitors, answers that are under way while somebody writes.
//! Some shapes name elements and no more; in others a text is sent back, read, or part of something that is made of it. Whatever is shown has to be what the application would
//! answer at that moment, with texts that nobody was given before; a page whose texts may come back is never shown. It is the same for the same seed.

use std::collections::HashSet;

use super::*;
use crate::random_text::{Broken, RandomText, BROKEN};

/// A rule that is broken, so that the model has something to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    OfTheFront(Broken),
    /// Now and then a worker does not tell that it has made a text.
    TextsAreNotRecorded,
    /// Each visitor gets the same.
    TextsAreNotNew,
}

const RULES: [Rule; 4] = [
    Rule::OfTheFront(Broken::AnyPlaceIsAName),
    Rule::OfTheFront(Broken::PageIsNotConfirmed),
    Rule::TextsAreNotRecorded,
    Rule::TextsAreNotNew,
];

/// Steps of one world, and worlds in which nothing may be found, or a broken rule has to be.
const STEPS: usize = 1500;
const WORLDS: u64 = 40;
const BEERS: usize = 3;
const VISITORS: u64 = 4;
/// What the front fills in has another form than what it is, in the model's marks.
const MARK: char = '\u{1}';
/// A text of a page, by its number among them.
const TEXTS: usize = 2;

/// SplitMix64, so that the seeds stay the same.
struct Chance(u64);

impl Chance {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.number() % bound as u64).unwrap()
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// As SecureRandom makes it.
    fn text(&mut self, form: &str) -> String {
        let hex = format!("{:016x}{:016x}", self.number(), self.number());
        match form {
            "hex" => hex[..8].to_owned(),
            "alphanumeric" => hex[..12].replace('0', "Z"),
            "base64url" => format!("{}-_", &hex[..14]),
            _ => format!("{}-{}-4{}-a{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..32]),
        }
    }
}

const FORMS: [&str; 4] = ["hex", "uuid", "alphanumeric", "base64url"];
/// `@` is the text. No browser sends these back.
const NAMES: [&str; 9] = [
    "<form name=\"form-@\">",
    "<b id=@>",
    "<label for='@-x'>",
    "<a href=\"#@\">",
    "<a name=\"@\">",
    "<i aria-labelledby=\"title @\">",
    "<map name='@'>",
    "<button data-target=\"#@\">",
    "<noscript><p id=\"@\"></p></noscript>",
];
/// These may come back.
const SENT: [&str; 9] = [
    "<input type=hidden value=\"@\">",
    "<input name=\"@\">",
    "<a href=\"/x?key=@\">",
    "<script>send('@')</script>",
    "<!-- @ -->",
    "<div data-key=\"@\">",
    "once more: @",
    "<x-key id=\"a\" key=\"@\">",
    "<meta content=\"@\">",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Beer(usize),
    Name(&'static str, usize),
    Sent(&'static str, usize),
    /// Made of a text, so that it is another one each time.
    Derived(usize),
    /// The application has made it once, and keeps it.
    Kept,
}

/// One page of the application.
#[derive(Debug, Clone)]
struct Shape {
    pieces: Vec<Piece>,
    forms: [&'static str; TEXTS],
    /// The first text is in a Link of the head.
    is_linked: bool,
}

impl Shape {
    /// `is_plain`: its texts name elements, and no more.
    fn by_chance(chance: &mut Chance, is_plain: bool) -> Shape {
        let mut pieces = vec![Piece::Beer(chance.below(BEERS)), Piece::Name(chance.pick(&NAMES), 0)];
        for _ in 0..chance.below(4) {
            let piece = match chance.below(4) {
                0 => Piece::Beer(chance.below(BEERS)),
                1 => Piece::Kept,
                _ => Piece::Name(chance.pick(&NAMES), chance.below(TEXTS)),
            };
            pieces.insert(chance.below(pieces.len() + 1), piece);
        }
        let mut shape = Shape { pieces, forms: [(); TEXTS].map(|()| chance.pick(&FORMS)), is_linked: false };
        if !is_plain {
            match chance.below(5) {
                0 | 1 => shape.pieces.push(Piece::Sent(chance.pick(&SENT), 0)),
                2 | 3 => shape.pieces.push(Piece::Derived(0)),
                _ => shape.is_linked = true,
            }
        }
        shape
    }

    fn has(&self, text: usize) -> bool {
        let is_it = |piece: &Piece| matches!(piece, Piece::Name(_, own) | Piece::Sent(_, own) if *own == text);
        self.pieces.iter().any(is_it)
    }

    /// What may come back, or is another one each time, and no text can stand in its place.
    fn may_be_shown(&self) -> bool {
        !self.is_linked && !self.pieces.iter().any(|piece| matches!(piece, Piece::Sent(..) | Piece::Derived(_)))
    }
}

/// An answer on its way.
struct UnderWay {
    page: usize,
    visitor: u64,
    began: u64,
    record: Vec<u8>,
    head: String,
    body: String,
}

struct World {
    chance: Chance,
    site: Site,
    shapes: Vec<Shape>,
    kept: String,
    beers: [u64; BEERS],
    under_way: Vec<UnderWay>,
    /// The write that was announced, and whether it has happened.
    writing: Option<(usize, bool)>,
    /// Texts that anybody was given.
    given: HashSet<String>,
    shown: u64,
    broken: Option<Rule>,
}

/// What was wrong.
type Failure = String;

impl World {
    fn new(seed: u64, broken: Option<Rule>) -> World {
        let mut chance = Chance(seed);
        let policy = Policy { mode: Mode::Serve, ..Policy::default() };
        let mut site = Site { watch: Watch::new(policy), ..Site::default() };
        site.learn_schema(SCHEMA);
        site.watch.begin_release("r1", 0);
        site.watch.remember("r1", ["GET /beers/*"].into_iter());
        let shapes = (0..6).map(|nth| Shape::by_chance(&mut chance, nth < 4)).collect();
        World {
            kept: chance.text("hex"),
            chance,
            site,
            shapes,
            beers: [0; BEERS],
            under_way: Vec::new(),
            writing: None,
            given: HashSet::new(),
            shown: 0,
            broken,
        }
    }

    /// The page as it is now, with this in place of its texts.
    fn render(&self, page: usize, texts: &[String; TEXTS]) -> String {
        let pieces = self.shapes[page].pieces.iter().map(|piece| match piece {
            Piece::Beer(nth) => format!("<p>{} </p>", self.beers[*nth]),
            Piece::Name(place, text) | Piece::Sent(place, text) => place.replace('@', &texts[*text]),
            Piece::Derived(text) => format!("<input value=\"{}\">", texts[*text][..6].to_uppercase()),
            Piece::Kept => format!("<input value=\"{}\">", self.kept),
        });
        pieces.collect()
    }

    /// The application is asked.
    fn begin(&mut self, page: usize, visitor: u64) {
        let shape = &self.shapes[page];
        let texts = shape.forms.map(|form| self.chance.text(form));
        let mut record = fields(&["V", "", "request", "release", "r1"]);
        for piece in &shape.pieces {
            if let Piece::Beer(nth) = piece {
                record.extend(beer(&format!("i{nth}")));
            }
        }
        let forgets = self.broken == Some(Rule::TextsAreNotRecorded) && self.chance.one_in(40);
        if !forgets {
            for (nth, text) in texts.iter().enumerate().filter(|(nth, _)| shape.has(*nth)) {
                record.extend(fields(&["R", "app/x.rb:1", shape.forms[nth], text]));
            }
        }
        let link = if shape.is_linked { format!("link: </{}>\n", texts[0]) } else { String::new() };
        let head = format!("content-type: text/html\n{link}");
        let body = self.render(page, &texts);
        self.given.extend(texts);
        self.under_way.push(UnderWay { page, visitor, began: self.site.moment, record, head, body });
    }

    fn url(page: usize) -> &'static str {
        const URLS: [&str; 6] = ["/beers/1", "/beers/2", "/beers/3", "/beers/4", "/beers/5", "/beers/6"];
        URLS[page]
    }

    /// An answer is whole. It is told in the order in which they come.
    fn end(&mut self) -> Result<(), Failure> {
        let UnderWay { page, visitor, began, record, head, body } =
            self.under_way.remove(self.chance.below(self.under_way.len()));
        let answer = Answer {
            url: World::url(page),
            route: "GET /beers/*",
            began,
            ended: self.site.next(),
            now: TIME,
            record: Some(&record),
            refused: None,
            cookies: &[],
            head: head.as_bytes(),
            etag: None,
            vary: &[],
            visitor,
            nonce: None,
            body: body.as_bytes(),
        };
        let alarm = self.site.watch.answered(&answer, &Visitor(&self.site.cookies, &self.site.files));
        match alarm {
            // Where something is made of a text, answers differ.
            Some(_) if self.broken.is_some() || !self.shapes[page].may_be_shown() => {
                self.site.watch.turn_on("GET /beers/*");
                self.site.watch.remember("r1", ["GET /beers/*"].into_iter());
                Ok(())
            }
            Some(alarm) => Err(format!("differs: {:?}", alarm.difference)),
            None => Ok(()),
        }
    }

    /// A page is shown, or the application is asked.
    fn ask(&mut self) -> Result<(), Failure> {
        // The route is proved by pages of the first shapes, mostly.
        let page = if self.chance.one_in(12) { 4 + self.chance.below(2) } else { self.chance.below(4) };
        let visitor = self.chance.number() % VISITORS;
        let asked = PageRequest { url: World::url(page), now: TIME };
        let hit = self.site.watch.serve(&asked, &Visitor(&self.site.cookies, &self.site.files));
        let Some(hit) = hit else {
            if self.under_way.len() < 4 {
                self.begin(page, visitor);
            }
            return Ok(());
        };
        let pad = || {
            let mut bytes = [7; 32];
            if self.broken == Some(Rule::TextsAreNotNew) {
                return bytes;
            }
            bytes.chunks_mut(8).for_each(|part| part.copy_from_slice(&self.chance.number().to_be_bytes()));
            bytes
        };
        let body = String::from_utf8(hit.page.template.fill(None, None, pad).unwrap()).unwrap();
        self.shown += 1;
        self.check(page, &body).map_err(|why| format!("{why}\nshown: {body}\nshape: {:?}", self.shapes[page]))
    }

    fn check(&mut self, page: usize, body: &str) -> Result<(), Failure> {
        let shape = &self.shapes[page];
        if !shape.may_be_shown() {
            return Err("a page is shown whose texts may come back".into());
        }
        let marks: [String; TEXTS] = std::array::from_fn(|nth| format!("{MARK}{nth}"));
        let expected = self.render(page, &marks);
        let mut found: [Option<&str>; TEXTS] = [None; TEXTS];
        let mut rest = body;
        for (nth, part) in expected.split(MARK).enumerate() {
            let literal = if nth == 0 {
                part
            } else {
                let number = usize::from(part.as_bytes()[0] - b'0');
                let length = self.chance.text(shape.forms[number]).len();
                let text = rest.get(..length).ok_or("it is too short")?;
                if RandomText::new(shape.forms[number], text.to_owned()).is_none() {
                    return Err(format!("{text} is not {}", shape.forms[number]));
                }
                if *found[number].get_or_insert(text) != text {
                    return Err(format!("{text} is elsewhere another one"));
                }
                rest = &rest[length..];
                &part[1..]
            };
            rest = rest.strip_prefix(literal).ok_or_else(|| format!("it is not {literal}"))?;
        }
        let texts: Vec<&str> = found.into_iter().flatten().collect();
        if let Some(text) = texts.iter().find(|text| !self.given.insert((**text).to_owned())) {
            return Err(format!("{text} was given to somebody before"));
        }
        rest.is_empty().then_some(()).ok_or_else(|| format!("it has more: {rest}"))
    }

    /// A step of a write: it is announced, happens, and is done.
    fn write(&mut self) {
        match self.writing {
            None => {
                let nth = self.chance.below(BEERS);
                self.site.watch.intend(1, "a", &update(&format!("i{nth}")), TIME).unwrap();
                self.writing = Some((nth, false));
            }
            Some((nth, false)) => {
                self.beers[nth] += 1;
                self.writing = Some((nth, true));
            }
            Some((_, true)) => {
                self.site.done(1, "a");
                self.writing = None;
            }
        }
    }

    fn run(&mut self) -> Result<(), Failure> {
        for _ in 0..STEPS {
            match self.chance.below(40) {
                0 => self.write(),
                1..=16 if !self.under_way.is_empty() => self.end()?,
                _ => self.ask()?,
            }
        }
        Ok(())
    }
}

/// What is found in this world, and how many pages were shown.
fn run(seed: u64, broken: Option<Rule>) -> (u64, Option<Failure>) {
    if let Some(Rule::OfTheFront(rule)) = broken {
        BROKEN.set(Some(rule));
    }
    let mut world = World::new(seed, broken);
    let outcome = world.run();
    BROKEN.set(None);
    (world.shown, outcome.err())
}

#[test]
fn texts_are_nobody_elses_and_name_elements_alone() {
    let mut shown = 0;
    for seed in 1..=WORLDS {
        let (own, failure) = run(seed, None);
        assert_eq!(failure, None, "in world {seed}");
        shown += own;
    }
    // Otherwise it would prove nothing.
    assert!(shown > 100 * WORLDS, "{shown}");
}

#[test]
fn a_broken_rule_is_found() {
    for broken in RULES {
        let found = (1..=WORLDS).find_map(|seed| run(seed, Some(broken)).1.map(|what| (seed, what)));
        let (seed, what) = found.unwrap_or_else(|| panic!("{broken:?} is not found"));
        println!("{broken:?} is found in world {seed}: {what}");
    }
}
