//! Where the body of an HTTP/1.1 response ends (RFC 9112 section 6.3). Never keeps what it reads.

/// What is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    Length(u64),
    Chunked(Chunks),
    /// Until the server closes.
    Close,
}

/// A place in the chunked coding (RFC 9112 section 7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunks {
    /// In the line of a chunk's size; whether its digits are over.
    Size {
        size: u64,
        over: bool,
    },
    Data(u64),
    /// The line end behind a chunk's data.
    DataEnd,
    /// In a line of the trailer, of which so many bytes have come.
    Trailer(u32),
    Done,
}

impl Chunks {
    pub const START: Chunks = Chunks::Size { size: 0, over: false };
}

#[derive(Debug, PartialEq, Eq)]
pub struct BadChunk;

impl Body {
    /// Takes the body's bytes from `bytes`, and gives those that are content to `sink`. Their number.
    pub fn take(&mut self, bytes: &[u8], sink: &mut impl FnMut(&[u8])) -> Result<u64, BadChunk> {
        let content = match self {
            Body::Close => bytes,
            Body::Length(rest) => {
                let taken = (bytes.len() as u64).min(*rest);
                *rest -= taken;
                &bytes[..taken as usize]
            }
            Body::Chunked(chunks) => return chunks.take(bytes, sink),
        };
        sink(content);
        Ok(content.len() as u64)
    }

    pub fn is_done(&self) -> bool {
        matches!(self, Body::Length(0) | Body::Chunked(Chunks::Done))
    }
}

impl Chunks {
    fn take(&mut self, mut bytes: &[u8], sink: &mut impl FnMut(&[u8])) -> Result<u64, BadChunk> {
        let mut content = 0;
        while let Some((&byte, rest)) = bytes.split_first() {
            match self {
                Chunks::Data(left) => {
                    let taken = (*left).min(bytes.len() as u64);
                    *left -= taken;
                    content += taken;
                    let (taken, behind) = bytes.split_at(taken as usize);
                    sink(taken);
                    bytes = behind;
                    if *left == 0 {
                        *self = Chunks::DataEnd;
                    }
                    continue;
                }
                Chunks::Size { size, over } => match (byte, (byte as char).to_digit(16)) {
                    (b'\n', _) => *self = if *size == 0 { Chunks::Trailer(0) } else { Chunks::Data(*size) },
                    (_, Some(digit)) if !*over => {
                        *size = size.checked_mul(16).and_then(|size| size.checked_add(digit.into())).ok_or(BadChunk)?;
                    }
                    (b';' | b'\r' | b' ' | b'\t', _) => *over = true,
                    _ if *over => {}
                    _ => return Err(BadChunk),
                },
                Chunks::DataEnd => match byte {
                    b'\n' => *self = Chunks::START,
                    b'\r' => {}
                    _ => return Err(BadChunk),
                },
                Chunks::Trailer(length) => match byte {
                    b'\n' if *length == 0 => {
                        *self = Chunks::Done;
                        return Ok(content);
                    }
                    b'\n' => *length = 0,
                    b'\r' => {}
                    _ => *length += 1,
                },
                Chunks::Done => return Ok(content),
            }
            bytes = rest;
        }
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunked_body_is_counted_however_it_is_cut() {
        let wire = b"5\r\nhello\r\n6;x=\"y\"\r\n world\r\n0\r\nx-sum: 1\r\n\r\n";
        for size in 1..=wire.len() {
            let mut body = Body::Chunked(Chunks::START);
            let mut kept = Vec::new();
            let mut keep = |bytes: &[u8]| kept.extend_from_slice(bytes);
            let sum: u64 = wire.chunks(size).map(|piece| body.take(piece, &mut keep).unwrap()).sum();
            assert_eq!((sum, body.is_done(), &kept[..]), (11, true, &b"hello world"[..]), "pieces of {size}");
        }
        let mut cut = Body::Chunked(Chunks::START);
        assert_eq!((cut.take(&wire[..wire.len() - 1], &mut |_| {}), cut.is_done()), (Ok(11), false));
        for wrong in [&b"x\r\n"[..], b"3\r\nabcd", b"fffffffffffffffff\r\n"] {
            assert_eq!(Body::Chunked(Chunks::START).take(wrong, &mut |_| {}), Err(BadChunk));
        }
    }

    #[test]
    fn a_length_is_a_length() {
        let mut body = Body::Length(3);
        assert_eq!((body.take(b"ab", &mut |_| {}), body.is_done()), (Ok(2), false));
        assert_eq!((body.take(b"cd", &mut |_| {}), body.is_done()), (Ok(1), true));
    }
}
