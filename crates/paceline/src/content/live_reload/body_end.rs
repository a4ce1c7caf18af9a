//! Where a page's `</body>` is, as the page comes in pieces. What looks like it in a comment, an attribute, a script or
//! another element without markup is passed over. It never keeps bytes: it says up to where they are done with.

/// What a search has come to.
#[derive(Debug, PartialEq, Eq)]
pub enum BodyEndPlace {
    /// `</body>` begins here.
    At(usize),
    /// It is not before here. From here on more bytes are needed to tell.
    NotBefore(usize),
}

/// Elements whose content is text up to their own end tag.
const RAW: [(&[u8], &[u8]); 7] = [
    (b"<script", b"</script"),
    (b"<style", b"</style"),
    (b"<textarea", b"</textarea"),
    (b"<title", b"</title"),
    (b"<iframe", b"</iframe"),
    (b"<xmp", b"</xmp"),
    (b"<noembed", b"</noembed"),
];
const BODY_END: &[u8] = b"</body";
const COMMENT: &[u8] = b"<!--";

#[derive(Debug, Default, Clone, Copy)]
enum Place {
    #[default]
    Markup,
    Comment,
    /// In a tag. What follows it is raw until this.
    Tag(TagPart, Option<&'static [u8]>),
    /// Until this.
    Raw(&'static [u8]),
}

/// Where in a tag: what a quotation mark means depends on it (HTML, section 13.2.5).
#[derive(Debug, Clone, Copy)]
enum TagPart {
    Names,
    /// After `=`.
    BeforeValue,
    Unquoted,
    /// Until this mark.
    Quoted(u8),
}

/// A search through a page.
#[derive(Debug, Default)]
pub struct BodyEnd(Place);

impl BodyEnd {
    /// Looks through the next bytes, which begin with those that the search was not done with. `is_last`: no more come.
    pub fn look(&mut self, bytes: &[u8], is_last: bool) -> BodyEndPlace {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            if let Place::Comment = self.0 {
                match rest.windows(3).position(|three| three == b"-->") {
                    Some(end) => {
                        self.0 = Place::Markup;
                        at += end + 3;
                    }
                    None => return BodyEndPlace::NotBefore(at + rest.len().saturating_sub(2)),
                }
                continue;
            }
            if let Place::Tag(part, raw) = &mut self.0 {
                let (end, raw) = (end_of_tag(part, rest), *raw);
                let Some(end) = end else { return BodyEndPlace::NotBefore(bytes.len()) };
                self.0 = raw.map_or(Place::Markup, Place::Raw);
                at += end + 1;
                continue;
            }
            let Some(tag) = rest.iter().position(|byte| *byte == b'<') else {
                return BodyEndPlace::NotBefore(bytes.len());
            };
            at += tag;
            let rest = &bytes[at..];
            if !is_last && self.may_begin(rest) {
                return BodyEndPlace::NotBefore(at);
            }
            match self.0 {
                Place::Raw(end) if is_tag(rest, end) => self.0 = Place::Tag(TagPart::Names, None),
                Place::Raw(_) => {}
                _ if is_tag(rest, BODY_END) => return BodyEndPlace::At(at),
                _ if rest.starts_with(COMMENT) => {
                    self.0 = Place::Comment;
                    // `<!-->` is a whole comment.
                    at += 1;
                }
                _ if begins_tag(rest) => {
                    let raw = RAW.iter().find(|(start, _)| is_tag(rest, start));
                    self.0 = Place::Tag(TagPart::Names, raw.map(|(_, end)| *end));
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Whether these bytes are the beginning of what is looked for, and what comes after them decides.
    fn may_begin(&self, bytes: &[u8]) -> bool {
        let begins = |tag: &[u8]| tag.get(..bytes.len()).is_some_and(|start| start.eq_ignore_ascii_case(bytes));
        match self.0 {
            Place::Raw(end) => begins(end),
            _ => begins(BODY_END) || begins(COMMENT) || RAW.iter().any(|(start, _)| begins(start)),
        }
    }
}

/// Whether `<` begins a tag here, and is not just text.
fn begins_tag(bytes: &[u8]) -> bool {
    let name = bytes.strip_prefix(b"</").or_else(|| bytes.strip_prefix(b"<")).unwrap_or_default();
    name.first().is_some_and(u8::is_ascii_alphabetic)
}

/// Where the `>` is that ends the tag; `part` is where in the tag the bytes begin, and then where they end.
fn end_of_tag(part: &mut TagPart, bytes: &[u8]) -> Option<usize> {
    for (at, byte) in bytes.iter().enumerate() {
        *part = match (*part, byte) {
            (TagPart::Quoted(mark), byte) if mark == *byte => TagPart::Names,
            (TagPart::Quoted(mark), _) => TagPart::Quoted(mark),
            (_, b'>') => return Some(at),
            (TagPart::BeforeValue, b'"' | b'\'') => TagPart::Quoted(*byte),
            (TagPart::BeforeValue, byte) if byte.is_ascii_whitespace() => TagPart::BeforeValue,
            (TagPart::Unquoted, byte) if byte.is_ascii_whitespace() => TagPart::Names,
            (TagPart::BeforeValue | TagPart::Unquoted, _) => TagPart::Unquoted,
            (TagPart::Names, b'=') => TagPart::BeforeValue,
            (TagPart::Names, _) => TagPart::Names,
        };
    }
    None
}

/// Whether a tag of this name begins here.
fn is_tag(bytes: &[u8], tag: &[u8]) -> bool {
    let Some((name, after)) = bytes.split_at_checked(tag.len()) else { return false };
    let ends = after.first().is_none_or(|byte| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/'));
    name.eq_ignore_ascii_case(tag) && ends
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where it is found in pieces of this size.
    fn found(page: &str, size: usize) -> Option<usize> {
        let (mut search, mut done, mut held) = (BodyEnd::default(), 0, Vec::new());
        let pieces: Vec<&[u8]> = page.as_bytes().chunks(size).collect();
        for (number, piece) in pieces.iter().enumerate() {
            held.extend_from_slice(piece);
            match search.look(&held, number + 1 == pieces.len()) {
                BodyEndPlace::At(at) => return Some(done + at),
                BodyEndPlace::NotBefore(at) => {
                    done += at;
                    held.drain(..at);
                    assert!(held.len() <= 10, "{} bytes are held back", held.len());
                }
            }
        }
        None
    }

    #[test]
    fn it_is_found_however_the_page_is_cut() {
        for (page, at) in [
            ("<body><p>hello</p></body></html>", Some(18)),
            ("<p>hello</BODY\n>", Some(8)),
            ("<p>hello</body", Some(8)),
            ("<p>hello</bodyguard></body>", Some(20)),
            ("<p>hello", None),
            ("", None),
            ("<!-- </body> --></body>", Some(16)),
            ("<!--></body>", Some(5)),
            ("<!-- </body>", None),
            ("<script>x = '</body>'</script></body>", Some(30)),
            ("<SCRIPT src=x></SCRIPT ></body>", Some(24)),
            ("<script>'<!-- </body>'</script>", None),
            ("<style>/* </body> */</style><textarea></body></textarea><title></body></title></body>", Some(78)),
            ("<scripture></body>", Some(11)),
            ("a < b <</body>", Some(7)),
            ("<p title=\"</body>\"></body>", Some(19)),
            ("<p title = '> </body>' x></body>", Some(25)),
            ("<p title=it's></body>", Some(14)),
            ("<p \"></body>", Some(5)),
            ("<a href=/a/></a></body>", Some(16)),
            ("<script src=\"a>b</body>\">'</body>'</script x='</body>'></body>", Some(55)),
            ("<p title=\"</body>", None),
        ] {
            for size in 1..=page.len().max(1) {
                assert_eq!(found(page, size), at, "{page} in pieces of {size}");
            }
        }
    }
}
