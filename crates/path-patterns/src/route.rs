//! Which requests belong together: a route is the method and the shape of the path. The server's queue and log go by the
//! same rule. Never looks at the query.

/// Segments of a path that tell a route.
pub const SEGMENTS: usize = 6;
/// Letters of a route's name, about.
pub const LONGEST_LABEL: usize = 80;

/// A route as people read it, like `GET /beers/*`.
pub fn label(method: &str, path: &str) -> String {
    let mut text = format!("{method} ");
    let start = text.len();
    for (nth, segment) in path.split('/').enumerate() {
        if nth > 0 {
            text.push('/');
        }
        if nth > SEGMENTS || text.len() > LONGEST_LABEL {
            text.push('…');
            break;
        }
        let shown = if is_id(segment) { "*" } else { segment };
        text.extend(shown.chars().filter(|letter| !letter.is_control()).take(LONGEST_LABEL));
    }
    if text.len() == start {
        text.push('/');
    }
    text
}

/// A number, a UUID, a digest, a token: what differs between two requests of one route.
#[inline]
pub fn is_id(segment: &str) -> bool {
    let digits = segment.bytes().filter(u8::is_ascii_digit).count();
    let is_hex = || segment.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    digits > 0 && (digits == segment.len() || segment.len() >= 8 && is_hex()) || segment.len() > 40
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_do_not_make_a_route() {
        for (path, name) in [
            ("/", "GET /"),
            ("", "GET /"),
            ("/beers", "GET /beers"),
            ("/beers/42", "GET /beers/*"),
            ("/beers/42.json", "GET /beers/42.json"),
            ("/beers/42/edit", "GET /beers/*/edit"),
            ("/o/7f9c2ba4-e88f-4d3f-9a1b-000000000001", "GET /o/*"),
            ("/facade", "GET /facade"),
            ("/v1/beers", "GET /v1/beers"),
            ("/a/b/c/d/e/f/g/h", "GET /a/b/c/d/e/f/…"),
        ] {
            assert_eq!(label("GET", path), name);
        }
        assert!(label("GET", &"/worthless".repeat(100)).len() < 2 * LONGEST_LABEL);
        assert!(label("GET", &"x".repeat(5000)).len() < 2 * LONGEST_LABEL);
    }
}
