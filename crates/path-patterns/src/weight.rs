//! What the patterns of an account may cost all who share a server with it.

/// What the patterns of one file of an account may weigh together, in bytes.
pub const MAX_WEIGHT: usize = 32 << 10;

/// A text between two stars is looked for in the whole of a path.
const INNER: usize = 1 << 10;

/// The weight of a pattern: its bytes, and 1 KB for each text between two stars.
pub fn weight(pattern: &str) -> usize {
    let inner = pattern.split('*').skip(1).filter(|part| !part.is_empty()).count();
    let ends_with_star = pattern.ends_with('*');
    let inner = if ends_with_star { inner } else { inner.saturating_sub(1) };
    pattern.len() + INNER * inner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_between_stars_is_dear() {
        for (pattern, inner) in
            [("/a", 0), ("/a/*", 0), ("*.css", 0), ("/a*z", 0), ("/*/edit/*", 1), ("*a*b*c", 2), ("**", 0)]
        {
            assert_eq!(weight(pattern), pattern.len() + inner * INNER, "{pattern}");
        }
    }
}
