//! What the settings of an account may cost all who share a server with it: they are compared with each request on threads that serve
//! the sites of others, too. It judges what was read, and reads nothing.

use path_patterns::{weight, MAX_WEIGHT};

use super::SiteConfig;

/// Bytes of a paceline.toml of an account.
pub const MAX_TEXT: usize = 64 << 10;
/// Bytes that a table, a header, a host or a cookie counts as.
const PART: usize = 64;

/// What is wrong with the settings in a file of an account. None: nothing.
pub fn problem(text: &str, own: &SiteConfig) -> Option<String> {
    if text.len() > MAX_TEXT {
        return Some(format!(
            "the file has {}, and a file of an account may have {}: remove what is not needed",
            kilobytes(text.len()),
            kilobytes(MAX_TEXT)
        ));
    }
    let weight = weight_of(own);
    (weight > MAX_WEIGHT).then(|| {
        format!(
            "the [[rule]], [[rate_limit]], [[cache]] and [[scheduled]] weigh {}, and those of an account may weigh {}: use fewer or \
             shorter paths (a path counts with its length and 1 KB for each text between two stars; each table, header, host and cookie \
             counts as {PART} bytes)",
            kilobytes(weight),
            kilobytes(MAX_WEIGHT)
        )
    })
}

fn weight_of(own: &SiteConfig) -> usize {
    let patterns = |all: &[String]| all.iter().map(|pattern| weight(pattern)).sum::<usize>();
    let rules = own.rules.iter().map(|rule| {
        let parts = 1 + rule.headers.set.len() + rule.headers.remove.len() + rule.hosts.len();
        patterns(&rule.paths) + patterns(&rule.except) + PART * parts
    });
    let limits = own.rate_limits.iter().map(|limit| weight(&limit.path) + PART);
    let cache = own.cache.iter().flat_map(|cache| {
        let kept = cache
            .rules
            .iter()
            .map(|rule| weight(&rule.path) + PART * (1 + rule.cookies.len() + rule.ignore_cookies.len()));
        kept.chain(cache.scheduled.iter().map(|rule| patterns(&rule.paths) + PART))
    });
    rules.chain(limits).sum::<usize>() + cache.sum::<usize>()
}

fn kilobytes(bytes: usize) -> String {
    format!("{} KB", bytes.div_ceil(1 << 10))
}
