//! For how long browsers and other caches may keep a page that changes at a known time: no longer than until then
//! (RFC 9111 sections 4.2 and 5.2.2). It never makes a page valid for longer than it was.

use cache::{
    fields::{date, date_in, members, pair, seconds},
    targeted::CDN_CACHE_CONTROL,
};
use http::{header, HeaderMap, HeaderName, HeaderValue};

use crate::Millis;

/// Fields that say how long a response may be kept.
const FIELDS: [HeaderName; 3] =
    [header::CACHE_CONTROL, CDN_CACHE_CONTROL, HeaderName::from_static("cloudflare-cdn-cache-control")];
/// Akamai's, with times like `1d` from when it has come.
const EDGE_CONTROL: HeaderName = HeaderName::from_static("edge-control");

/// The times after `now` at which the page changes, as the application says (`Paceline-Changes-At`): the first one first.
/// What is no time is passed over.
pub fn announced(headers: &HeaderMap, now: Millis) -> Vec<Millis> {
    let lines = headers.get_all(crate::CHANGES_AT).iter().map(HeaderValue::as_bytes);
    // A date has a comma in it.
    let times = lines.flat_map(|line| match date(line) {
        Some(at) => vec![at],
        None => line.split(|byte| *byte == b',').filter_map(unix_millis).collect(),
    });
    let mut times: Vec<Millis> = times.filter(|at| *at > now).collect();
    times.sort_unstable();
    times.dedup();
    times
}

/// `1795780800` or `1795780800.25`.
fn unix_millis(text: &[u8]) -> Option<Millis> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds: f64 = text.parse().ok().filter(|_| is_number)?;
    // Up to the year 5138.
    (seconds < 1e11).then(|| (seconds * 1000.0).round() as Millis)
}

/// Ends what the fields promise at `until`. `age`: seconds, as the response's Age says.
pub fn cap(headers: &mut HeaderMap, age: u64, until: Millis, now: Millis) {
    let left = until.saturating_sub(now) / 1000;
    let said = FIELDS.map(|name| cap_field(headers, &name, age, left));
    let explicit = said.contains(&true);
    cap_edge_control(headers, left);
    if date_in(headers, header::EXPIRES).is_some_and(|expires| expires > until) {
        if let Ok(value) = HeaderValue::try_from(http_date(until)) {
            headers.insert(header::EXPIRES, value);
        }
    }
    if !explicit && !headers.contains_key(header::EXPIRES) {
        cap_guess(headers, age, left, now);
    }
}

/// Whether the field says how long, or that the response is not to be used without asking.
fn cap_field(headers: &mut HeaderMap, name: &HeaderName, age: u64, left: u64) -> bool {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let (mut is_changed, mut is_said, mut lifetime) = (false, false, None);
    for member in members(headers, name) {
        let Some((directive, value)) = pair(member) else {
            kept.push(member.to_vec());
            continue;
        };
        let said = value.as_deref().and_then(seconds);
        match directive.to_ascii_lowercase().as_slice() {
            b"no-store" => return true,
            b"no-cache" => is_said = true,
            directive @ (b"max-age" | b"s-maxage") => {
                is_said = true;
                lifetime = lifetime.max(said);
                if said.is_some_and(|said| said > age + left) {
                    is_changed = true;
                    let name = String::from_utf8_lossy(directive);
                    kept.push(format!("{name}={}", age + left).into_bytes());
                    continue;
                }
            }
            b"immutable" => {
                is_changed = true;
                continue;
            }
            _ => {}
        }
        kept.push(member.to_vec());
    }
    // How long it is fresh yet; what may be used stale ends with the page, too.
    let fresh = lifetime.unwrap_or(0).min(age + left).saturating_sub(age);
    for member in &mut kept {
        let Some((directive, Some(value))) = pair(member) else { continue };
        let is_window = [&b"stale-while-revalidate"[..], b"stale-if-error"]
            .iter()
            .any(|window| directive.eq_ignore_ascii_case(window));
        if is_window && seconds(&value).is_some_and(|said| fresh + said > left) {
            is_changed = true;
            let name = String::from_utf8_lossy(directive).into_owned();
            *member = format!("{name}={}", left.saturating_sub(fresh)).into_bytes();
        }
    }
    if is_changed {
        if let Ok(value) = HeaderValue::from_bytes(&kept.join(&b", "[..])) {
            headers.insert(name.clone(), value);
        }
    }
    is_said
}

fn cap_edge_control(headers: &mut HeaderMap, left: u64) {
    let mut is_changed = false;
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for member in members(headers, EDGE_CONTROL) {
        let (directive, value) = member.split_at(member.iter().position(|byte| *byte == b'=').unwrap_or(member.len()));
        let directive = directive.trim_ascii();
        let is_time = [&b"max-age"[..], b"cache-maxage", b"downstream-ttl"]
            .iter()
            .any(|time| directive.eq_ignore_ascii_case(time));
        // What is no time might be a long one in a form that is not known here.
        if is_time && edge_seconds(value).is_none_or(|said| said > left) {
            is_changed = true;
            kept.push([directive, format!("={left}s").as_bytes()].concat());
        } else {
            kept.push(member.to_vec());
        }
    }
    if is_changed {
        if let Ok(value) = HeaderValue::from_bytes(&kept.join(&b", "[..])) {
            headers.insert(EDGE_CONTROL, value);
        }
    }
}

/// `=1d`, `=30m`, `=60`.
fn edge_seconds(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text.strip_prefix(b"=")?).ok()?.trim().to_ascii_lowercase();
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Where nobody says how long, caches guess a tenth of the time that the page has been as it is (section 4.2.2).
fn cap_guess(headers: &mut HeaderMap, age: u64, left: u64, now: Millis) {
    let Some(modified) = date_in(headers, header::LAST_MODIFIED) else { return };
    let dated = date_in(headers, header::DATE).unwrap_or(now);
    let guess = dated.saturating_sub(modified) / 10_000;
    if guess > age + left {
        if let Ok(value) = HeaderValue::try_from(format!("max-age={}", age + left)) {
            headers.append(header::CACHE_CONTROL, value);
        }
    }
}

fn http_date(at: Millis) -> String {
    httpdate::fmt_http_date(std::time::UNIX_EPOCH + std::time::Duration::from_millis(at))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Wed, 01 Jan 2020 00:00:00 GMT
    const NOW: Millis = 1_577_836_800_000;
    const UNTIL: Millis = NOW + 60_999;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    fn capped(age: u64, lines: &[(&'static str, &'static str)]) -> Vec<(String, String)> {
        let mut headers = headers(lines);
        cap(&mut headers, age, UNTIL, NOW);
        headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_string())).collect()
    }

    #[test]
    fn cache_control_ends_with_the_page() {
        for (age, before, after) in [
            (0, "max-age=3600", "max-age=60"),
            (0, "public, max-age=3600, s-maxage=7200", "public, max-age=60, s-maxage=60"),
            (100, "max-age=3600", "max-age=160"),
            (100, "max-age=130", "max-age=130"),
            (0, "max-age=60", "max-age=60"),
            (0, "Max-Age=61, private", "max-age=60, private"),
            (0, "max-age=3600, immutable", "max-age=60"),
            (0, "max-age=30, stale-while-revalidate=600", "max-age=30, stale-while-revalidate=30"),
            (0, "max-age=30, stale-if-error=20", "max-age=30, stale-if-error=20"),
            (0, "max-age=3600, stale-while-revalidate=600", "max-age=60, stale-while-revalidate=0"),
            (0, "no-store, max-age=3600", "no-store, max-age=3600"),
            (0, "no-cache", "no-cache"),
            (0, "private=\"a, b\", max-age=3600", "private=\"a, b\", max-age=60"),
        ] {
            assert_eq!(capped(age, &[("cache-control", before)]), [("cache-control".into(), after.into())], "{before}");
        }
    }

    #[test]
    fn other_fields_do_too() {
        let expires = |date: &'static str| capped(0, &[("expires", date)])[0].1.clone();
        assert_eq!(expires("Wed, 01 Jan 2020 12:00:00 GMT"), "Wed, 01 Jan 2020 00:01:00 GMT");
        assert_eq!(expires("Wed, 01 Jan 2020 00:00:30 GMT"), "Wed, 01 Jan 2020 00:00:30 GMT");
        assert_eq!(expires("0"), "0");
        let cdn = capped(0, &[("cdn-cache-control", "max-age=3600")]);
        assert_eq!(cdn, [("cdn-cache-control".into(), "max-age=60".into())]);
        let cloudflare = capped(0, &[("cloudflare-cdn-cache-control", "max-age=3600, stale-if-error=5")]);
        assert_eq!(cloudflare[0].1, "max-age=60, stale-if-error=0");
        for (before, after) in [
            ("max-age=1d", "max-age=60s"),
            ("!no-store, cache-maxage=2h, downstream-ttl=30", "!no-store, cache-maxage=60s, downstream-ttl=30"),
            ("Max-Age=1m", "Max-Age=1m"),
            ("max-age=1w, no-store", "max-age=60s, no-store"),
            ("bypass-cache", "bypass-cache"),
        ] {
            assert_eq!(capped(0, &[("edge-control", before)])[0].1, after, "{before}");
        }
    }

    /// A year without a change: caches would keep it for a month.
    #[test]
    fn guesses_end_with_the_page() {
        let old = ("last-modified", "Tue, 01 Jan 2019 00:00:00 GMT");
        assert_eq!(capped(7, &[old])[1], ("cache-control".into(), "max-age=67".into()));
        assert_eq!(capped(0, &[("last-modified", "Tue, 31 Dec 2019 23:59:00 GMT")]).len(), 1);
        assert_eq!(capped(0, &[old, ("cache-control", "no-cache")]).len(), 2);
        assert_eq!(capped(0, &[("content-type", "text/html")]).len(), 1);
    }

    #[test]
    fn what_an_application_announces() {
        let of = |lines: &[&'static str]| {
            let fields: Vec<_> = lines.iter().map(|line| ("paceline-changes-at", *line)).collect();
            announced(&headers(&fields), NOW).into_iter().map(|at| at - NOW).collect::<Vec<_>>()
        };
        assert_eq!(of(&["1577836860"]), [60_000]);
        assert_eq!(of(&["1577836860.25"]), [60_250]);
        assert_eq!(of(&["1577836800, 1577836920,1577836860"]), [60_000, 120_000], "the first to come is the first");
        assert_eq!(of(&["1577836920", "Wed, 01 Jan 2020 00:01:00 GMT", "1577836860"]), [60_000, 120_000]);
        assert!(of(&["soon", "-1", "1e99", "inf", "NaN", ""]).is_empty());
    }
}
