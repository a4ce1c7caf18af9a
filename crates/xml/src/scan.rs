//! Finds the first byte of text that may not be written as it is, several at once. Knows which bytes those are, not
//! what is written for them.

/// Bytes that are looked at together.
pub const STEP: usize = 16;

/// How many bytes come before the first that may need something else than to be copied; [`STEP`] if none does.
#[inline(always)]
pub fn plain_prefix<const ATTRIBUTE: bool>(bytes: &[u8; STEP]) -> usize {
    // One bit behind them for none.
    (special_bytes::<ATTRIBUTE>(bytes) | 1 << STEP).trailing_zeros() as usize
}

/// A bit for each byte, the first one lowest, that may need something else than to be copied: `<`, `>` and `&`, control
/// characters (in text but tab and line ends), in attributes `"`; and 0xC2 and 0xEF, which begin U+0080 to U+009F,
/// U+FFFE and U+FFFF.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(unsafe_code)]
// Newer compilers take most of these for safe.
#[allow(unused_unsafe)]
pub fn special_bytes<const ATTRIBUTE: bool>(bytes: &[u8; STEP]) -> u32 {
    use std::arch::x86_64::*;
    // SAFETY: every x86-64 has SSE2, and the load is of exactly the sixteen bytes that are there, at any alignment.
    unsafe {
        let bytes = _mm_loadu_si128(bytes.as_ptr().cast());
        let is = |byte: u8| _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8));
        let is_but_for = |bit: u8, byte: u8| {
            _mm_cmpeq_epi8(_mm_or_si128(bytes, _mm_set1_epi8(bit as i8)), _mm_set1_epi8(byte as i8))
        };
        let control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1F)), bytes);
        // `<` and `>` differ in one bit; so do `&` and `"`.
        let markup = _mm_or_si128(is_but_for(0x02, b'>'), _mm_or_si128(is(0xC2), is(0xEF)));
        let here = if ATTRIBUTE {
            _mm_or_si128(is_but_for(0x04, b'&'), control)
        } else {
            let space = _mm_or_si128(is(b'\t'), _mm_or_si128(is(b'\n'), is(b'\r')));
            _mm_or_si128(is(b'&'), _mm_andnot_si128(space, control))
        };
        _mm_movemask_epi8(_mm_or_si128(markup, here)) as u32
    }
}

/// On machines without SSE2. Here tabs and line ends in text count as special, too.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn special_bytes<const ATTRIBUTE: bool>(bytes: &[u8; STEP]) -> u32 {
    let is_special =
        |byte: u8| matches!(byte, 0..=0x1F | b'&' | b'<' | b'>' | 0xC2 | 0xEF) || ATTRIBUTE && byte == b'"';
    (0..STEP).filter(|at| is_special(bytes[*at])).fold(0, |specials, at| specials | 1 << at)
}

const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);

/// The high bit of each byte of `word` that equals `byte`. Bytes above a hit may be marked wrongly; the lowest never
/// is.
const fn equal(word: u64, byte: u8) -> u64 {
    let difference = word ^ (ONES * byte as u64);
    difference.wrapping_sub(ONES) & !difference & HIGHS
}

/// How many of eight bytes, the first one lowest, come before one that is special; 8 if none is. Stops at tabs and line ends in
/// text, too.
#[inline(always)]
pub fn plain_prefix_of_word<const ATTRIBUTE: bool>(word: u64) -> usize {
    let ampersand = if ATTRIBUTE { equal(word | (ONES * 0x04), b'&') } else { equal(word, b'&') };
    let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
    let hits = equal(word | (ONES * 0x02), b'>') | ampersand | control | equal(word, 0xC2) | equal(word, 0xEF);
    hits.trailing_zeros() as usize / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_special<const ATTRIBUTE: bool>(byte: u8) -> bool {
        match byte {
            b'<' | b'>' | b'&' | 0xC2 | 0xEF => true,
            b'"' => ATTRIBUTE,
            b'\t' | b'\n' | b'\r' => ATTRIBUTE,
            _ => byte < 0x20,
        }
    }

    fn finds_each_byte<const ATTRIBUTE: bool>() {
        for byte in 0..=255 {
            for at in 0..STEP {
                for after in [b' ', b'>', 0xFF] {
                    let mut bytes = [b'a'; STEP];
                    bytes[at] = byte;
                    bytes[at + 1..].fill(after);
                    let first = (at..STEP).find(|at| is_special::<ATTRIBUTE>(bytes[*at])).unwrap_or(STEP);
                    assert_eq!(plain_prefix::<ATTRIBUTE>(&bytes), first, "{bytes:?}");
                }
            }
        }
    }

    #[test]
    fn finds_each_special_byte_at_each_place() {
        finds_each_byte::<false>();
        finds_each_byte::<true>();
    }

    #[test]
    fn finds_them_in_words() {
        for byte in 0..=255 {
            for at in 0..8 {
                let mut bytes = [0xE4; 8];
                bytes[at] = byte;
                let word = u64::from_le_bytes(bytes);
                let found = |special: bool| if special { at } else { 8 };
                let line_end = matches!(byte, b'\t' | b'\n' | b'\r');
                assert_eq!(
                    plain_prefix_of_word::<true>(word),
                    found(is_special::<true>(byte) || line_end),
                    "{byte:#x} at {at}"
                );
                assert_eq!(
                    plain_prefix_of_word::<false>(word),
                    found(is_special::<false>(byte) || line_end),
                    "{byte:#x} at {at}"
                );
            }
        }
    }
}
