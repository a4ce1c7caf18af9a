//! A request head, line by line (RFC 9112 sections 2 to 6): what comes in pieces is looked at once.
//! It never keeps bytes; places in the head are offsets from its first byte.

use std::ops::Range;

use memchr::{memchr, memchr2};

use super::{bytes, target, Framing, Limits, Refusal};

/// Longest method (RFC 9112 section 3: 501 beyond it).
const METHOD: usize = 32;
/// What a request line may hold beside its target: the method, two spaces, the version, the line end, an empty line
/// before.
pub const BESIDE_TARGET: usize = METHOD + 16;

/// A head that is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub length: usize,
    pub framing: Framing,
    /// It asks for another protocol.
    pub upgrade: bool,
    /// Its target has bytes that are not ASCII.
    pub raw_target: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum ScanResult {
    Incomplete,
    Complete(Head),
    Refused(Refusal),
}

/// A head in the course of being read.
#[derive(Debug, Default)]
pub struct HeadScan {
    /// Where the line in hand begins.
    line: usize,
    /// Up to where its end has been looked for.
    searched: usize,
    skipped_empty_line: bool,
    /// Where the field lines begin, once the request line is known to be good.
    fields_at: Option<usize>,
    fields: usize,
    http_1_0: bool,
    target: Range<usize>,
    raw_target: bool,
    /// In the target.
    authority: Option<Range<usize>>,
    host: Option<Range<usize>>,
    length: Option<u64>,
    codings: Codings,
    upgrade: bool,
}

/// What the Transfer-Encoding lines say.
#[derive(Debug, Default)]
struct Codings {
    seen: bool,
    chunked: bool,
    /// Something follows `chunked`, or a member is malformed.
    broken: bool,
    unknown: bool,
}

impl HeadScan {
    /// `head`: all bytes from the head's first, those of earlier calls included.
    pub fn advance(&mut self, head: &[u8], limits: &Limits) -> ScanResult {
        match self.lines(head, limits) {
            Ok(None) => ScanResult::Incomplete,
            Ok(Some(complete)) => ScanResult::Complete(complete),
            Err(refusal) => ScanResult::Refused(refusal),
        }
    }

    /// Whether anything but an empty line has come.
    pub fn has_begun(&self) -> bool {
        self.fields_at.is_some() || self.searched > self.line
    }

    fn lines(&mut self, head: &[u8], limits: &Limits) -> Result<Option<Head>, Refusal> {
        loop {
            let found = memchr2(b'\r', b'\n', &head[self.searched..]).map(|at| self.searched + at);
            self.searched = found.unwrap_or(head.len());
            self.bounded((self.searched + 1).min(head.len()), limits)?;
            let Some(end) = found else { return Ok(None) };
            match (head[end], head.get(end + 1)) {
                // RFC 9112 section 2.2 lets a recipient take a lone LF for a line end; others on the way may not have.
                (b'\n', _) => return Err(Refusal::bad("A line ends with LF alone instead of CR LF")),
                (_, None) => return Ok(None),
                (_, Some(b'\n')) => {}
                (_, Some(_)) => return Err(BARE_CR),
            }
            self.bounded(end + 2, limits)?;
            let start = std::mem::replace(&mut self.line, end + 2);
            self.searched = self.line;
            let line = &head[start..end];
            match self.fields_at {
                None if line.is_empty() => self.empty_line()?,
                None => {
                    self.request_line(line, start, limits)?;
                    self.fields_at = Some(self.line);
                }
                Some(_) if line.is_empty() => return self.complete(head).map(Some),
                Some(_) => self.field_line(line, start, limits)?,
            }
        }
    }

    /// What has come of the head, up to `end`, must not grow for ever.
    fn bounded(&self, end: usize, limits: &Limits) -> Result<(), Refusal> {
        match self.fields_at {
            None if end - self.line > limits.uri + BESIDE_TARGET => Err(TARGET_TOO_LONG),
            Some(fields_at) if end - fields_at > limits.fields_bytes => Err(TOO_MANY_BYTES),
            _ => Ok(()),
        }
    }

    /// RFC 9112 section 2.2: "SHOULD ignore at least one empty line (CRLF) received prior to the request-line".
    fn empty_line(&mut self) -> Result<(), Refusal> {
        if std::mem::replace(&mut self.skipped_empty_line, true) {
            Err(Refusal::bad("More than one empty line comes before the request"))
        } else {
            Ok(())
        }
    }

    /// RFC 9112 section 3: `method SP request-target SP HTTP-version`, with single spaces.
    fn request_line(&mut self, line: &[u8], start: usize, limits: &Limits) -> Result<(), Refusal> {
        let Some(space) = memchr(b' ', line) else {
            return Err(Refusal::bad("The request line has no target and no version"));
        };
        let (method, rest) = (&line[..space], &line[space + 1..]);
        check_method(method)?;
        let Some(space) = memchr(b' ', rest) else {
            return Err(if rest.len() > limits.uri {
                TARGET_TOO_LONG
            } else {
                Refusal::bad("The request line has no HTTP version")
            });
        };
        let (target, version) = (&rest[..space], &rest[space + 1..]);
        let raw = bytes::count_raw(target);
        if target.len() + 2 * raw > limits.uri {
            return Err(TARGET_TOO_LONG);
        }
        self.raw_target = raw > 0;
        self.http_1_0 = match version {
            b"HTTP/1.1" => false,
            b"HTTP/1.0" => true,
            [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
                return Err(Refusal::new(505, "Here HTTP/1.1 and HTTP/1.0 are spoken"));
            }
            _ => return Err(Refusal::bad("The HTTP version is not valid")),
        };
        let at = start + method.len() + 1;
        self.target = at..at + target.len();
        self.authority = target::check(method, target)?;
        Ok(())
    }

    /// RFC 9112 section 5: `field-name ":" OWS field-value OWS`.
    fn field_line(&mut self, line: &[u8], start: usize, limits: &Limits) -> Result<(), Refusal> {
        self.fields += 1;
        if self.fields > limits.fields {
            return Err(Refusal::new(431, "The request has too many header fields"));
        }
        let (name, value) = split_field(line)?;
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => {
                let trimmed = bytes::trim(value);
                if self.host.is_some() {
                    return Err(SEVERAL_HOSTS);
                }
                target::check_host(trimmed)?;
                let leading = value.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
                let at = start + name.len() + 1 + if trimmed.is_empty() { 0 } else { leading };
                self.host = Some(at..at + trimmed.len());
            }
            7 if name.eq_ignore_ascii_case(b"upgrade") => self.upgrade = true,
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                if self.length.is_some() {
                    return Err(Refusal::bad("The request has more than one Content-Length field"));
                }
                self.length = Some(length(bytes::trim(value))?);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => self.codings.add(value),
            _ => {}
        }
        Ok(())
    }

    /// The rules on fields together (RFC 9112 sections 3.2, 6.1 and 6.3).
    fn complete(&self, head: &[u8]) -> Result<Head, Refusal> {
        match &self.host {
            // RFC 9112 section 3.2: "MUST respond with a 400 (Bad Request)".
            None if !self.http_1_0 => return Err(NO_HOST),
            Some(host) => {
                let target = &head[self.target.clone()];
                let differs = |authority| !target::same_host(target, authority, &head[host.clone()]);
                if self.authority.clone().is_some_and(differs) {
                    return Err(OTHER_HOST);
                }
            }
            None => {}
        }
        let framing = match (&self.codings, self.length) {
            (Codings { seen: false, .. }, None) => Framing::None,
            (Codings { seen: false, .. }, Some(length)) => Framing::Length(length),
            (_, Some(_)) => return Err(Refusal::bad("The request has both Content-Length and Transfer-Encoding")),
            _ if self.http_1_0 => return Err(Refusal::bad("HTTP/1.0 has no Transfer-Encoding")),
            (Codings { broken: true, .. } | Codings { chunked: false, .. }, None) => {
                return Err(Refusal::bad("The Transfer-Encoding does not end with chunked, once"));
            }
            (Codings { unknown: true, .. }, None) => {
                return Err(Refusal::new(501, "Of the transfer codings only chunked is understood here"));
            }
            _ => Framing::Chunked,
        };
        // An HTTP/1.0 Upgrade is ignored (RFC 9110 section 7.8).
        Ok(Head { length: self.line, framing, upgrade: self.upgrade && !self.http_1_0, raw_target: self.raw_target })
    }
}

/// A head with its target percent-encoded where it is not ASCII (RFC 3986 section 2.1). In a request line that is good
/// only the target can have such bytes. `head` may have one empty line before it.
pub fn encode_target(head: &[u8]) -> Vec<u8> {
    let skipped = if head.starts_with(b"\r\n") { 2 } else { 0 };
    let end = memchr(b'\r', &head[skipped..]).map_or(head.len(), |at| skipped + at);
    let mut encoded = percent_encode(&head[..end]);
    encoded.extend_from_slice(&head[end..]);
    encoded
}

/// Percent-encodes the bytes that are not ASCII, and no others.
pub fn percent_encode(text: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut encoded = Vec::with_capacity(text.len() + 2 * bytes::count_raw(text));
    for byte in text {
        if byte.is_ascii() {
            encoded.push(*byte)
        } else {
            encoded.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
        }
    }
    encoded
}

/// RFC 9110 section 9.1: a token, here of bounded length.
pub fn check_method(method: &[u8]) -> Result<(), Refusal> {
    if !bytes::is_token(method) {
        return Err(Refusal::bad("The method is not valid"));
    }
    if method.len() > METHOD {
        return Err(Refusal::new(501, "The method is too long"));
    }
    Ok(())
}

pub const NO_HOST: Refusal = Refusal::bad("The request has no Host field");
pub const SEVERAL_HOSTS: Refusal = Refusal::bad("The request has more than one Host field");
pub const OTHER_HOST: Refusal = Refusal::bad("The Host field names another host than the request target");
const BARE_CR: Refusal = Refusal::bad("A CR is not followed by LF");
const TARGET_TOO_LONG: Refusal = Refusal::new(414, "The request target is too long");
pub const TOO_MANY_BYTES: Refusal = Refusal::new(431, "The header fields are too large");

/// Name and value of a field line, header or trailer.
pub fn split_field(line: &[u8]) -> Result<(&[u8], &[u8]), Refusal> {
    if let [b' ' | b'\t', ..] = line {
        // RFC 9112 sections 2.2 and 5.2.
        return Err(Refusal::bad("A header line begins with whitespace (a folded line)"));
    }
    let Some(colon) = memchr(b':', line) else {
        return Err(Refusal::bad("A header line has no colon"));
    };
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if !bytes::is_token(name) {
        return Err(Refusal::bad(match name {
            [] => "A header field has no name",
            [.., b' ' | b'\t'] => "A header field has whitespace before its colon",
            _ => "The name of a header field is not valid",
        }));
    }
    if !bytes::is_field_value(value) {
        return Err(Refusal::bad("A header field holds a control character"));
    }
    Ok((name, value))
}

/// RFC 9110 section 8.6: `1*DIGIT`, and not a list of equal lengths either.
fn length(text: &[u8]) -> Result<u64, Refusal> {
    /// Ten to the power of this is less than the largest number.
    const DIGITS: usize = 19;
    if text.is_empty() || text.len() > DIGITS || !text.iter().all(u8::is_ascii_digit) {
        return Err(Refusal::bad("The Content-Length is not valid"));
    }
    Ok(text.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

impl Codings {
    /// RFC 9112 section 6.1. Empty members, which other lists may have, are refused: they decide where a message ends.
    fn add(&mut self, value: &[u8]) {
        self.seen = true;
        for member in value.split(|byte| *byte == b',') {
            let member = bytes::trim(member);
            self.broken |= self.chunked || member.is_empty();
            if member.eq_ignore_ascii_case(b"chunked") {
                self.chunked = true;
            } else {
                self.unknown = true;
            }
        }
    }
}
