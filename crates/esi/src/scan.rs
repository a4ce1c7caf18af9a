//! Finds tags, comments' ends and variables in bytes that come in any pieces; all else is text. It holds back no more
//! than the construct that is not complete yet, looks at each byte a bounded number of times, and knows nothing of
//! elements but `remove`.

use bytes::{Buf, Bytes};

use crate::{
    variable::{Scan, Step},
    Error, ErrorKind,
};

#[derive(Debug)]
pub(crate) enum Token {
    Text(Bytes),
    /// A whole tag, from `<` to `>`, and the bytes before it.
    Tag(Bytes, u64),
    /// A whole reference, and the bytes before it.
    Variable(Bytes, u64),
}

#[derive(Debug)]
pub(crate) struct Scanner {
    state: State,
    /// What began and may become a construct.
    held: Vec<u8>,
    /// Where `held` begins in the document.
    held_at: u64,
    /// Bytes of the document before what is given next.
    consumed: u64,
    /// `<!--esi` that are open (3.8).
    escapes: u32,
    /// What comes after the text that was given out last.
    ready: Option<Result<Token, Error>>,
    longest: usize,
    /// The beginning of a tag that was too long.
    too_long: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Text,
    /// Within one of `OPENINGS`.
    Opening,
    /// Behind `<!--esi`: a letter would make it another comment.
    EscapeOpened,
    Dashes,
    Variable(Scan),
    Tag {
        quote: Option<u8>,
        after_equals: bool,
    },
    /// Within `remove`, whose content is no markup to us (3.6: it cannot include ESI).
    Removed,
}

const OPENINGS: [&[u8]; 3] = [b"<esi:", b"</esi:", b"<!--esi"];
const REMOVED_UNTIL: &[u8] = b"</esi:remove";

/// What a byte makes of what is held.
enum ScanStep {
    More,
    Nothing,
    /// The first byte held is text; the rest and this byte may still be a construct.
    Shift,
    /// A construct that ends before this byte.
    Before,
    /// A construct that ends with this byte.
    Construct(Option<Token>),
    /// A tag that goes on beyond the limit.
    TooLong,
}

impl Scanner {
    pub(crate) fn new(longest: usize) -> Scanner {
        let (state, held) = (State::Text, Vec::new());
        Scanner { state, held, held_at: 0, consumed: 0, escapes: 0, ready: None, longest, too_long: Vec::new() }
    }

    /// From here on all is thrown away until `remove` closes.
    pub(crate) fn remove(&mut self) {
        self.state = State::Removed;
        self.held_at = self.consumed;
    }

    /// The next token of the chunk, which is taken from it; None when all of it is taken. Variables are looked for if
    /// `vars`.
    pub(crate) fn next(&mut self, chunk: &mut Bytes, vars: bool) -> Result<Option<Token>, Error> {
        while self.ready.is_none() && !chunk.is_empty() {
            if let Some(token) = self.advance(chunk, vars)? {
                return Ok(Some(token));
            }
        }
        self.ready.take().transpose()
    }

    /// As far as the next construct or the end of the chunk.
    fn advance(&mut self, chunk: &mut Bytes, vars: bool) -> Result<Option<Token>, Error> {
        let mut at = 0;
        // Where what is held begins in this chunk; none if it began in one before.
        let mut from: Option<usize> = None;
        while at < chunk.len() {
            let byte = chunk[at];
            if let State::Text = self.state {
                let begins = |byte: &u8| match byte {
                    b'<' => true,
                    b'-' => self.escapes > 0,
                    b'$' => vars,
                    _ => false,
                };
                let Some(skipped) = chunk[at..].iter().position(begins) else {
                    at = chunk.len();
                    break;
                };
                at += skipped;
                self.begin(chunk[at], self.consumed + at as u64);
                from = Some(at);
                at += 1;
                continue;
            }
            match self.step(byte) {
                ScanStep::More => at += 1,
                ScanStep::Nothing => {
                    self.state = State::Text;
                    if from.take().is_some() {
                        self.held.clear();
                    } else {
                        self.take(chunk, at);
                        return Ok(Some(Token::Text(std::mem::take(&mut self.held).into())));
                    }
                }
                ScanStep::Shift => {
                    at += 1;
                    match &mut from {
                        Some(from) => *from += 1,
                        None => {
                            self.take(chunk, at);
                            return Ok(Some(Token::Text(Bytes::from_static(b"-"))));
                        }
                    }
                }
                ScanStep::Before => return self.construct(chunk, from, at, None).transpose(),
                ScanStep::Construct(token) => return self.construct(chunk, from, at + 1, token.map(Ok)).transpose(),
                ScanStep::TooLong => {
                    let error = Error { kind: ErrorKind::TagTooLong { limit: self.longest }, at: self.held_at };
                    self.too_long = std::mem::take(&mut self.held);
                    return self.construct(chunk, from, at, Some(Err(error))).transpose();
                }
            }
        }
        let text = match self.state {
            State::Text => chunk.clone(),
            _ => chunk.slice(..from.unwrap_or(0)),
        };
        self.take(chunk, at);
        Ok((!text.is_empty()).then_some(Token::Text(text)))
    }

    /// Takes the chunk up to the construct's end. The text before it comes first.
    fn construct(
        &mut self,
        chunk: &mut Bytes,
        from: Option<usize>,
        end: usize,
        found: Option<Result<Token, Error>>,
    ) -> Option<Result<Token, Error>> {
        let text = chunk.slice(..from.unwrap_or(0));
        self.take(chunk, end);
        self.held.clear();
        self.state = State::Text;
        if text.is_empty() {
            return found;
        }
        self.ready = found;
        Some(Ok(Token::Text(text)))
    }

    fn take(&mut self, chunk: &mut Bytes, length: usize) {
        chunk.advance(length);
        self.consumed += length as u64;
    }

    fn begin(&mut self, byte: u8, at: u64) {
        self.held.push(byte);
        self.held_at = at;
        self.state = match byte {
            b'<' => State::Opening,
            b'-' => State::Dashes,
            _ => {
                let mut scan = Scan::default();
                scan.step(byte);
                State::Variable(scan)
            }
        };
    }

    fn step(&mut self, byte: u8) -> ScanStep {
        let length = self.held.len();
        match &mut self.state {
            State::Text => return ScanStep::Nothing,
            State::Opening => {
                let fits = |opening: &&[u8]| opening.get(length) == Some(&byte) && opening.starts_with(&self.held);
                if !OPENINGS.iter().any(fits) {
                    return ScanStep::Nothing;
                }
                self.held.push(byte);
                if byte == b':' {
                    self.state = State::Tag { quote: None, after_equals: false };
                } else if self.held == OPENINGS[2] {
                    self.state = State::EscapeOpened;
                }
            }
            State::EscapeOpened => {
                if byte.is_ascii_alphanumeric() {
                    return ScanStep::Nothing;
                }
                self.escapes = self.escapes.saturating_add(1);
                return ScanStep::Before;
            }
            State::Dashes => match (length, byte) {
                (1, b'-') => self.held.push(byte),
                (2, b'-') => return ScanStep::Shift,
                (2, b'>') => {
                    self.escapes = self.escapes.saturating_sub(1);
                    return ScanStep::Construct(None);
                }
                _ => return ScanStep::Nothing,
            },
            State::Variable(scan) => match scan.step(byte) {
                Step::No => return ScanStep::Nothing,
                _ if length >= self.longest => return ScanStep::Nothing,
                Step::More => self.held.push(byte),
                Step::Done => {
                    self.held.push(byte);
                    let reference = Bytes::copy_from_slice(&self.held);
                    return ScanStep::Construct(Some(Token::Variable(reference, self.held_at)));
                }
            },
            State::Tag { quote, after_equals } => {
                if length >= self.longest {
                    return ScanStep::TooLong;
                }
                self.held.push(byte);
                match (*quote, byte) {
                    (Some(open), byte) if open == byte => *quote = None,
                    (Some(_), _) => {}
                    (None, b'>') => {
                        let tag = Bytes::copy_from_slice(&self.held);
                        return ScanStep::Construct(Some(Token::Tag(tag, self.held_at)));
                    }
                    (None, b'"' | b'\'') if *after_equals => *quote = Some(byte),
                    (None, _) => *after_equals = byte == b'=' || *after_equals && byte.is_ascii_whitespace(),
                }
            }
            State::Removed => return self.step_removed(byte),
        }
        ScanStep::More
    }

    /// Looks for the end of a removed element, of which `held` is what has matched.
    fn step_removed(&mut self, byte: u8) -> ScanStep {
        let length = self.held.len();
        if length < REMOVED_UNTIL.len() {
            if byte != REMOVED_UNTIL[length] {
                self.held.clear();
            }
            if byte == REMOVED_UNTIL[self.held.len()] {
                self.held.push(byte);
            }
        } else if byte == b'>' {
            return ScanStep::Construct(None);
        } else if !byte.is_ascii_whitespace() {
            self.held.clear();
        }
        ScanStep::More
    }

    /// The document is complete: what may no longer become a construct is text.
    pub(crate) fn finish(&mut self) -> Result<Option<Bytes>, Error> {
        let unclosed = match self.state {
            State::Tag { .. } => "a tag",
            State::Removed => "<esi:remove>",
            _ => {
                self.state = State::Text;
                let text = std::mem::take(&mut self.held);
                return Ok((!text.is_empty()).then(|| text.into()));
            }
        };
        Err(Error { kind: ErrorKind::Unclosed(unclosed), at: self.held_at })
    }

    /// Whether a `<!--esi` is open.
    pub(crate) fn is_escaped(&self) -> bool {
        self.escapes > 0
    }

    /// Where the next byte stands in the document.
    pub(crate) fn position(&self) -> u64 {
        self.consumed
    }

    /// What was taken of chunks and not given out.
    pub(crate) fn take_held(&mut self) -> Vec<Bytes> {
        let ready = self.ready.take().and_then(Result::ok).map(Token::into_source);
        let held = [std::mem::take(&mut self.too_long), std::mem::take(&mut self.held)].map(Bytes::from);
        ready.into_iter().chain(held).filter(|bytes| !bytes.is_empty()).collect()
    }
}

impl Token {
    /// The bytes of the document that it is.
    pub(crate) fn into_source(self) -> Bytes {
        match self {
            Token::Text(text) | Token::Tag(text, _) | Token::Variable(text, _) => text,
        }
    }
}
