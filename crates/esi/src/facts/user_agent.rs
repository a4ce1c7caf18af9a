//! The three things that ESI wants to know of a User-Agent (4.1.1), by the words of 2001. It never tries to tell
//! today's browsers apart: all of them say Mozilla/5.0.

/// MSIE, MOZILLA or OTHER.
pub(super) fn browser(agent: &[u8]) -> &'static [u8] {
    if agent.is_empty() {
        b""
    } else if after(agent, b"MSIE ").is_some() || after(agent, b"Trident/").is_some() {
        b"MSIE"
    } else if agent.starts_with(b"Mozilla/") {
        b"MOZILLA"
    } else {
        b"OTHER"
    }
}

/// The number after the browser's name, or nothing.
pub(super) fn version(agent: &[u8]) -> &[u8] {
    let text = after(agent, b"MSIE ")
        .or_else(|| after(agent, b"Trident/").and_then(|_| after(agent, b"rv:")))
        .or_else(|| agent.strip_prefix(b"Mozilla/"))
        .or_else(|| after(agent, b"/"))
        .unwrap_or_default();
    let end = text.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'.').unwrap_or(text.len());
    &text[..end]
}

/// WIN, MAC, UNIX or OTHER.
pub(super) fn os(agent: &[u8]) -> &'static [u8] {
    let has = |word: &[u8]| after(agent, word).is_some();
    if agent.is_empty() {
        b""
    } else if has(b"Windows") {
        b"WIN"
    } else if has(b"Mac") {
        b"MAC"
    } else if has(b"Linux") || has(b"X11") || has(b"BSD") || has(b"SunOS") {
        b"UNIX"
    } else {
        b"OTHER"
    }
}

/// What follows a word.
fn after<'a>(text: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    let at = text.windows(word.len()).position(|window| window == word)?;
    Some(&text[at + word.len()..])
}
