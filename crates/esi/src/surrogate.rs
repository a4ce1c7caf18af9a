//! Who processes ESI: Surrogate-Capability offers it, Surrogate-Control asks for it (W3C Note "Edge Architecture
//! Specification", sections 2 and 3). It never reads the directives about caching.

/// The value of `Surrogate-Capability` in requests to the application; behind other surrogates it is appended to
/// theirs. Inline elements stay in the page, so `ESI-Inline/1.0` is not offered.
pub const SURROGATE_CAPABILITY: &str = "paceline=\"Surrogate/1.0 ESI/1.0\"";

/// The name by which directives are meant for this surrogate alone: `content="ESI/1.0";paceline`.
const DEVICE: &str = "paceline";

/// Whether a response's `Surrogate-Control` (lines joined by commas) asks this surrogate to process it as ESI 1.0: its
/// `content` lists the token `ESI/1.0`. A directive for this device overrides one for all (section 2.3), and one for
/// another device is none.
pub fn asks_for_esi(surrogate_control: &str) -> bool {
    let (mut for_all, mut for_us) = (None, None);
    for directive in split_unquoted(surrogate_control, ',') {
        let mut parts = split_unquoted(directive, ';');
        let Some((name, value)) = parts.next().and_then(|part| part.split_once('=')) else { continue };
        if !name.trim().eq_ignore_ascii_case("content") {
            continue;
        }
        let asked = value.trim().trim_matches('"').split_ascii_whitespace().any(|token| token == "ESI/1.0");
        match parts.next().map(str::trim) {
            None => for_all = Some(for_all.unwrap_or(false) || asked),
            Some(DEVICE) => for_us = Some(for_us.unwrap_or(false) || asked),
            Some(_) => {}
        }
    }
    for_us.or(for_all).unwrap_or(false)
}

/// Splits where a separator stands outside of double quotes.
fn split_unquoted(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |character| {
        quoted ^= character == '"';
        character == separator && !quoted
    })
}

#[cfg(test)]
mod tests {
    use super::asks_for_esi;

    #[test]
    fn content_lists_the_token() {
        let cases = [
            ("content=\"ESI/1.0\"", true),
            ("max-age=600, content=\"ESI/1.0\"", true),
            ("no-store,content=\"ESI-Inline/1.0 ESI/1.0\",max-age=1+2", true),
            ("Content = \"ESI/1.0\"", true),
            ("content=ESI/1.0", true),
            ("content=\"ESI/1.0\";paceline", true),
            ("content=\"ESI/1.0\"; paceline", true),
            ("", false),
            ("content", false),
            ("max-age=600", false),
            ("content=\"\"", false),
            ("content=\"ESI/1.1\"", false),
            ("content=\"ESI/1.00\"", false),
            ("content=\"esi/1.0\"", false),
            ("content=\"XESI/1.0\"", false),
            ("content=\"ESI-Inline/1.0\"", false),
            ("x=\"content=ESI/1.0\"", false),
            ("x=\"a, content=ESI/1.0\"", false),
            ("content=\"a;b ESI/1.0\"", true),
            ("content=\"ESI/1.0\";akamai", false),
            ("content=\"ESI/1.0\";Paceline", false),
            // Whom it is meant for overrides
            ("content=\"ESI/1.0\", content=\"\";paceline", false),
            ("content=\"\", content=\"ESI/1.0\";paceline", true),
            ("content=\"ESI/1.0\", content=\"\";akamai", true),
        ];
        for (field, expected) in cases {
            assert_eq!(asks_for_esi(field), expected, "{field}");
        }
    }
}
