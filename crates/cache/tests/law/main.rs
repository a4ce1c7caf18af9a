//! The law of caching held against a slow, obvious reading of RFC 9111, sentence by sentence, over random responses,
//! requests and clocks. The model never reads a field: it knows what was meant when the fields were written, so that
//! the parsing is judged too. It never looks at how the crate does it.

mod model;

use std::sync::Arc;

use bytes::Bytes;
use cache::{
    directives::RequestDirectives,
    freshness::ExchangeTimes,
    reusing::{judge, may_stand_in, Use},
    stored::{Content, Stored},
    storing::storable,
    updating::freshened,
};
use http::{request, response, HeaderName, HeaderValue, Method, Request, Response, StatusCode};

/// Numbers that are the same in each run (xorshift64*).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len() as u64) as usize]
    }
}

/// A second of 2026.
const NOON: u64 = 1_767_268_800;

/// A directive as its sender means it. `Ok`: seconds; `Err`: something that is no number.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Said {
    Flag(&'static str),
    Seconds(&'static str, u64),
    Nonsense(&'static str),
    /// no-cache and private with names of fields.
    Fields(&'static str, &'static str),
}

impl Said {
    fn name(self) -> &'static str {
        match self {
            Said::Flag(name) | Said::Seconds(name, _) | Said::Nonsense(name) | Said::Fields(name, _) => name,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Expires {
    At(u64),
    Invalid,
}

/// A response as its sender means it. Times in seconds since the epoch.
#[derive(Debug, Clone, PartialEq)]
struct Told {
    status: u16,
    cache_control: Option<Vec<Said>>,
    expires: Option<Expires>,
    date: Option<u64>,
    last_modified: Option<u64>,
    age: Option<u64>,
    etag: bool,
    vary_star: bool,
    set_cookie: bool,
}

#[derive(Debug, Clone)]
struct Asked {
    method: Method,
    authorization: bool,
    cookie: bool,
    cache_control: Vec<Said>,
    pragma: bool,
}

fn told(dice: &mut Dice) -> Told {
    let cache_control = |dice: &mut Dice| {
        let mut said: Vec<Said> = Vec::new();
        for _ in 0..dice.roll(5) {
            said.push(match dice.roll(16) {
                0..=3 => Said::Seconds("max-age", dice.pick(&[0, 1, 5, 10, 60, 86_400])),
                4 | 5 => Said::Seconds("s-maxage", dice.pick(&[0, 2, 10, 90])),
                6 => Said::Nonsense(dice.pick(&["max-age", "s-maxage"])),
                7 => Said::Seconds("stale-while-revalidate", dice.pick(&[0, 3, 10, 3600])),
                8 => Said::Seconds("stale-if-error", dice.pick(&[0, 3, 10, 3600])),
                9 => Said::Fields(dice.pick(&["no-cache", "private"]), "x-own"),
                10 => Said::Flag(dice.pick(&["public", "immutable"])),
                11 => Said::Flag(dice.pick(&["no-store", "private", "no-cache"])),
                12 => Said::Flag(dice.pick(&["must-revalidate", "proxy-revalidate"])),
                13 => Said::Flag("must-understand"),
                14 => Said::Flag("x-unknown"),
                _ => Said::Flag("public"),
            });
        }
        said
    };
    Told {
        status: dice.pick(&[200, 200, 200, 200, 203, 204, 301, 302, 404, 410, 500, 599, 304, 206, 501]),
        cache_control: (!dice.one_in(4)).then(|| cache_control(dice)),
        expires: match dice.roll(6) {
            0 => Some(Expires::At(NOON + dice.roll(100) - 40)),
            1 if dice.one_in(3) => Some(Expires::Invalid),
            _ => None,
        },
        date: (!dice.one_in(4)).then(|| NOON + dice.roll(20) - 15),
        last_modified: dice.one_in(2).then(|| NOON - dice.pick(&[0, 30, 100, 1000, 10_000_000])),
        age: dice.one_in(3).then(|| dice.pick(&[0, 1, 7, 50, 5000])),
        etag: dice.one_in(2),
        vary_star: dice.one_in(20),
        set_cookie: dice.one_in(6),
    }
}

fn asked(dice: &mut Dice) -> Asked {
    let mut cache_control = Vec::new();
    for _ in 0..dice.roll(3) {
        cache_control.push(match dice.roll(12) {
            0..=2 => Said::Seconds("max-age", dice.pick(&[0, 1, 5, 10, 100])),
            3 | 4 => Said::Seconds("max-stale", dice.pick(&[0, 5, 100])),
            5 => Said::Flag("max-stale"),
            6 | 7 => Said::Seconds("min-fresh", dice.pick(&[1, 5, 50])),
            8 => Said::Flag("no-cache"),
            9 => Said::Flag(if dice.one_in(3) { "no-store" } else { "x-unknown" }),
            _ => Said::Seconds("stale-if-error", dice.pick(&[0, 5, 100])),
        });
    }
    Asked {
        method: if dice.one_in(30) { Method::PUT } else { Method::GET },
        authorization: dice.one_in(8),
        cookie: dice.one_in(8),
        cache_control,
        pragma: dice.one_in(20),
    }
}

fn date(seconds: u64) -> String {
    httpdate::fmt_http_date(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds))
}

/// Directives in one line or several, in any case, with more or less space, numbers quoted or not.
fn lines(dice: &mut Dice, said: &[Said]) -> Vec<String> {
    let mut lines = vec![String::new()];
    for one in said {
        let name: String =
            one.name().chars().map(|c| if dice.one_in(5) { c.to_ascii_uppercase() } else { c }).collect();
        let text = match one {
            Said::Flag(_) => name,
            Said::Seconds(_, seconds) if dice.one_in(5) => format!("{name}=\"{seconds}\""),
            Said::Seconds(_, seconds) if dice.one_in(9) => format!("{name}=00{seconds}"),
            Said::Seconds(_, seconds) => format!("{name}={seconds}"),
            Said::Nonsense(_) => format!("{name}={}", dice.pick(&["", "x", "-1", "1.5", "\"a, b\"", "1 0"])),
            Said::Fields(_, fields) => format!("{name}=\"{fields}\""),
        };
        if dice.one_in(4) {
            lines.push(String::new());
        }
        let line = lines.last_mut().unwrap();
        if !line.is_empty() {
            line.push_str(dice.pick(&[",", ", ", " ,\t", ", ,"]));
        }
        line.push_str(&text);
    }
    lines
}

fn head_of(dice: &mut Dice, told: &Told) -> response::Parts {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(told.status).unwrap();
    let mut say = |name: &'static str, value: String| {
        response.headers_mut().append(HeaderName::from_static(name), HeaderValue::try_from(value).unwrap());
    };
    if let Some(said) = &told.cache_control {
        lines(dice, said).into_iter().for_each(|line| say("cache-control", line));
    }
    match told.expires {
        Some(Expires::At(at)) => say("expires", date(at)),
        Some(Expires::Invalid) => say("expires", dice.pick(&["0", "-1", "", "now"]).into()),
        None => {}
    }
    told.date.into_iter().for_each(|at| say("date", date(at)));
    told.last_modified.into_iter().for_each(|at| say("last-modified", date(at)));
    told.age.into_iter().for_each(|age| say("age", age.to_string()));
    if told.etag {
        say("etag", "\"a\"".into());
    }
    if told.vary_star {
        say("vary", dice.pick(&["*", "accept, *", "*, accept"]).into());
    }
    if told.set_cookie {
        say("set-cookie", "a=b".into());
    }
    say("x-own", "1".into());
    say("connection", "x-hop".into());
    say("x-hop", "1".into());
    response.into_parts().0
}

fn request_of(dice: &mut Dice, asked: &Asked) -> request::Parts {
    let mut request = Request::builder().method(asked.method.clone()).uri("/page").body(()).unwrap();
    let mut say = |name: &'static str, value: &str| {
        request.headers_mut().append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    };
    if asked.authorization {
        say("authorization", "Basic eDp5");
    }
    if asked.cookie {
        say("cookie", "a=b");
    }
    if !asked.cache_control.is_empty() {
        lines(dice, &asked.cache_control).iter().for_each(|line| say("cache-control", line));
    }
    if asked.pragma {
        say("pragma", "no-cache");
    }
    request.into_parts().0
}

fn is_same(one: Use, other: Use) -> bool {
    one == other || matches!((one, other), (Use::Validate(_), Use::Validate(_)))
}

/// Of each kind of outcome how many there were: a test that meets only refusals proves nothing.
#[derive(Default, Debug)]
struct Met {
    stored: u32,
    refused: u32,
    fresh: u32,
    stale: u32,
    revalidating: u32,
    validate: u32,
    stood_in: u32,
    freshened: u32,
    not_freshened: u32,
}

#[test]
fn the_law_is_what_the_rfc_says() {
    let mut met = Met::default();
    for seed in 1..=60_000u64 {
        one_exchange(seed, &mut met);
    }
    let Met { stored, refused, fresh, stale, revalidating, validate, stood_in, freshened, not_freshened } = met;
    let least =
        [stored, refused, fresh, stale, revalidating, validate, stood_in, freshened, not_freshened].into_iter().min();
    assert!(least > Some(300), "{met:?}");
}

fn one_exchange(seed: u64, met: &mut Met) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let (told_one, asked_one) = (told(&mut dice), asked(&mut dice));
    let (head, request) = (head_of(&mut dice, &told_one), request_of(&mut dice, &asked_one));
    let request_time = NOON * 1000 + dice.roll(2000);
    let at = ExchangeTimes::by_one_clock(request_time, request_time + dice.roll(3) * dice.roll(4000));
    let case = format!("seed {seed}\n{asked_one:?}\n{told_one:?}\n{:?}\n{:?}\n{at:?}", request.headers, head.headers);

    let may = model::may_store(&asked_one, &told_one);
    let worth = model::is_worth_storing(&asked_one, &told_one, at);
    let decided = storable(&request, &head, at, 0);
    assert_eq!(decided.is_ok(), may && worth, "storing: may {may}, worth {worth}, {decided:?}\n{case}");
    let Ok(storable) = decided else { return met.refused += 1 };
    met.stored += 1;

    // 3.1: "the Connection header field and fields whose names are listed in it are required ... to be removed";
    // 5.2.2.7 for private="x-own"; no-cache="x-own" may be sent after validation only (5.2.2.4).
    // Of what is validated as a whole each time, the list says nothing more.
    let said = told_one.directives();
    let listed = said.iter().any(|one| matches!(one, Said::Fields(name, _) if !said.contains(&Said::Flag(name))));
    assert_eq!(storable.headers.contains_key("x-own"), !listed, "{case}");
    assert!(!storable.headers.contains_key("x-hop") && !storable.headers.contains_key("connection"), "{case}");

    let lifetime = told_one.lifetime(at.response_time, told_one.guessable(&asked_one));
    let initial_age = told_one.initial_age(at);
    assert_eq!((storable.freshness.lifetime, storable.freshness.initial_age), (lifetime, initial_age), "{case}");

    let stored = Stored::new("http://a/page".into(), head.status, storable, Content::Whole(Bytes::new()), &[]);
    let stored = Arc::new(stored);
    for _ in 0..4 {
        let later = asked(&mut dice);
        let now = at.response_time + dice.pick(&[0, 500, 1000, 4999, 5000, 9_000, 10_000, 20_000, 90_000, 4_000_000]);
        let wishes = RequestDirectives::of(&request_of(&mut dice, &later).headers);
        let case = format!("{later:?} at +{}\n{case}", now - at.response_time);
        let expected = model::reuse(&told_one, lifetime, initial_age, at.response_time, &later, now);
        let judged = judge(&stored, &wishes, now);
        assert!(is_same(judged, expected), "judged {judged:?}, expected {expected:?}\n{case}");
        match judged {
            Use::Fresh => met.fresh += 1,
            Use::Stale => met.stale += 1,
            Use::WhileRevalidating => met.revalidating += 1,
            Use::Validate(_) => met.validate += 1,
        }
        let expected = model::stands_in(&told_one, lifetime, initial_age, at.response_time, &later, now);
        assert_eq!(may_stand_in(&stored, &wishes, now), expected, "standing in\n{case}");
        met.stood_in += u32::from(expected);
    }
    one_update(&mut dice, &told_one, &stored, &case, met);
}

/// 4.3.4: "the cache MUST update its header fields with the header fields provided in the 304", and 3.2: "add each
/// header field in the provided response to the stored response, replacing field values that are already present".
fn one_update(dice: &mut Dice, old: &Told, stored: &Stored, case: &str, met: &mut Met) {
    let newer = told(dice);
    let newer = Told { status: 304, etag: old.etag && newer.etag, ..newer };
    let head = head_of(dice, &newer);
    let request_time = stored.freshness.response_time + 10_000;
    let at = ExchangeTimes::by_one_clock(request_time, request_time + dice.roll(2) * 700);
    let merged = Told {
        status: old.status,
        cache_control: newer.cache_control.clone().or(old.cache_control.clone()),
        expires: newer.expires.clone().or(old.expires.clone()),
        date: newer.date.or(old.date),
        last_modified: newer.last_modified.or(old.last_modified),
        age: newer.age,
        etag: old.etag,
        vary_star: newer.vary_star,
        set_cookie: old.set_cookie || newer.set_cookie,
    };
    let case = format!("then {newer:?}\n{:?}\n{at:?}\n{case}", head.headers);
    let updated = freshened(stored, &head.headers, at, 0);
    assert_eq!(updated.is_ok(), !merged.forbids_storing(), "updating: {updated:?}\n{case}");
    let Ok(updated) = updated else { return met.not_freshened += 1 };
    met.freshened += 1;
    assert_eq!(updated.freshness.initial_age, merged.initial_age(at), "{case}");
    // A guess may be made anew, not instead of what was told once; and not for what has become somebody's.
    let guessed = merged.lifetime(at.response_time, true);
    let told = merged.lifetime(at.response_time, false);
    let personal = newer.set_cookie && !model::has(merged.directives(), "public");
    let expected: &[u64] = if personal { &[told] } else { &[told, guessed] };
    assert!(expected.contains(&updated.freshness.lifetime), "{} of {expected:?}\n{case}", updated.freshness.lifetime);
    assert_eq!(updated.freshness.must_revalidate, merged.forbids_stale(), "{case}");
    assert_eq!(updated.freshness.no_cache, merged.no_cache(), "{case}");
}
