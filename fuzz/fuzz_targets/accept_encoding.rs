//! Accept-Encoding: nothing is chosen that the client did not ask for, and nothing is preferred to what it likes best.
//! Input: the lines of the field.
#![cfg_attr(fuzzing, no_main)]

use http::{header::ACCEPT_ENCODING, HeaderMap, HeaderValue};
use http_guard::coding::{AcceptEncoding, ContentCoding};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n').take(20) {
        if let Ok(line) = HeaderValue::from_bytes(line) {
            headers.append(ACCEPT_ENCODING, line);
        }
    }
    let accepted = AcceptEncoding::from_headers(&headers);
    let text = String::from_utf8_lossy(data).to_ascii_lowercase();
    for coding in ContentCoding::ALL {
        assert!(accepted.weight(coding) <= 1000);
        assert!(accepted.weight(coding) == 0 || text.contains(coding.name()) || text.contains('*'), "{coding:?}");
        // A member of its own has the last word.
        let mut more = headers.clone();
        more.append(ACCEPT_ENCODING, HeaderValue::try_from(format!(" {} ; q=0.3 ", coding.name())).unwrap());
        assert_eq!(AcceptEncoding::from_headers(&more).weight(coding), 300);
    }
    assert!(accepted.identity_weight() <= 1000);

    let chosen = accepted.choose(ContentCoding::ALL.map(|coding| (coding, 1, coding)));
    let best = ContentCoding::ALL.map(|coding| accepted.weight(coding)).into_iter().max().unwrap_or(0);
    match chosen {
        Some(coding) => {
            assert_eq!(accepted.weight(coding), best);
            assert!(best > 0 && best >= accepted.identity_weight());
        }
        None => assert!(best == 0 || best < accepted.identity_weight()),
    }
});
