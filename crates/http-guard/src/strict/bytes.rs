//! Which bytes may stand where (RFC 9110 section 5.6.2, RFC 9112 section 3.2, RFC 3986), as one table.
//! It never knows what is being read.

const TOKEN: u8 = 1;
const PATH: u8 = 2;
const QUERY: u8 = 4;
const HOST: u8 = 8;

static TABLE: [u8; 256] = table();

const fn table() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0x21;
    while byte < 0x7f {
        let b = byte as u8;
        let alphanumeric = b.is_ascii_alphanumeric();
        let mut marks = 0;
        if alphanumeric || one_of(b, b"!#$%&'*+-.^_`|~") {
            marks |= TOKEN;
        }
        // RFC 3986 allows none of `[]\^{|}` unencoded, but browsers send them (WHATWG URL: path and query
        // percent-encode sets) and they can't be taken for anything else. What browsers encode too is refused.
        if !one_of(b, b"\"#<>?`") {
            marks |= PATH;
        }
        if !one_of(b, b"\"#<>") {
            marks |= QUERY;
        }
        // reg-name without percent-encoding, which no name of a host needs.
        if alphanumeric || one_of(b, b"-._~!$&'()*+,;=") {
            marks |= HOST;
        }
        table[byte] = marks;
        byte += 1;
    }
    // Raw UTF-8 and Latin-1, as `curl` and old browsers send what was typed: `encode_target` makes it a URI.
    while byte < 0xff {
        byte += 1;
        table[byte] = PATH | QUERY;
    }
    table
}

const fn one_of(byte: u8, list: &[u8]) -> bool {
    let mut at = 0;
    while at < list.len() {
        if list[at] == byte {
            return true;
        }
        at += 1;
    }
    false
}

fn all(bytes: &[u8], mark: u8) -> bool {
    bytes.iter().all(|byte| TABLE[*byte as usize] & mark != 0)
}

/// RFC 9110 section 5.6.2.
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && all(bytes, TOKEN)
}

pub fn is_token_byte(byte: u8) -> bool {
    TABLE[byte as usize] & TOKEN != 0
}

pub fn is_path(bytes: &[u8]) -> bool {
    all(bytes, PATH)
}

/// How many bytes have to be percent-encoded.
pub fn count_raw(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| !byte.is_ascii()).count()
}

pub fn is_query(bytes: &[u8]) -> bool {
    all(bytes, QUERY)
}

pub fn is_registered_name(bytes: &[u8]) -> bool {
    all(bytes, HOST)
}

/// RFC 9110 section 5.5: no control characters but the tab. (No early end: so it is done many bytes at a time.)
pub fn is_field_value(bytes: &[u8]) -> bool {
    !bytes.iter().fold(false, |bad, byte| bad | ((*byte < 0x20) & (*byte != b'\t')) | (*byte == 0x7f))
}

pub fn is_field_value_byte(byte: u8) -> bool {
    is_field_value(&[byte])
}

/// Without optional whitespace around (RFC 9110 section 5.6.3).
pub fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}
