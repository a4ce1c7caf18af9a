//! The chunked coding of a request body, byte by byte (RFC 9112 section 7.1). What is not good ends the message.
//! It never takes the coding off; the parser behind does.

use super::{bytes, head, Limits, Refusal};

/// Most digits of a chunk size; with leading zeros no number needs more.
const SIZE_DIGITS: u8 = 16;
/// Largest chunk, so that sums of them can't overflow anywhere.
const LARGEST: u64 = 1 << 60;
/// Bytes of chunk extensions of one body: nobody has a use for them, but they are allowed.
const EXTENSIONS: u32 = 8 << 10;
/// Bytes of trailer lines of one body, at most.
const TRAILERS: usize = 8 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Size {
        digits: u8,
        size: u64,
    },
    /// Whitespace after a size: only an extension may follow.
    AfterSize(u64),
    /// After a semicolon.
    ExtensionName(u64),
    Extension(u64),
    SizeLf(u64),
    Data(u64),
    DataCr,
    DataLf,
    Trailer,
    TrailerLf,
}

impl Place {
    const START: Place = Place::Size { digits: 0, size: 0 };
}

/// A chunked body in the course of being read.
#[derive(Debug)]
pub struct Chunked {
    place: Place,
    extensions: u32,
    /// The trailer line in hand.
    line: Vec<u8>,
    trailers: usize,
    trailer_bytes: usize,
}

impl Default for Chunked {
    fn default() -> Chunked {
        Chunked { place: Place::START, extensions: 0, line: Vec::new(), trailers: 0, trailer_bytes: 0 }
    }
}

impl Chunked {
    /// How many bytes at the front are good, and whether the body ends there.
    pub fn advance(&mut self, input: &[u8], limits: &Limits) -> (usize, Result<bool, Refusal>) {
        let mut at = 0;
        while at < input.len() {
            if let Place::Data(left) = &mut self.place {
                let here = (input.len() - at).min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= here as u64;
                at += here;
                if *left == 0 {
                    self.place = Place::DataCr;
                }
                continue;
            }
            match self.step(input[at], limits) {
                Ok(false) => at += 1,
                Ok(true) => return (at + 1, Ok(true)),
                Err(refusal) => return (at, Err(refusal)),
            }
        }
        (at, Ok(false))
    }

    /// Any byte but one of chunk data. true: it was the body's last.
    fn step(&mut self, byte: u8, limits: &Limits) -> Result<bool, Refusal> {
        use Place::*;
        self.place = match (self.place, byte) {
            (Size { digits, size }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                if digits == SIZE_DIGITS {
                    return Err(BAD_SIZE);
                }
                let digit = (byte as char).to_digit(16).unwrap_or_default();
                Size { digits: digits + 1, size: size << 4 | u64::from(digit) }
            }
            (Size { digits: 0, .. }, _) => return Err(BAD_SIZE),
            (Size { size, .. } | Extension(size), b'\r') if size <= LARGEST => SizeLf(size),
            (Size { size, .. } | AfterSize(size), b' ' | b'\t') => self.extension(AfterSize(size))?,
            (Size { size, .. } | AfterSize(size), b';') => self.extension(ExtensionName(size))?,
            (Size { .. } | AfterSize(_), _) => return Err(BAD_SIZE),
            (ExtensionName(size), b' ' | b'\t') => self.extension(ExtensionName(size))?,
            (ExtensionName(size), _) if bytes::is_token_byte(byte) => self.extension(Extension(size))?,
            (Extension(size), _) if bytes::is_field_value_byte(byte) => self.extension(Extension(size))?,
            (ExtensionName(_) | Extension(_), _) => return Err(BAD_EXTENSION),
            (SizeLf(0), b'\n') => Trailer,
            (SizeLf(size), b'\n') => Data(size),
            (SizeLf(_), _) => return Err(BAD_SIZE),
            (DataCr, b'\r') => DataLf,
            (DataLf, b'\n') => Place::START,
            // Data never comes here; see `advance`.
            (Data(_) | DataCr | DataLf, _) => return Err(Refusal::bad("A chunk is longer than its size says")),
            (Trailer, b'\r') => TrailerLf,
            (Trailer, b'\n') => return Err(Refusal::bad("A trailer line ends with LF alone instead of CR LF")),
            (Trailer, _) => {
                self.trailer_bytes += 1;
                if self.trailer_bytes > limits.fields_bytes.min(TRAILERS) {
                    return Err(head::TOO_MANY_BYTES);
                }
                self.line.push(byte);
                Trailer
            }
            (TrailerLf, b'\n') if self.line.is_empty() => return Ok(true),
            (TrailerLf, b'\n') => {
                self.trailer_line(limits)?;
                Trailer
            }
            (TrailerLf, _) => return Err(Refusal::bad("A CR is not followed by LF")),
        };
        Ok(false)
    }

    fn extension(&mut self, then: Place) -> Result<Place, Refusal> {
        self.extensions += 1;
        if self.extensions > EXTENSIONS {
            Err(Refusal::bad("The chunk extensions are too large"))
        } else {
            Ok(then)
        }
    }

    /// Trailers reach no application, so none of them can do harm (RFC 9110 section 6.5.1); but they have to be fields.
    fn trailer_line(&mut self, limits: &Limits) -> Result<(), Refusal> {
        self.trailers += 1;
        if self.trailers > limits.fields {
            return Err(Refusal { status: 431, reason: "The body has too many trailer fields" });
        }
        head::split_field(&std::mem::take(&mut self.line)).map(|_| ())
    }
}

const BAD_SIZE: Refusal = Refusal::bad("The size of a chunk is not valid");
const BAD_EXTENSION: Refusal = Refusal::bad("A chunk extension is not valid");
