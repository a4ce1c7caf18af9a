//! Which source files name a part of the server outside of its home. A part has few doors: the lists of modules, of settings, of
//! commands and of what the control socket serves, and the steps of a request that it takes part in.

use std::{collections::BTreeSet, iter::Peekable};

use proc_macro2::{token_stream::IntoIter, Delimiter, Group, TokenStream, TokenTree};

/// A part, and how many files outside of its home may name it.
pub struct Part {
    pub name: &'static str,
    /// In identifiers, and in texts: `sign_on` is in `SignOn` and in "sign-on".
    words: &'static [&'static str],
    /// Beginnings of paths below `crates`.
    home: &'static [&'static str],
    pub most: usize,
}

#[rustfmt::skip]
pub const PARTS: &[Part] = &[
    Part { name: "ESI", words: &["esi"], most: 5, home: &["esi/", "paceline/src/request/fragments", "paceline/src/config/parts/esi"] },
    Part { name: "live reload", words: &["live_reload"], most: 8, home: &[
        "paceline/src/content/live_reload", "paceline/src/server/live_reload", "paceline/src/config/parts/live_reload",
    ] },
    Part { name: "scheduled pages", words: &["scheduled", "scheduling"], most: 8, home: &[
        "scheduled/", "paceline/src/caching/scheduled", "paceline/src/config/parts/scheduled", "paceline/src/request/preview",
        "paceline/src/server/scheduling", "paceline/src/server/control/parts/scheduled", "paceline/src/cli/asking/schedule",
    ] },
    // The doctor and the automatic page cache know calls that an application makes by itself.
    Part { name: "outbound calls", words: &["egress", "outbound"], most: 8, home: &[
        "egress/", "auto-cache/", "doctor/", "paceline/src/doctor/", "paceline/src/server/outbound", "paceline/src/config/parts/outbound",
        "paceline/src/server/control/parts/outbound", "paceline/src/exchange/outbound",
    ] },
    Part { name: "single sign-on", words: &["sign_on", "sign_in", "sso", "openid"], most: 8, home: &[
        "sign-in/", "openid/", "directory/", "negotiate/", "http-guard/src/identity_fields", "paceline/src/config/parts/sign_on", "paceline/src/request/auth",
        "paceline/src/request/access_rules", "paceline/src/exchange/identity", "paceline/src/request/pipeline/gate", "paceline/src/request/pages/signed_out", "paceline/src/server/sign_on", "paceline/src/server/sso_check",
        "paceline/src/cli/sso",
    ] },
    Part { name: "automatic page cache", words: &["auto_cache"], most: 9, home: &[
        "auto-cache/", "paceline/src/caching/auto", "paceline/src/config/parts/auto_cache", "paceline/src/cli/asking/auto_cache",
        "paceline/src/server/control/parts/auto_cache", "paceline/src/server/journals",
    ] },
    Part { name: "crawlers", words: &["crawler", "crawlers"], most: 28, home: &[
        "paceline/src/exchange/crawlers", "paceline/src/config/parts/crawlers", "paceline/src/request/front/sampling/crawlers",
        "paceline/src/server/control/parts/crawlers",
    ] },
    Part { name: "cluster", words: &["cluster"], most: 45, home: &[
        "cluster/", "paceline/src/cluster", "paceline/src/config/parts/cluster", "paceline/src/server/cluster", "paceline/src/server/control/parts/cluster",
        "paceline/src/cli/asking/cluster",
    ] },
    Part { name: "doctor", words: &["doctor", "shadow"], most: 25, home: &[
        "doctor/", "paceline/src/doctor", "paceline/src/origins/shadow", "paceline/src/cli/doctor", "paceline/src/server/control/parts/doctor",
    ] },
];

impl Part {
    /// Whether a source file outside of its home names it.
    pub fn is_named(&self, file: &str, words: &BTreeSet<String>) -> bool {
        !self.home.iter().any(|home| file.starts_with(home))
            && words.iter().any(|text| self.words.iter().any(|word| format!("_{text}_").contains(&format!("_{word}_"))))
    }
}

/// The identifiers and texts of a source file as `snake_case`, apart from comments and unit tests.
pub fn words(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect(text.parse().expect("sources that the compiler takes"), &mut found);
    found
}

fn collect(tokens: TokenStream, found: &mut BTreeSet<String>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(name) => drop(found.insert(snake_case(&name.to_string()))),
            TokenTree::Literal(literal) => found.extend(literal.to_string().split_whitespace().map(plain)),
            TokenTree::Group(group) => collect(group.stream(), found),
            // `#![doc = "..."]` is a module's.
            TokenTree::Punct(mark) if mark.as_char() == '#' => match next_beyond_mark(&mut tokens) {
                Some(TokenTree::Group(attribute)) if is_of_tests(attribute) => {
                    let is_end = |token: &TokenTree| match token {
                        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                        TokenTree::Punct(mark) => mark.as_char() == ';',
                        _ => false,
                    };
                    tokens.by_ref().find(is_end);
                }
                Some(TokenTree::Group(attribute)) if attribute.stream().to_string().starts_with("doc") => {
                    tokens.next();
                }
                _ => {}
            },
            TokenTree::Punct(_) => {}
        }
    }
}

fn next_beyond_mark(tokens: &mut Peekable<IntoIter>) -> Option<&TokenTree> {
    tokens.next_if(|token| matches!(token, TokenTree::Punct(mark) if mark.as_char() == '!'));
    tokens.peek()
}

fn is_of_tests(attribute: &Group) -> bool {
    attribute.stream().to_string().replace(' ', "") == "cfg(test)"
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && snake.ends_with(|before: char| before.is_ascii_lowercase()) {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

fn plain(text: &str) -> String {
    text.chars().map(|one| if one.is_ascii_alphanumeric() { one.to_ascii_lowercase() } else { '_' }).collect()
}
