//! Where data is kept between requests: PStore files, sessions and Rails.cache.

use super::{environment_line, general, is_production, of, shown, startup_lines, Look, WeighedCandidate};
use crate::{
    candidate::{Candidate, Edit, Fix, Kind, Trial},
    observation::{header, Observations, ObservedRequest},
    protocol::{Deliver, Patch},
    units,
};

/// Bytes of a session in a cookie: browsers send it with every request, and refuse more than 4,096.
const COOKIE_SESSION: u64 = 2_048;
/// Bytes of a session elsewhere: it is read and written as a whole.
const STORED_SESSION: u64 = 32_768;
/// Bytes of all cookies of a request.
const COOKIES: usize = 4_096;
/// A slow line, bytes a second (8 Mbit/s): what many bytes take is computed for it.
pub(crate) const LINE_BYTES: f64 = 1_000_000.0;

pub(super) fn rule(observations: &Observations, found: &mut Vec<WeighedCandidate>) {
    let has_file_sessions = session_store(observations).is_some_and(is_file_store);
    for look in Look::all(observations) {
        found.extend(if has_file_sessions { file_sessions(observations, &look) } else { pstore(observations, &look) });
        found.extend(large_session(observations, &look));
        found.extend(cache_files(observations, &look));
    }
    found.extend(cache_store(observations));
}

/// A Rails.cache in production that requests read, and that other processes can't share, or that keeps nothing.
fn cache_store(observations: &Observations) -> Option<WeighedCandidate> {
    let reads = |request: &&ObservedRequest| request.evidence.cache.as_ref().map_or(0, |cache| cache.reads);
    let requests = observations.routes.iter().flat_map(|route| &route.requests);
    let most = requests.max_by_key(reads).filter(|_| is_production(observations))?.evidence.cache.as_ref()?;
    let workers = observations.settings.workers.unwrap_or(1);
    let name = observations.facts.cache_store.as_deref()?.strip_prefix("ActiveSupport::Cache::")?;
    let (sentence, why) = match name {
        "MemoryStore" if workers > 1 => (
            format!(
                "Rails.cache is in the memory of each of {workers} workers: each computes what it has not, and what one \
                 writes or deletes the others do not see"
            ),
            "a shadow is one process, and shares no cache with others",
        ),
        "NullStore" => {
            let entries = units::figures(most.reads, "entry of it", "entries of it");
            (
                format!("Rails.cache keeps nothing (NullStore), and a request reads {entries}"),
                "what it saves depends on what is found there",
            )
        }
        _ => return None,
    };
    let trial = Trial::Untried { why: why.into() };
    let candidate = general(Kind::CacheStore, sentence, own_cache_store(observations), trial);
    let candidate = Candidate { short: "cache store".into(), at: most.at.clone(), ..candidate };
    // What has no figure goes last.
    Some(WeighedCandidate { candidate, weight: 0.0 })
}

fn own_cache_store(observations: &Observations) -> Fix {
    const LINE: &str = "config.cache_store = :paceline_file_store, \"tmp/cache.paceline\", { size: 256.megabytes }";
    let edit = Edit::Configure { setting: "config.cache_store".into(), line: LINE.into(), gem: true };
    Fix { edit, ..environment_line(observations, "config.cache_store", LINE) }
}

/// A Rails.cache that opens a file for each entry that is read.
fn cache_files(observations: &Observations, look: &Look) -> Option<WeighedCandidate> {
    if observations.facts.cache_store.as_deref() != Some("ActiveSupport::Cache::FileStore") {
        return None;
    }
    let us = |request: &ObservedRequest| request.evidence.cache.as_ref().map_or(0.0, |cache| cache.us);
    let ceiling_us = look.mean(us);
    if !look.is_notable(ceiling_us) {
        return None;
    }
    let cache = look.most(us).evidence.cache.as_ref()?;
    let files = units::figures(cache.reads, "file", "files");
    let sentence =
        format!("a request opens {files} of Rails.cache, which has each entry in one of its own (FileStore)");
    let fix = own_cache_store(observations);
    let candidate = of(look.route, Kind::CacheStore, sentence, fix, super::patch(Patch::named("cache_store")));
    let short = "cache store".into();
    Some(look.found(Candidate { at: cache.at.clone(), short, ceiling_us, ..candidate }))
}

/// The class that keeps sessions.
fn session_store(observations: &Observations) -> Option<&str> {
    let in_stack = observations.facts.middleware.iter().find(|name| name.contains("Session"));
    observations.facts.session_store.as_deref().or(in_stack.map(String::as_str))
}

fn is_file_store(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    !name.contains("paceline")
        && (name.contains("pstore") || name.contains("filestore") || name.contains("session::file"))
}

fn pstore_us(request: &ObservedRequest) -> f64 {
    request.evidence.pstore.as_ref().map_or(0.0, |pstore| pstore.us)
}

fn pstore(observations: &Observations, look: &Look) -> Option<WeighedCandidate> {
    let ceiling_us = look.mean(pstore_us);
    if !look.is_notable(ceiling_us) {
        return None;
    }
    let store = look.most(pstore_us).evidence.pstore.as_ref()?;
    let sentence = format!(
        "PStore reads its whole file in each transaction: {} of {}",
        units::figures(store.transactions, "transaction", "transactions"),
        units::bytes(store.bytes)
    );
    let fix = startup_lines(observations, &["require \"paceline/pstore\"", "Paceline::PStore.replace!"]);
    let trial = Trial::Patch {
        trial: vec![Patch::named("pstore")],
        control: vec![Patch::named("pstore_copy")],
        deliver: Deliver::Gathered,
    };
    let candidate = of(look.route, Kind::PStore, sentence, fix, trial);
    Some(look.found(Candidate { at: store.at.clone(), ceiling_us, ..candidate }))
}

fn file_sessions(observations: &Observations, look: &Look) -> Option<WeighedCandidate> {
    let store = session_store(observations)?;
    let us = |request: &ObservedRequest| {
        let within = request.evidence.middleware.iter().filter(|middleware| middleware.name.contains("Session"));
        within.map(|middleware| middleware.own_us).sum::<f64>().max(pstore_us(request))
    };
    let gain_us = look.mean(us);
    if !look.is_notable(gain_us) {
        return None;
    }
    let sentence = format!(
        "{store} reads and writes a file for each request with a session; with another store visitors sign in once more"
    );
    let fix = if observations.rails.is_empty() {
        shown(
            "config.ru",
            "use Rack::Session::Paceline, store: \"data/sessions.paceline\"",
            "it takes the place of the other session store, with its options",
        )
    } else {
        let line = "Rails.application.config.session_store :paceline_store, store: \"storage/sessions.paceline\"";
        let edit =
            Edit::Configure { setting: "Rails.application.config.session_store".into(), line: line.into(), gem: true };
        Fix { file: "config/initializers/session_store.rb".into(), line: line.into(), edit }
    };
    let trial =
        Trial::Patch { trial: vec![Patch::named("session_store")], control: Vec::new(), deliver: Deliver::Gathered };
    let candidate = of(look.route, Kind::FileSessions, sentence, fix, trial);
    let short = "file sessions".into();
    Some(look.found(Candidate { subject: store.into(), short, ceiling_us: gain_us, ..candidate }))
}

fn large_session(observations: &Observations, look: &Look) -> Option<WeighedCandidate> {
    let bytes = |request: &ObservedRequest| request.evidence.session.as_ref().map_or(0, |session| session.bytes);
    let most = look.most(|request| bytes(request) as f64);
    let store = most.evidence.session.as_ref().map(|session| session.store.clone()).filter(|store| !store.is_empty());
    let store = store.or_else(|| session_store(observations).map(Into::into)).unwrap_or_default();
    let is_cookie = store.contains("Cookie");
    let cookies = |request: &ObservedRequest| header(&request.request.headers, "cookie").map_or(0, str::len);
    let most_cookies = look.route.requests.iter().map(cookies).max().unwrap_or(0);
    let size = bytes(most);
    let (sent, sentence) = match () {
        () if is_cookie && size >= COOKIE_SESSION => {
            (size, format!("the session is a cookie of {}, sent with every request", units::bytes(size)))
        }
        () if !is_cookie && size >= STORED_SESSION => {
            (0, format!("the session has {}, read with every request that uses it", units::bytes(size)))
        }
        () if most_cookies >= COOKIES => {
            (most_cookies as u64, format!("{} of cookies come with every request", units::bytes(most_cookies as u64)))
        }
        () => return None,
    };
    let fix = if observations.rails.is_empty() {
        shown("", "session[:id] = record.id instead of the record", "only its author knows which values are needed")
    } else {
        shown(
            "config/initializers/session_store.rb",
            "Rails.application.config.session_store :paceline_store, store: \"storage/sessions.paceline\"",
            "or keep less in the session: only its author knows what it needs",
        )
    };
    let gain_us = sent as f64 / LINE_BYTES * 1e6;
    let trial = Trial::Computed { gain_us, why: "sending it, over a line of 8 Mbit/s".into() };
    let candidate = of(look.route, Kind::LargeSession, sentence, fix, trial);
    let short = "large session".into();
    // A session goes with the requests of every route: said once, of the route where it is largest.
    let routes = Vec::new();
    Some(look.found(Candidate { short, routes, ceiling_us: gain_us, ..candidate }))
}
