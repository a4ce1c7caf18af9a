//! The page "Advice" with results as they are kept.

use std::path::Path;

use serde_json::{json, Value};

use super::*;

const EVIL: &str = "<img src=x onerror=alert(1)>";
const ROOT: &str = "/srv/shop";

fn fix(file: &str, line: &str, edit: Value) -> Value {
    json!({ "file": file, "line": line, "edit": edit })
}

fn candidate(sentence: &str, fix: Value, trial: Value) -> Value {
    json!({
        "kind": "cold_connections", "routes": ["GET /provision"], "sentence": sentence, "short": "31 repeated queries",
        "at": "app/prices.rb:12", "fix": fix, "trial": trial,
        "measure": "wall",
        "ceiling_us": 1.0, "subject": "",
    })
}

fn patch() -> Value {
    json!({ "kind": "patch", "trial": [], "control": [], "deliver": "gathered" })
}

fn gain(route: &str, gain_us: f64, of_us: f64, low: f64, high: f64, bound: &str) -> Value {
    let interval = json!([low, high]);
    json!({ "route": route, "share": 0.1, "gain_us": gain_us, "of_us": of_us, "interval_us": interval, "bound": bound })
}

fn verdict(candidate: Value, gains: Value, standing: Value, bytes: Value) -> Value {
    json!({
        "candidate": candidate, "standing": standing, "gains": gains, "bytes": bytes, "saved_us": 1.0, "memory": null,
        "rounds": 9,
    })
}

/// Advice that `apply` writes.
fn provision() -> Value {
    let edit = json!({ "kind": "insert", "lines": [], "place": "end", "gem": true });
    let fix = fix("config/initializers/paceline.rb", "Paceline::HTTP.install!", edit);
    let gains = json!([
        gain("GET /provision", 1_120_000.0, 1_836_000.0, 1_060_000.0, 1_180_000.0, "measured"),
        gain("GET /suppliers/*", 70_000.0, 190_000.0, 52_000.0, 88_000.0, "measured"),
    ]);
    let candidate = candidate("15 TLS connections in each request", fix, patch());
    verdict(candidate, gains, json!({ "state": "worth" }), json!({ "state": "same" }))
}

/// Advice that only its author can follow.
fn beers() -> Value {
    let edit = json!({ "kind": "shown", "why": "it is your code" });
    let fix = fix("", "Beer.includes(:brewery)", edit);
    let candidate = candidate("the same query 31 times", fix, json!({ "kind": "what_if", "trial": [] }));
    let gains = json!([gain("GET /beers", 41_000.0, 60_000.0, 38_000.0, 44_000.0, "at_most")]);
    verdict(candidate, gains, json!({ "state": "worth" }), json!({ "state": "same" }))
}

/// An index that can't be tried.
fn orders() -> Value {
    let edit = json!({ "kind": "migration", "table": "orders", "columns": ["customer"], "concurrently": true });
    let fix = fix("db/migrate", "add_index :orders, :customer, algorithm: :concurrently", edit);
    let candidate = candidate("PostgreSQL reads all rows", fix, json!({ "kind": "what_if", "trial": [] }));
    let gains = json!([gain("GET /orders", 41_000.0, 60_000.0, 38_000.0, 44_000.0, "at_most")]);
    verdict(candidate, gains, json!({ "state": "worth" }), json!({ "state": "same" }))
}

/// `text` stands wherever a page or the application could put one.
fn prices(text: &str) -> Value {
    let edit = json!({ "kind": "insert", "lines": [], "place": "end", "gem": false });
    let difference = json!({
        "status": [200, 500],
        "headers": [
            { "name": text, "control": text, "trial": text },
            { "name": "vary", "control": "Accept", "trial": null },
        ],
        "body": [{ "offset": 1204, "before": text, "control": text, "trial": "\n", "after": text }],
    });
    let gains =
        json!([gain(text, 9.0, 14.0, 8.0, 10.0, "measured"), gain("GET /b", -9.0, 14.0, -10.0, -8.0, "measured")]);
    let bytes = json!({ "state": "differ", "request": text, "difference": difference });
    verdict(candidate(text, fix(text, text, edit), patch()), gains, json!({ "state": "changes" }), bytes)
}

fn report(advice: Vec<Value>, others: Vec<Value>, sample: Value) -> Value {
    let advice = advice.into_iter().zip(1..).map(|(verdict, number)| json!({ "number": number, "verdict": verdict }));
    json!({ "app": "shop", "sample": sample, "advice": advice.collect::<Vec<_>>(), "others": others })
}

fn result(report: Value) -> DoctorResult {
    let report = serde_json::from_value(report).expect("a report");
    DoctorResult::new("shop", Path::new(ROOT), "6.1.7".into(), report, 1000.0)
}

fn of(site: &str, result: Result<DoctorResult, LoadError>) -> SiteAdvice {
    SiteAdvice { site: site.into(), root: ROOT.into(), result }
}

fn shown(sites: &[&str], site: Option<&str>, results: Vec<SiteAdvice>) -> String {
    let sites: Vec<String> = sites.iter().map(|&site| site.to_owned()).collect();
    let view = AdviceView { now: 1000.0 + 7200.0, zone: &TimeZone::UTC, sites: &sites, site };
    advice(&view, results.into_iter())
}

fn has(page: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(page.contains(part), "{part} in {page}"));
}

#[test]
fn each_advice_has_its_gain_its_line_and_its_command() {
    let not_worth = |why: &str| {
        verdict(
            beers()["candidate"].clone(),
            json!([]),
            json!({ "state": "not_worth", "why": why }),
            json!({ "state": "same" }),
        )
    };
    let failed = verdict(
        beers()["candidate"].clone(),
        json!([]),
        json!({ "state": "failed", "why": "no such patch" }),
        json!({ "state": "same" }),
    );
    let sample = json!({
        "requests": 214, "live": true, "noisy": ["GET /random"],
        "dropped": [
            {
                "request": "GET /visit",
                "why": { "why": "writes", "what": "INSERT INTO visits", "at": "app/visit.rb:4", "kind": "sql" },
            },
            { "request": "GET /away", "why": { "why": "status", "status": 503 } },
        ],
    });
    let result = result(report(vec![provision(), beers()], vec![not_worth("+0.4 %, noise"), failed], sample));
    let page = shown(&["shop"], None, vec![of("shop", Ok(result))]);
    has(
        &page,
        &[
            "<title>shop: advice</title>",
            "shop: two changes are worth it",
            "1970-01-01 00:16:40 (2 h ago)",
            "214 replayed GETs, 9 rounds, beside live traffic",
            "15 TLS connections in each request",
            "<strong>−1,120 ms</strong> of 1,836 ms<span class=\"sure\">61 %, 95 % sure: 58 to 64</span>",
            "10 % of the requests, −70 ms (37 %, 95 % sure: 27 to 46)",
            "Add to config/initializers/paceline.rb",
            "</span>Paceline::HTTP.install!</pre>",
            "<pre class=\"command\" tabindex=\"0\">paceline doctor apply 1</pre>",
            "<strong>up to −41 ms</strong>",
            "the 31 repeated queries cost nothing",
            "It is yours to write: it is your code.",
            "same bytes",
            "Looked at, not worth it",
            "+0.4 %, noise",
            "no such patch",
            "it writes: <span class=\"code\">INSERT INTO visits</span> <span class=\"ago\">app/visit.rb:4</span>",
            "it is answered: <span class=\"code\">503</span>",
            "GET /random",
        ],
    );
    assert!(!page.contains("apply 2") && !page.contains("made in") && !page.contains("Faster, but"), "{page}");
}

#[test]
fn an_index_is_no_change_of_the_code() {
    let page = shown(&["shop"], None, vec![of("shop", Ok(result(report(vec![orders()], vec![], json!({})))))]);
    has(&page, &["A migration", "The index brings at most this.", "paceline doctor apply 1"]);
    assert!(!page.contains("A change of the code"), "{page}");
}

#[test]
fn a_bar_is_as_long_as_the_time() {
    let page = shown(&["shop"], None, vec![of("shop", Ok(result(report(vec![provision()], vec![], json!({})))))]);
    // 1,836 ms is the longest; 716 ms with the change, 656 to 776.
    has(
        &page,
        &[
            "<rect class=\"now\" width=\"100.0%\"",
            "<rect class=\"good\" width=\"39.0%\"",
            "<title>656 to 776 ms, 95 % sure</title><line x1=\"35.7%\" x2=\"42.3%\"",
            "<rect class=\"now\" width=\"10.3%\"",
            "<rect class=\"good\" width=\"6.5%\"",
        ],
    );
    let computed = json!({ "kind": "computed", "gain_us": 1.0, "why": "answered from the page cache" });
    let unknown = verdict(
        candidate("x", fix("", "y", json!({ "kind": "shown", "why": "z" })), computed),
        json!([gain("", 5.0, 0.0, 0.0, 0.0, "computed")]),
        json!({ "state": "worth" }),
        json!({ "state": "not_compared" }),
    );
    let page = shown(&["shop"], None, vec![of("shop", Ok(result(report(vec![unknown], vec![], json!({})))))]);
    assert!(
        !page.contains("<rect") && !page.contains("NaN") && page.contains("Computed, not tried: answered from"),
        "{page}"
    );
}

#[test]
fn what_pages_and_applications_say_is_escaped() {
    let result = result(report(
        vec![prices(EVIL)],
        vec![prices(EVIL)],
        json!({ "noisy": [EVIL], "dropped": [{ "request": EVIL, "why": { "why": "failed", "error": EVIL } }] }),
    ));
    let page = shown(&[EVIL, "other"], Some(EVIL), vec![of(EVIL, Ok(result))]);
    assert!(!page.contains("<img") && page.contains("&lt;img"), "{page}");
    has(
        &page,
        &[
            "Faster, but pages change",
            "status <del>200</del> <ins>500</ins>",
            "vary: <del>Accept</del> (missing)",
            "byte 1,204",
            "<ins>↵\n</ins>",
            "<rect class=\"bad\"",
            "+0.01 ms (64 % slower, 95 % sure: 57 to 71)",
            "paceline doctor apply 1 --site '&lt;img src=x onerror=alert(1)&gt;'",
        ],
    );
    let broken = LoadError::Broken { file: EVIL.into(), why: EVIL.into() };
    assert!(!shown(&[EVIL], None, vec![of(EVIL, Err(broken))]).contains("<img"));
}

#[test]
fn a_file_that_says_too_much_makes_no_endless_page() {
    let text = "x".repeat(1_000);
    let mut many = prices(&text);
    many["gains"] = vec![many["gains"][0].clone(); 20].into();
    many["bytes"]["difference"]["body"] = vec![many["bytes"]["difference"]["body"][0].clone(); 20].into();
    let dropped = json!({ "request": text, "why": { "why": "status", "status": 1 } });
    let sample = json!({ "noisy": vec![text.clone(); 500], "dropped": vec![dropped; 500] });
    let result = result(report(vec![many.clone(); 100], vec![many; 100], sample));
    let page = shown(&["shop"], None, vec![of("shop", Ok(result))]);
    assert!(page.len() < 3 << 20, "{}", page.len());
    has(&page, &["and 60 more", "and 460 more", "and 14 more", "and 12 more", "…"]);
}

#[test]
fn without_a_result_the_page_says_what_to_run() {
    let page = shown(&["shop"], None, vec![of("shop", Err(LoadError::Missing))]);
    has(&page, &["shop: no advice yet", "<pre class=\"command\" tabindex=\"0\">paceline doctor</pre>"]);
    let broken = LoadError::Broken {
        file: "/srv/shop/tmp/paceline/doctor.json".into(),
        why: "is no result of paceline doctor".into(),
    };
    let page = shown(&["shop", "blog"], Some("shop"), vec![of("shop", Err(broken))]);
    has(&page, &["/srv/shop/tmp/paceline/doctor.json: is no result of paceline doctor", "paceline doctor --site shop"]);
    has(&shown(&[], None, vec![]), &["No application is served here."]);
}

#[test]
fn several_sites_have_an_overview() {
    let found = result(report(vec![provision()], vec![], json!({})));
    let moved = SiteAdvice { root: "/srv/releases/2".into(), ..of("shop", Ok(found.clone())) };
    let sites = ["shop", "a b"];
    let page = shown(&sites, None, vec![of("shop", Ok(found)), of("a b", Err(LoadError::Missing))]);
    has(
        &page,
        &[
            "<a href=\"/advice\" aria-current=\"page\">all sites</a>",
            "<h2><a href=\"/advice?site=a%20b\">a b</a></h2><p class=\"empty\">No result yet.</p>",
            "one change is worth it, 2 h ago",
            "<b>−1,120 ms</b>",
        ],
    );
    assert!(!page.contains("apply"), "{page}");
    let page = shown(&sites, Some("shop"), vec![moved]);
    has(
        &page,
        &[
            "aria-current=\"page\">shop</a>",
            "paceline doctor apply 1 --site shop",
            "<dt>made in</dt><dd>/srv/shop</dd>",
        ],
    );
}
