//! The chunked coding in the plainest words (RFC 9112 section 7.1), to compare with.

/// The data of a chunked body that is good and complete, and the bytes it took on the wire.
pub fn decode(body: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut data, mut at) = (Vec::new(), 0);
    loop {
        let line = line(body, &mut at)?;
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let after = line[digits..].trim_ascii_start();
        if !after.is_empty() && after[0] != b';' || digits == 0 {
            return None;
        }
        let size = usize::from_str_radix(std::str::from_utf8(&line[..digits]).ok()?, 16).ok()?;
        if size == 0 {
            break;
        }
        data.extend_from_slice(body.get(at..at.checked_add(size)?)?);
        at += size;
        if !self::line(body, &mut at)?.is_empty() {
            return None;
        }
    }
    while !line(body, &mut at)?.is_empty() {}
    Some((data, at))
}

/// What stands before the next line end, which is CR LF and nothing else.
fn line<'a>(body: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let rest = &body[*at..];
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    *at += end + 1;
    rest[..end].strip_suffix(b"\r").filter(|line| !line.contains(&b'\r'))
}
