//! Cuts a text into words, spaces and single signs, so that a token, a time or a number is one piece whatever its
//! length. The pieces cover the text without a gap. It never understands markup.

/// A piece of a text: where it starts, and a digest of its bytes. It ends where the next one starts.
#[derive(Debug, Clone, Copy)]
struct Piece {
    start: u32,
    hash: u32,
}

/// A text in pieces. 8 bytes for each of them.
pub(super) struct Tokens<'a> {
    text: &'a [u8],
    pieces: Vec<Piece>,
}

impl<'a> Tokens<'a> {
    /// Of at most 4 GB.
    pub(super) fn new(text: &'a [u8]) -> Tokens<'a> {
        let text = &text[..text.len().min(u32::MAX as usize)];
        let mut pieces = Vec::with_capacity(text.len() / 4);
        let mut start = 0;
        while start < text.len() {
            let end = end_of_piece(text, start);
            pieces.push(Piece { start: start as u32, hash: digest(&text[start..end]) as u32 });
            start = end;
        }
        Tokens { text, pieces }
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    pub(super) fn get(&self, index: usize) -> &'a [u8] {
        &self.text[self.offset(index)..self.offset(index + 1)]
    }

    pub(super) fn hash(&self, index: usize) -> u32 {
        self.pieces[index].hash
    }

    /// In bytes; of the index behind the last one: the text's end.
    pub(super) fn offset(&self, index: usize) -> usize {
        self.pieces.get(index).map_or(self.text.len(), |piece| piece.start as usize)
    }

    pub(super) fn bytes(&self, from: usize, to: usize) -> &'a [u8] {
        &self.text[self.offset(from)..self.offset(to)]
    }

    pub(super) fn text(&self) -> &'a [u8] {
        self.text
    }

    /// By their bytes: two digests can be equal by chance.
    pub(super) fn is_same(&self, index: usize, other: &Tokens, at: usize) -> bool {
        self.pieces[index].hash == other.pieces[at].hash && self.get(index) == other.get(at)
    }
}

/// So many bytes are looked at to tell base64 from words.
const LOOKED_AT: usize = 100;
/// Shorter runs are not taken for base64.
const SHORTEST_BASE64: usize = 16;

fn end_of_piece(text: &[u8], start: usize) -> usize {
    let first = text[start];
    if first.is_ascii_whitespace() {
        return start + text[start..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    }
    if is_base64(text, start) {
        let run = text[start..].iter().take_while(|byte| is_of_base64(**byte)).count();
        let padding = text[start + run..].iter().take(2).take_while(|byte| **byte == b'=').count();
        return start + run + padding;
    }
    if !is_word(first) {
        return start + 1;
    }
    let mut end = start + 1;
    while end < text.len() {
        let (byte, before, next) = (text[end], text[end - 1], text.get(end + 1).copied().unwrap_or(b' '));
        let belongs = match byte {
            _ if is_word(byte) => true,
            b'-' | b'~' => true,
            b'.' | b'+' => is_word(next),
            b':' => before.is_ascii_digit() && next.is_ascii_digit(),
            b'=' => !is_word(next),
            _ => false,
        };
        if !belongs {
            break;
        }
        end += 1;
    }
    end
}

/// Random bytes in base64 change between small and capital letters and figures all the time, unlike paths and names.
fn is_base64(text: &[u8], start: usize) -> bool {
    if !is_of_base64(text[start]) || start > 0 && is_of_base64(text[start - 1]) {
        return false;
    }
    let run = text[start..].iter().take(LOOKED_AT).take_while(|byte| is_of_base64(**byte)).count();
    let run = &text[start..start + run];
    let changes = run.windows(2).filter(|pair| is_capital(pair[0]) != is_capital(pair[1])).count();
    let has_figures = run.iter().any(u8::is_ascii_digit);
    run.len() >= SHORTEST_BASE64 && (changes * 4 >= run.len() || has_figures && changes > 1)
}

fn is_capital(byte: u8) -> bool {
    byte.is_ascii_uppercase()
}

fn is_of_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Whether a piece looks as if it changes from one answer to the next: it has a digit, or is longer than words are.
pub(super) fn is_volatile(piece: &[u8]) -> bool {
    is_value(piece) && (piece.len() >= 20 || piece.iter().any(u8::is_ascii_digit))
}

/// Whether a piece is a word or a value, rather than a sign or a space.
pub(super) fn is_value(piece: &[u8]) -> bool {
    is_word(piece[0]) || piece.len() > 1 && !piece[0].is_ascii_whitespace()
}

/// FNV-1a, 64 bits.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<&str> {
        let tokens = Tokens::new(text.as_bytes());
        (0..tokens.len()).map(|index| std::str::from_utf8(tokens.get(index)).unwrap()).collect()
    }

    #[test]
    fn a_value_is_one_piece() {
        for (text, expected) in [
            ("<p>a b</p>", &["<", "p", ">", "a", " ", "b", "<", "/", "p", ">"][..]),
            ("v=\"+q1/ZzRt0pLkMwX9aB==\"", &["v=", "\"", "+q1/ZzRt0pLkMwX9aB==", "\""][..]),
            ("/admin/brewery/beers", &["/", "admin", "/", "brewery", "/", "beers"][..]),
            ("token=abc&x=1", &["token", "=", "abc", "&", "x", "=", "1"][..]),
            ("/beers/42/edit", &["/", "beers", "/", "42", "/", "edit"][..]),
            ("at 12:03:04.", &["at", " ", "12:03:04", "."][..]),
            ("2026-11-24T12:03:04Z", &["2026-11-24T12:03:04Z"][..]),
            ("3.14  grün\n\t", &["3.14", "  ", "grün", "\n\t"][..]),
            ("{\"a\":1}", &["{", "\"", "a", "\"", ":", "1", "}"][..]),
            ("", &[][..]),
        ] {
            assert_eq!(pieces(text), expected);
        }
    }

    #[test]
    fn pieces_cover_any_bytes() {
        let bytes: Vec<u8> = (0..=255).cycle().take(2000).collect();
        let tokens = Tokens::new(&bytes);
        let joined: Vec<u8> = (0..tokens.len()).flat_map(|index| tokens.get(index).to_vec()).collect();
        assert_eq!(joined, bytes);
        assert!(tokens.is_same(0, &tokens, 0) && !tokens.is_same(0, &tokens, 1));
    }

    #[test]
    fn values_look_volatile_and_words_do_not() {
        for (piece, expected) in
            [("42", true), ("minutes", false), ("aGVsbG8gd29ybGQgYWJjZGVm", true), ("<", false), (" ", false)]
        {
            assert_eq!(is_volatile(piece.as_bytes()), expected, "{piece}");
        }
    }
}
