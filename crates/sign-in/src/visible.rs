//! Characters that nobody sees in a name, or that show it otherwise than it is. It decides nothing else of names.

use std::ops::RangeInclusive;

/// Ranges of Unicode 16: what turns the direction of text, has no width, is a space of another kind, changes the character before it
/// without being seen, or means nothing outside of one program.
const HIDDEN: [RangeInclusive<char>; 29] = [
    '\u{a0}'..='\u{a0}',
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{600}'..='\u{605}',
    '\u{61c}'..='\u{61c}',
    '\u{6dd}'..='\u{6dd}',
    '\u{70f}'..='\u{70f}',
    '\u{890}'..='\u{891}',
    '\u{8e2}'..='\u{8e2}',
    '\u{115f}'..='\u{1160}',
    '\u{1680}'..='\u{1680}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    '\u{2000}'..='\u{200f}',
    '\u{2028}'..='\u{202f}',
    '\u{205f}'..='\u{206f}',
    '\u{2800}'..='\u{2800}',
    '\u{3000}'..='\u{3000}',
    '\u{3164}'..='\u{3164}',
    '\u{e000}'..='\u{f8ff}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{ffff}',
    '\u{110bd}'..='\u{110cd}',
    '\u{13430}'..='\u{1345f}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{10ffff}',
];

/// Whether all of a name is seen as it is: two that look alike to somebody who reads a log or a list are not told apart by what
/// has no shape.
pub fn is_visible(name: &str) -> bool {
    let is_hidden = |letter: char| letter.is_control() || HIDDEN.iter().any(|range| range.contains(&letter));
    name.is_ascii() && !name.bytes().any(|byte| byte.is_ascii_control()) || !name.chars().any(is_hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_people_are_seen() {
        for name in ["alice", "Zoë Müller", "O'Brien", "王小明", "Олег", "محمد", "a.b@example.com", "José", ""]
        {
            assert!(is_visible(name), "{name}");
        }
    }

    #[test]
    fn what_nobody_sees_is_in_no_name() {
        for hidden in [
            '\0',
            '\u{7f}',
            '\u{85}',
            '\u{200b}',
            '\u{200d}',
            '\u{200e}',
            '\u{202a}',
            '\u{202e}',
            '\u{2066}',
            '\u{2069}',
            '\u{61c}',
            '\u{2060}',
            '\u{2028}',
            '\u{feff}',
            '\u{ad}',
            '\u{a0}',
            '\u{3000}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{e0041}',
            '\u{e000}',
            '\u{ffff}',
            '\u{180e}',
        ] {
            assert!(!is_visible(&format!("ali{hidden}ce")), "{:x}", u32::from(hidden));
        }
    }
}
