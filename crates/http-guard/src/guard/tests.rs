//! When a connection rests, and what it knows when it wakes.

use std::future::poll_fn;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;

const TIMEOUTS: Timeouts = Timeouts {
    head: Duration::from_secs(30),
    idle: Duration::from_secs(60),
    body: Duration::from_secs(20),
    body_bytes: 1024,
    write: Duration::from_secs(60),
};
const LIMITS: Limits = Limits { uri: 8192, fields_bytes: 32768, fields: 100 };
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A stream that takes everything and can be told to hold it back.
struct HoldingStream {
    stream: DuplexStream,
    holds: bool,
}

impl AsyncRead for HoldingStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for HoldingStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.holds {
            Poll::Pending
        } else {
            Poll::Ready(Ok(()))
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

fn guarded(holds: bool) -> (DuplexStream, GuardedStream<HoldingStream>, Arc<MessageTracker>) {
    let (client, stream) = tokio::io::duplex(4096);
    let (guarded, talk) = GuardedStream::new(HoldingStream { stream, holds }, LIMITS, TIMEOUTS);
    (client, guarded, talk)
}

async fn read(guarded: &mut GuardedStream<HoldingStream>) -> Vec<u8> {
    let mut bytes = [0; 4096];
    let count = guarded.read(&mut bytes).await.unwrap();
    bytes[..count].to_vec()
}

#[tokio::test(start_paused = true)]
async fn between_two_messages_a_connection_rests_and_wakes() {
    let (mut client, mut guarded, talk) = guarded(false);
    for _ in 0..3 {
        client.write_all(REQUEST).await.unwrap();
        assert_eq!(read(&mut guarded).await, REQUEST);
        drop(talk.begin());
        let answered = Instant::now();
        assert_eq!(read(&mut guarded).await, b"");
        assert!(guarded.is_resting() && answered.elapsed() < TIMEOUTS.idle / 2);
        // A head in two pieces, the second of which the next parser waits for.
        client.write_all(b"PUT /").await.unwrap();
        assert!(poll_fn(|cx| guarded.poll_wake(cx)).await);
        assert!(!guarded.is_resting());
        client.write_all(b" HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        assert_eq!(read(&mut guarded).await, b"PUT / HTTP/1.1\r\nHost: a\r\n\r\n");
        drop(talk.begin());
    }
    let answered = Instant::now();
    assert_eq!(read(&mut guarded).await, b"");
    assert!(!poll_fn(|cx| guarded.poll_wake(cx)).await);
    assert!(answered.elapsed().abs_diff(TIMEOUTS.idle) < Duration::from_secs(1), "{:?}", answered.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_is_refused_after_a_rest_too() {
    let (mut client, mut guarded, talk) = guarded(false);
    client.write_all(REQUEST).await.unwrap();
    read(&mut guarded).await;
    drop(talk.begin());
    read(&mut guarded).await;
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    assert!(poll_fn(|cx| guarded.poll_wake(cx)).await);
    assert_eq!(read(&mut guarded).await, STAND_IN);
    assert_eq!(talk.begin().0.map(|refusal| refusal.status), Some(400));
}

#[tokio::test(start_paused = true)]
async fn nothing_rests_while_an_answer_is_under_way() {
    let (mut client, mut guarded, talk) = guarded(false);
    client.write_all(REQUEST).await.unwrap();
    read(&mut guarded).await;
    let (_, turn) = talk.begin();
    assert!(tokio::time::timeout(Duration::from_secs(500), read(&mut guarded)).await.is_err());
    drop(turn);
    assert_eq!(read(&mut guarded).await, b"");
    assert!(guarded.is_resting());
}

#[tokio::test(start_paused = true)]
async fn nothing_rests_before_all_is_flushed() {
    let (mut client, mut guarded, talk) = guarded(true);
    client.write_all(REQUEST).await.unwrap();
    read(&mut guarded).await;
    drop(talk.begin());
    assert_eq!(read(&mut guarded).await, b"");
    assert!(!guarded.is_resting(), "it was closed for its idling");
}

/// RFC 3986 section 2.1. The follower has refused what is longer than it may be when it is encoded.
#[tokio::test(start_paused = true)]
async fn a_raw_target_reaches_the_parser_percent_encoded_however_it_is_cut() {
    let raw = "GET /bière/€?q=bière HTTP/1.1\r\nHost: a\r\nX: é\r\n\r\n".as_bytes();
    let latin = b"POST /\xe8 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n\xe8!";
    let all = [REQUEST, raw, latin, raw].concat();
    let encoded = "GET /bi%C3%A8re/%E2%82%AC?q=bi%C3%A8re HTTP/1.1\r\nHost: a\r\nX: é\r\n\r\n".as_bytes();
    let posted = b"POST /%E8 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n\xe8!";
    let expected = [REQUEST, encoded, posted, encoded].concat();
    for size in [1, 2, 3, 7, 40, 90, 1000] {
        let (mut client, mut guarded, _talk) = guarded(false);
        let mut passed = Vec::new();
        for piece in all.chunks(size) {
            client.write_all(piece).await.unwrap();
            while let Ok(more) = tokio::time::timeout(Duration::from_millis(1), read(&mut guarded)).await {
                passed.extend(more);
            }
        }
        assert_eq!(String::from_utf8_lossy(&passed), String::from_utf8_lossy(&expected), "in pieces of {size}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_raw_target_before_a_bad_message_is_passed_on() {
    let (mut client, mut guarded, talk) = guarded(false);
    client.write_all("GET /é HTTP/1.1\r\nHost: a\r\n\r\nGET /\" HTTP/1.1\r\n".as_bytes()).await.unwrap();
    let mut passed = read(&mut guarded).await;
    while let Ok(more) = tokio::time::timeout(Duration::from_millis(1), read(&mut guarded)).await {
        passed.extend(more);
    }
    let expected = [&b"GET /%C3%A9 HTTP/1.1\r\nHost: a\r\n\r\n"[..], STAND_IN].concat();
    assert_eq!(passed, expected);
    let _first = talk.begin();
    assert_eq!(talk.begin().0.map(|refusal| refusal.status), Some(400));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_closed_its_side_waits_for_its_answer_for_a_while() {
    for may in [true, false] {
        let (mut client, mut guarded, talk) = guarded(false);
        client.write_all(REQUEST).await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(read(&mut guarded).await, REQUEST);
        let _turn = talk.begin();
        talk.may_half_close(may);
        let (closed, almost) = (Instant::now(), TIMEOUTS.idle - Duration::from_secs(1));
        let waits = tokio::time::timeout(almost, read(&mut guarded)).await.is_err();
        assert_eq!(waits, may);
        if may {
            // A piece of the answer.
            guarded.write_all(b"x").await.unwrap();
            assert_eq!(read(&mut guarded).await, b"");
            assert_eq!(closed.elapsed().as_secs(), (almost + TIMEOUTS.idle).as_secs());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_closes_in_the_middle_of_a_body_has_left() {
    let (mut client, mut guarded, talk) = guarded(false);
    client.write_all(b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe").await.unwrap();
    client.shutdown().await.unwrap();
    assert!(!read(&mut guarded).await.is_empty());
    let _turn = talk.begin();
    talk.may_half_close(true);
    assert_eq!(read(&mut guarded).await, b"");
}
