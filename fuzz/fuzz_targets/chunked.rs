//! Chunked bodies, of clients (judged) and of apps (taken off): what is good decodes as the plainest words of RFC 9112
//! say.
#![cfg_attr(fuzzing, no_main)]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use paceline::origins::workers::rack::dechunk::Decoder;
use paceline_fuzz::{
    chunked, cuts,
    http1::{follow, messages},
};

const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

fuzz_target!(|data: &[u8]| {
    // From a client: judged to the letter.
    let sent = [HEAD, data].concat();
    let whole = follow([&sent[..]]);
    for pieces in cuts(&sent) {
        assert_eq!(follow(pieces), whole);
    }
    let message = messages(&sent).into_iter().next().expect("the head is good");
    if message.complete {
        let body = &sent[message.body];
        let (expected, length) = chunked::decode(body).expect("what is good is plain");
        assert_eq!(length, body.len());
        assert_eq!(decode(&[body]), (Ok(true), expected));
    }

    // From an app: taken off.
    let (ended, decoded) = decode(&[data]);
    assert!(decoded.len() <= data.len());
    for pieces in cuts(data) {
        assert_eq!(decode(&pieces), (ended, decoded.clone()));
    }
    // What is not encoded passes unchanged.
    if ended == Ok(false) {
        assert_eq!(decoded, data);
    }
    if let (Ok(true), Some((expected, _))) = (ended, chunked::decode(data)) {
        assert_eq!(decoded, expected);
    }
});

/// Whether it was encoded (Err: the coding is broken, or has no end), and the data up to there.
fn decode(pieces: &[&[u8]]) -> (Result<bool, ()>, Vec<u8>) {
    let (mut decoder, mut output) = (Decoder::default(), BytesMut::new());
    let read = pieces.iter().try_for_each(|piece| decoder.decode(Bytes::copy_from_slice(piece), &mut output));
    let read = read.and_then(|()| decoder.finish(&mut output));
    (read.map(|()| decoder.is_done()).map_err(|_| ()), output.to_vec())
}
