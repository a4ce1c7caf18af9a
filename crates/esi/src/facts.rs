//! What variables are about: the client's request (4). It only looks things up and never decides what they are used
//! for.

mod user_agent;

use std::borrow::Cow;

use bytes::Bytes;

/// The parts of a client's request that ESI has variables for, as they came; empty where the request has none.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Accept-Language; lines joined by a comma.
    pub accept_language: Bytes,
    /// Cookie; lines joined by a semicolon.
    pub cookie: Bytes,
    pub host: Bytes,
    pub referer: Bytes,
    pub user_agent: Bytes,
    /// What stands after the target's `?`.
    pub query: Bytes,
    pub path: Bytes,
}

impl Facts {
    /// Whether a language tag is among those of Accept-Language (4.1.2), and not as one that the client will not have
    /// (`q=0`). Language tags have no case (RFC 5646 section 2.1.1).
    pub(crate) fn accepts_language(&self, tag: &[u8]) -> bool {
        self.accept_language.split(|byte| *byte == b',').any(|member| {
            let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            parts.next().is_some_and(|language| language.eq_ignore_ascii_case(tag)) && !parts.any(is_refusal)
        })
    }

    /// A cookie's value, untouched (RFC 6265: what it means is the application's business). Of several the first, as
    /// Rack has it.
    pub(crate) fn cookie_named(&self, name: &[u8]) -> &[u8] {
        let pairs = self.cookie.split(|byte| *byte == b';').filter_map(|pair| split_once(pair, b'='));
        pairs
            .map(|(key, value)| (key.trim_ascii(), value.trim_ascii()))
            .find(|(key, _)| *key == name)
            .map_or(b"", |(_, value)| value)
    }

    /// A parameter's value, decoded. Of several the last, as Rack has it.
    pub(crate) fn query_parameter(&self, name: &[u8]) -> Cow<'_, [u8]> {
        let mut found: &[u8] = b"";
        for pair in self.query.split(|byte| *byte == b'&') {
            let (key, value) = split_once(pair, b'=').unwrap_or((pair, b""));
            if *decoded(key) == *name {
                found = value;
            }
        }
        decoded(found)
    }

    pub(crate) fn of_user_agent(&self, key: &[u8]) -> &[u8] {
        match key {
            b"browser" => user_agent::browser(&self.user_agent),
            b"version" => user_agent::version(&self.user_agent),
            b"os" => user_agent::os(&self.user_agent),
            _ => b"",
        }
    }
}

/// `q=0`, `q=0.000`.
fn is_refusal(parameter: &[u8]) -> bool {
    split_once(parameter, b'=').is_some_and(|(name, weight)| {
        let weight = weight.trim_ascii();
        name.trim_ascii().eq_ignore_ascii_case(b"q")
            && weight.starts_with(b"0")
            && weight.iter().all(|byte| matches!(byte, b'0' | b'.'))
    })
}

fn split_once(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let index = text.iter().position(|byte| *byte == at)?;
    Some((&text[..index], &text[index + 1..]))
}

/// A name or value of a query as forms encode it. What is not encoded right stays as it is.
fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Cow::Borrowed(text);
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).filter(|digits| *first == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let byte = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        plain.push(byte.unwrap_or(if *first == b'+' { b' ' } else { *first }));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests;
