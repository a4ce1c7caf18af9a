//! How pages and files reach the visitor: small writes, headers that keep pages from caches, files without compression
//! or lasting names.

use super::{general, of, server_name, server_setting, shown, stores::LINE_BYTES, Look, WeighedCandidate};
use crate::{
    candidate::{Candidate, Edit, Fix, Kind, Place, Trial},
    links::is_fingerprinted,
    observation::{header, Asset, Compressible, Observations, ObservedRequest, Server},
    protocol::{Deliver, Patch},
    units,
};

/// A body in fewer pieces is sent soon enough however it is sent.
const PIECES: f64 = 50.0;
/// What one write of its own costs, about: a system call and a packet. Microseconds.
const WRITE_US: f64 = 8.0;
/// A page that is made faster is not worth a cache's rules: pages of other visitors and times to think of. Microseconds.
pub(crate) const CACHEABLE_US: f64 = 10_000.0;
/// Worth the rules where the page already has a lifetime, and only a header is in the way.
const HINDERED_US: f64 = 1_000.0;
/// What a page from the cache takes. Microseconds.
const HIT_US: f64 = 100.0;
/// Of a route's requests: so many must have been the same for two visitors.
const SAME_PART: f64 = 0.8;
/// Bytes of a page: a smaller one fits into one packet in any case.
const UNCOMPRESSED_PAGE: f64 = 1_024.0;
/// Bytes of text files without compression, all together and each.
const UNCOMPRESSED: u64 = 20_000;
const UNCOMPRESSED_EACH: u64 = 1_400;
/// Of text, what compression saves.
const COMPRESSED_PART: f64 = 0.7;
/// Files that are asked for again and again, or their bytes; fewer and smaller ones are not worth a build step.
const REPEATED: usize = 2;
const REPEATED_BYTES: u64 = 20_000;
/// Bytes of a conditional request and of the 304 that answers it.
const QUESTION: u64 = 1_000;
/// Seconds that a browser keeps a file without asking: a day.
const LASTING: u64 = 86_400;

pub(super) fn rule(observations: &Observations, found: &mut Vec<WeighedCandidate>) {
    for look in Look::all(observations) {
        found.extend(small_writes(observations, &look));
        found.extend(uncached(observations, &look));
        found.extend(uncompressed_page(observations, &look));
    }
    found.extend(uncompressed_assets(observations));
    found.extend(unfingerprinted_assets(observations));
}

fn small_writes(observations: &Observations, look: &Look) -> Option<WeighedCandidate> {
    let Server::Other(server) = &observations.server else { return None };
    let pieces = |request: &ObservedRequest| request.pieces as f64;
    let mean = look.route.requests.iter().map(pieces).sum::<f64>() / look.route.requests.len() as f64;
    if mean < PIECES {
        return None;
    }
    let most = look.most(pieces).pieces;
    let sentence = format!("the body comes in {} pieces, and {server} sends each by itself", units::grouped(most));
    let fix = Fix {
        file: "Gemfile".into(),
        line: "gem \"paceline\"".into(),
        edit: Edit::Insert { lines: vec!["gem \"paceline\"".into()], place: Place::End, gem: false },
    };
    let trial = Trial::Patch { trial: vec![Patch::named("one_write")], control: Vec::new(), deliver: Deliver::Pieces };
    let candidate = of(look.route, Kind::SmallWrites, sentence, fix, trial);
    let short = "one write for each body".into();
    Some(look.found(Candidate { short, ceiling_us: mean * WRITE_US, ..candidate }))
}

/// What keeps a page that is the same for all visitors from being stored.
fn uncached(observations: &Observations, look: &Look) -> Option<WeighedCandidate> {
    let requests = &look.route.requests;
    let is_same = |request: &&ObservedRequest| {
        request.status == 200
            && request.repeat.is_same_twice
            && request.repeat.is_same_for_visitors.unwrap_or_else(|| is_public(request))
    };
    let same: Vec<&ObservedRequest> = requests.iter().filter(is_same).collect();
    if (same.len() as f64) < requests.len() as f64 * SAME_PART {
        return None;
    }
    let first = same.first()?;
    let gain_us = look.wall_us - HIT_US;
    let control = header(&first.headers, "cache-control").unwrap_or_default().to_ascii_lowercase();
    let has = |word: &str| control.split(',').any(|part| part.trim().split('=').next() == Some(word));
    let has_lifetime = has("public") || has("s-maxage") || lifetime(&control) > 0 && !has("private");
    let is_vary_star = header(&first.headers, "vary").is_some_and(|vary| vary.trim() == "*");
    let sets_cookie = header(&first.headers, "set-cookie").is_some();
    let framework = Framework::of(observations, first);
    let author = "only its author knows whether the page may be old, and for how long";
    let (kind, sentence, fix) = match () {
        () if has("no-store") => return None,
        () if has_lifetime && is_vary_star && gain_us > HINDERED_US => (
            Kind::CacheVary,
            "the page may be stored for everybody, but `Vary: *` forbids it".to_string(),
            shown("", framework.vary(), "only its author knows which fields the page depends on"),
        ),
        () if has_lifetime && sets_cookie && gain_us > HINDERED_US => (
            Kind::CacheCookie,
            "the page may be stored for everybody, but it sets a cookie each time".to_string(),
            shown("", framework.without_session(), "only its author knows what the cookie is for"),
        ),
        () if has_lifetime || gain_us < CACHEABLE_US => return None,
        () if !same.iter().all(|request| is_everybodys(request)) => return None,
        () => (
            Kind::CacheHeaders,
            "the page is the same for every visitor, and is made again each time".to_string(),
            shown("", framework.lifetime(), author),
        ),
    };
    let cache = match observations.server {
        Server::Paceline => "answered from the page cache".to_string(),
        Server::Other(_) => {
            format!("answered from a cache, such as Paceline's in place of {}", server_name(observations))
        }
    };
    let candidate = of(look.route, kind, sentence, fix, Trial::Computed { gain_us, why: cache });
    let short = "cache headers".into();
    Some(look.found(Candidate { short, ceiling_us: gain_us, ..candidate }))
}

/// Whether it is proven: it is the same for others, and asks nobody who they are.
fn is_everybodys(request: &ObservedRequest) -> bool {
    let sets_cookie = header(&request.headers, "set-cookie").is_some();
    request.repeat.is_same_for_visitors == Some(true)
        && request.repeat.asks_for_nobody
        && request.evidence.session.is_none()
        && !sets_cookie
}

/// Whether the page says so itself.
fn is_public(request: &ObservedRequest) -> bool {
    let control = header(&request.headers, "cache-control").unwrap_or_default().to_ascii_lowercase();
    control.contains("public") || control.contains("s-maxage")
}

/// In whose words a line is written.
#[derive(Clone, Copy)]
enum Framework {
    Rails,
    Sinatra,
    Rack,
}

impl Framework {
    /// Of what has answered the request, whatever else is in the bundle.
    fn of(observations: &Observations, request: &ObservedRequest) -> Framework {
        match request.evidence.framework.as_deref() {
            Some("rails") => Framework::Rails,
            Some("sinatra") => Framework::Sinatra,
            None if !observations.rails.is_empty() => Framework::Rails,
            _ => Framework::Rack,
        }
    }

    fn lifetime(self) -> &'static str {
        match self {
            Framework::Rails => "expires_in 1.minute, public: true",
            Framework::Sinatra => "cache_control :public, max_age: 60",
            Framework::Rack => "headers[\"cache-control\"] = \"public, max-age=60\"",
        }
    }

    fn vary(self) -> &'static str {
        match self {
            Framework::Rails => "response.headers[\"Vary\"] = \"Accept-Encoding\"",
            Framework::Sinatra => "headers \"Vary\" => \"Accept-Encoding\"",
            Framework::Rack => "headers[\"vary\"] = \"accept-encoding\"",
        }
    }

    fn without_session(self) -> &'static str {
        match self {
            Framework::Rack => "env[\"rack.session.options\"][:skip] = true",
            Framework::Rails | Framework::Sinatra => "request.session_options[:skip] = true",
        }
    }
}

/// Seconds.
fn lifetime(control: &str) -> u64 {
    let ages = control.split(',').filter_map(|part| part.trim().strip_prefix("max-age="));
    ages.filter_map(|age| age.trim_matches('"').parse().ok()).max().unwrap_or(0)
}

fn is_text(headers: &[(String, String)]) -> bool {
    let kind = header(headers, "content-type").unwrap_or_default().to_ascii_lowercase();
    kind.starts_with("text/") || ["javascript", "json", "xml"].iter().any(|word| kind.contains(word))
}

fn line_us(bytes: f64) -> f64 {
    bytes / LINE_BYTES * 1e6
}

const OVER_A_LINE: &str = "over a line of 8 Mbit/s";

/// Only where it is known what the server does. What it compresses not at all, and what of a type that it does not know.
fn uncompressed_page(observations: &Observations, look: &Look) -> Option<WeighedCandidate> {
    let is_on = observations.settings.compress?;
    let wanted = if is_on { Compressible::OtherType } else { Compressible::Yes };
    let bytes =
        |request: &ObservedRequest| if request.compressible == wanted { request.body_bytes as f64 } else { 0.0 };
    let mean = look.route.requests.iter().map(bytes).sum::<f64>() / look.route.requests.len() as f64;
    if mean < UNCOMPRESSED_PAGE {
        return None;
    }
    let kind = header(&look.most(bytes).headers, "content-type").unwrap_or("without a type").to_string();
    let size = units::bytes(mean as u64);
    let (sentence, fix) = if is_on {
        (
            format!("{size} of text are sent without compression, because their type is {kind}"),
            shown(
                "",
                "a type that is compressed, as text/plain, text/csv or application/json",
                "only its author knows which types its readers understand",
            ),
        )
    } else {
        (
            format!("{size} of text are sent without compression"),
            server_setting(observations, "compress", "true", "compression in the server"),
        )
    };
    let candidate = of(look.route, Kind::UncompressedPages, sentence, fix, Trial::Compression);
    let (ceiling_us, short) = (line_us(mean * COMPRESSED_PART), "compression".into());
    Some(look.found(Candidate { short, ceiling_us, ..candidate }))
}

fn is_compressed(headers: &[(String, String)]) -> bool {
    header(headers, "content-encoding").is_some_and(|coding| !coding.trim().is_empty() && coding != "identity")
}

fn usable(observations: &Observations) -> impl Iterator<Item = &Asset> {
    observations.assets.iter().filter(|asset| asset.status == 200)
}

fn uncompressed_assets(observations: &Observations) -> Option<WeighedCandidate> {
    let is_plain =
        |asset: &&Asset| is_text(&asset.headers) && !is_compressed(&asset.headers) && asset.bytes >= UNCOMPRESSED_EACH;
    let plain: Vec<&Asset> = usable(observations).filter(is_plain).collect();
    let bytes: u64 = plain.iter().map(|asset| asset.bytes).sum();
    if bytes < UNCOMPRESSED {
        return None;
    }
    let gain_us = line_us(bytes as f64 * COMPRESSED_PART);
    let sentence = format!(
        "{} of {} are sent without compression, as {}",
        units::bytes(bytes),
        units::figures(plain.len() as u64, "text file", "text files"),
        plain.iter().max_by_key(|asset| asset.bytes).map_or("", |asset| &asset.path)
    );
    let fix = server_setting(observations, "compress", "true", "compressed files (.gz) and a server that sends them");
    let trial = Trial::Computed { gain_us, why: format!("for a first visit, {OVER_A_LINE}") };
    Some(asset_found(general(Kind::UncompressedAssets, sentence, fix, trial), gain_us, &plain))
}

fn unfingerprinted_assets(observations: &Observations) -> Option<WeighedCandidate> {
    let is_asked_again = |asset: &&Asset| {
        let control = header(&asset.headers, "cache-control").unwrap_or_default().to_ascii_lowercase();
        !is_fingerprinted(&asset.path) && lifetime(&control) < LASTING
    };
    let asked_again: Vec<&Asset> = usable(observations).filter(is_asked_again).collect();
    let bytes: u64 = asked_again.iter().map(|asset| asset.bytes).sum();
    if asked_again.len() < REPEATED && bytes < REPEATED_BYTES {
        return None;
    }
    // With a validator only the question and its 304 are repeated; without, the file.
    let has_validator =
        |asset: &Asset| header(&asset.headers, "etag").is_some() || header(&asset.headers, "last-modified").is_some();
    let sent: u64 = asked_again.iter().map(|asset| if has_validator(asset) { QUESTION } else { asset.bytes }).sum();
    let gain_us = line_us(sent as f64);
    let sentence = format!(
        "{} without a digest in their names, which browsers ask for with every page, as {}",
        units::figures(asked_again.len() as u64, "file", "files"),
        asked_again.iter().max_by_key(|asset| asset.bytes).map_or("", |asset| &asset.path)
    );
    let line = if observations.rails.is_empty() {
        "names with a digest, as app-3f2a9c01.css"
    } else {
        "config.assets.digest = true, and rails assets:precompile"
    };
    let fix = shown("", line, "the pages must link to the new names");
    let trial = Trial::Computed { gain_us, why: format!("for each further page, {OVER_A_LINE}") };
    Some(asset_found(general(Kind::UnfingerprintedAssets, sentence, fix, trial), gain_us, &asked_again))
}

fn asset_found(candidate: Candidate, gain_us: f64, assets: &[&Asset]) -> WeighedCandidate {
    let share = assets.iter().map(|asset| asset.share).fold(0.0, f64::max);
    let subject = assets.first().map_or_else(String::new, |asset| asset.path.clone());
    WeighedCandidate { candidate: Candidate { ceiling_us: gain_us, subject, ..candidate }, weight: gain_us * share }
}
