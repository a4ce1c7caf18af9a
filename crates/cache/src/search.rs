//! Parameters of a query that do not matter, because the origin said so (No-Vary-Search). It never guesses that one
//! does not.

use http::{HeaderMap, HeaderName};
use sfv::{BareItem, Dictionary, ListEntry, Parser};

const NO_VARY_SEARCH: HeaderName = HeaderName::from_static("no-vary-search");

/// What an origin said of a path's parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoVarySearch {
    /// Their order does not matter.
    key_order: bool,
    ignored: Ignored,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Ignored {
    These(Vec<String>),
    AllBut(Vec<String>),
}

impl NoVarySearch {
    /// None: there is no such field, it can't be read, or it says nothing.
    pub fn of(headers: &HeaderMap) -> Option<NoVarySearch> {
        let lines: Vec<_> = headers.get_all(NO_VARY_SEARCH).iter().map(|line| line.as_bytes()).collect();
        let read = Parser::new(&lines.join(&b", "[..])).parse::<Dictionary>().ok()?;
        let flag = |name: &str| match read.get(name) {
            None => Some(None),
            Some(ListEntry::Item(item)) => item.bare_item.as_boolean().map(Some),
            Some(ListEntry::InnerList(_)) => None,
        };
        let names = |name: &str| match read.get(name) {
            Some(ListEntry::InnerList(list)) => {
                list.items.iter().map(|item| text(&item.bare_item)).collect::<Option<Vec<_>>>()
            }
            _ => None,
        };
        let ignored = match read.get("params") {
            Some(ListEntry::InnerList(_)) if read.get("except").is_none() => Ignored::These(names("params")?),
            Some(ListEntry::InnerList(_)) => return None,
            _ => match (flag("params")?.unwrap_or(false), read.get("except")) {
                (true, None) => Ignored::AllBut(Vec::new()),
                (true, Some(_)) => Ignored::AllBut(names("except")?),
                (false, None) => Ignored::These(Vec::new()),
                (false, Some(_)) => return None,
            },
        };
        let said = NoVarySearch { key_order: flag("key-order")?.unwrap_or(false), ignored };
        (said.key_order || said.ignored != Ignored::These(Vec::new())).then_some(said)
    }

    /// A path and query as the key has it: without the parameters that do not matter.
    pub fn canonical(&self, path: &str) -> String {
        let Some((path, query)) = path.split_once('?') else { return path.to_owned() };
        let mut kept: Vec<(String, &str)> = query
            .split('&')
            .map(|parameter| (decoded(parameter.split('=').next().unwrap_or_default()), parameter))
            .filter(|(name, parameter)| !parameter.is_empty() && !self.ignores(name))
            .collect();
        if self.key_order {
            // Stable: of one name's values the order may matter.
            kept.sort_by(|a, b| a.0.cmp(&b.0));
        }
        let kept: Vec<_> = kept.into_iter().map(|(_, parameter)| parameter).collect();
        if kept.is_empty() {
            return path.to_owned();
        }
        format!("{path}?{}", kept.join("&"))
    }

    fn ignores(&self, name: &str) -> bool {
        match &self.ignored {
            Ignored::These(names) => names.iter().any(|ignored| ignored == name),
            Ignored::AllBut(names) => !names.iter().any(|counted| counted == name),
        }
    }
}

fn text(item: &BareItem) -> Option<String> {
    match item {
        BareItem::String(text) => Some(decoded(text.as_str())),
        _ => None,
    }
}

/// A name as a form decodes it.
fn decoded(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        match (byte, after) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digit = |byte: &u8| (*byte as char).to_digit(16).unwrap_or(0) as u8;
                bytes.push(digit(high) << 4 | digit(low));
                rest = after;
            }
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &'static str) -> Option<NoVarySearch> {
        NoVarySearch::of(&[(NO_VARY_SEARCH, http::HeaderValue::from_static(value))].into_iter().collect())
    }

    #[test]
    fn canonical_queries() {
        for (said, path, canonical) in [
            ("params=(\"utm_source\" \"x\")", "/a?id=1&utm_source=z&x", "/a?id=1"),
            ("params=(\"utm_source\")", "/a?utm%5Fsource=z", "/a"),
            ("params", "/a?b=1", "/a"),
            ("params, except=(\"id\")", "/a?x=1&id=2", "/a?id=2"),
            ("key-order", "/a?c=1&b=2&c=0", "/a?b=2&c=1&c=0"),
            ("params=(\"q\")", "/a", "/a"),
        ] {
            assert_eq!(of(said).unwrap().canonical(path), canonical, "{said}");
        }
    }

    #[test]
    fn what_says_nothing_or_nonsense_is_ignored() {
        for said in [
            "",
            "params=?0",
            "params=(1)",
            "except=(\"a\")",
            "params=(\"a\"), except=(\"b\")",
            "params=x",
            "key-order=1",
            "(((",
        ] {
            assert_eq!(of(said), None, "{said}");
        }
    }
}
