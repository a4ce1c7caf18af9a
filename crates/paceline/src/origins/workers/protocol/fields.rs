//! NUL-terminated fields and pairs, the text of the worker protocol (docs/worker-protocol.md).
//! It never looks at what the fields mean.

use std::ffi::CStr;

/// Appends one field.
pub fn put(out: &mut Vec<u8>, field: impl AsRef<[u8]>) {
    out.extend_from_slice(field.as_ref());
    out.push(0);
}

/// Appends a pair of fields.
pub fn put_pair(out: &mut Vec<u8>, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
    put(out, name);
    put(out, value);
}

/// The fields of `payload`; bytes after the last NUL are ignored, as no complete field.
pub fn iter(payload: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = payload;
    std::iter::from_fn(move || {
        let field = CStr::from_bytes_until_nul(rest).ok()?.to_bytes();
        rest = &rest[field.len() + 1..];
        Some(field)
    })
}

/// The fields of `payload` two by two; a last field without partner is ignored.
pub fn pairs(payload: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut fields = iter(payload);
    std::iter::from_fn(move || Some((fields.next()?, fields.next()?)))
}

/// The fields of `payload` as text; what is not UTF-8 is replaced.
pub fn texts(payload: &[u8]) -> Vec<String> {
    iter(payload).map(|field| String::from_utf8_lossy(field).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_terminated_so_that_an_empty_last_one_is_visible() {
        let table: &[(&[u8], &[&[u8]])] = &[
            (b"", &[]),
            (b"a", &[]),
            (b"a\0", &[b"a"]),
            (b"a\0b\0", &[b"a", b"b"]),
            (b"a\0\0", &[b"a", b""]),
            (b"\0", &[b""]),
            (b"a\0unterminated", &[b"a"]),
        ];
        for (payload, expected) in table {
            assert_eq!(&iter(payload).collect::<Vec<_>>(), expected, "{payload:?}");
        }
    }

    #[test]
    fn pairs_leave_out_a_field_without_partner() {
        assert_eq!(pairs(b"a\0b\0c\0").collect::<Vec<_>>(), [(&b"a"[..], &b"b"[..])]);
    }
}
