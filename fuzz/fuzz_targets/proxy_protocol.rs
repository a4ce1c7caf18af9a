//! The PROXY protocol's header: takes exactly its own bytes off the stream, whatever the pieces they come in, and names
//! the ends that a header written for them would.
#![cfg_attr(fuzzing, no_main)]

use std::{
    collections::VecDeque,
    future::Future,
    io,
    net::IpAddr,
    pin::{pin, Pin},
    task::{Context, Poll, Waker},
};

use libfuzzer_sys::fuzz_target;
use paceline::edge::{
    proxy_protocol::{read, ProxyAddresses},
    sniff::PeekedStream,
};
use paceline_fuzz::cuts;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

/// A stream that gives one piece for each read, then ends.
struct Pieces(VecDeque<Vec<u8>>);

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(mut piece) = self.0.pop_front() {
            let count = piece.len().min(buffer.remaining());
            buffer.put_slice(&piece[..count]);
            if count < piece.len() {
                self.0.push_front(piece.split_off(count));
            }
        }
        Poll::Ready(Ok(()))
    }
}

fuzz_target!(|data: &[u8]| {
    let outcome = parse(&[data]);
    for pieces in cuts(data) {
        assert_eq!(parse(&pieces), outcome);
    }
    let (header, ends) = match outcome {
        Ok((ends, rest)) => (data.strip_suffix(&rest[..]).expect("the rest is what follows the header"), ends),
        Err(error) => {
            assert!(matches!(error, io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof), "{error:?}");
            return;
        }
    };
    let line = header.starts_with(b"PROXY ");
    if line {
        assert!(header.len() <= 107);
        assert_eq!(header.windows(2).position(|pair| pair == b"\r\n"), Some(header.len() - 2));
    } else {
        assert_eq!(header[12] >> 4, 2);
        assert_eq!(header.len(), 16 + usize::from(u16::from_be_bytes([header[14], header[15]])));
    }
    if let Some(ends) = ends {
        assert_eq!(ends.source.is_ipv4(), ends.destination.is_ipv4());
        for written in [version1(ends), version2(ends)] {
            let more = [&written[..], b"GET"].concat();
            assert_eq!(parse(&[&more]), Ok((Some(ends), b"GET".to_vec())), "{:?}", String::from_utf8_lossy(&written));
        }
    }
});

/// The ends, and what the next reader of the stream gets.
fn parse(pieces: &[&[u8]]) -> Result<(Option<ProxyAddresses>, Vec<u8>), io::ErrorKind> {
    // An empty piece would be the stream's end.
    let pieces = pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| piece.to_vec()).collect();
    let mut stream = PeekedStream::from(Pieces(pieces));
    let ends = now(read(&mut stream)).map_err(|error| error.kind())?;
    let mut rest = Vec::new();
    now(stream.read_to_end(&mut rest)).map_err(|error| error.kind())?;
    Ok((ends, rest))
}

/// Nothing here ever waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("waits for a stream that has ended"),
    }
}

fn version1(ends: ProxyAddresses) -> Vec<u8> {
    let family = if ends.source.is_ipv4() { "TCP4" } else { "TCP6" };
    let (from, to) = (ends.source, ends.destination);
    format!("PROXY {family} {} {} {} {}\r\n", from.ip(), to.ip(), from.port(), to.port()).into_bytes()
}

fn version2(ends: ProxyAddresses) -> Vec<u8> {
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let mut rest = [octets(ends.source.ip()), octets(ends.destination.ip())].concat();
    rest.extend(ends.source.port().to_be_bytes());
    rest.extend(ends.destination.port().to_be_bytes());
    let family = if ends.source.is_ipv4() { 0x11 } else { 0x21 };
    [b"\r\n\r\n\0\r\nQUIT\n\x21", &[family][..], &(rest.len() as u16).to_be_bytes(), &rest].concat()
}
