//! A connection through the guard and the parser behind it (hyper), as the front wires them: whatever the pieces the
//! bytes come in, the requests that a service sees are those that the guard let pass, each with its own body and no
//! other's.
#![cfg_attr(fuzzing, no_main)]

use std::{
    collections::VecDeque,
    future::Future,
    io,
    pin::{pin, Pin},
    sync::{
        atomic::{AtomicBool, Ordering::SeqCst},
        Arc, LazyLock, Mutex,
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{header, Request, Response, Uri, Version};
use http_body_util::{BodyExt, Empty};
use http_guard::{
    guard::{GuardedStream, Timeouts},
    strict::{encode_target, Next, Refusal},
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use libfuzzer_sys::fuzz_target;
use paceline_fuzz::{
    chunked, cuts,
    http1::{follow, messages, Message, LIMITS},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    runtime::{Builder, Runtime},
};

/// What the service saw of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    method: String,
    uri: Uri,
    /// It may be the last one that is answered.
    closes: bool,
    refusal: Option<Refusal>,
    /// None: not all of it has come. Err: its framing is broken.
    body: Option<Result<Bytes, ()>>,
}

/// Nothing here waits for a clock, but time-outs are armed.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));
const LONG: Duration = Duration::from_secs(3600);

fuzz_target!(|data: &[u8]| {
    let seen = exchange(&[data]);
    for pieces in cuts(data) {
        assert_eq!(exchange(&pieces), seen);
    }
    let passed = messages(data);
    let end = follow([data]).next;
    let mut requests = seen.iter().peekable();
    for message in &passed {
        let Some(request) = requests.next() else { return assert!(closed(&seen), "a request is missing: {seen:?}") };
        assert_eq!(request.refusal, None);
        check(data, message, request);
    }
    match (requests.next(), end) {
        (None, Next::Refused(refusal)) => assert!(closed(&seen), "nobody is told: {refusal:?}, {seen:?}"),
        (Some(stand_in), Next::Refused(refusal)) => assert_eq!(stand_in.refusal, Some(refusal)),
        (None, _) => {}
        (Some(more), _) => panic!("{more:?} was never sent"),
    }
    assert_eq!(requests.next(), None);
});

fn closed(seen: &[Seen]) -> bool {
    seen.iter().any(|request| request.closes)
}

fn check(data: &[u8], message: &Message, request: &Seen) {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Request::new(&mut fields);
    let encoded = encode_target(&data[message.head.clone()]);
    assert!(head.parse(&encoded).is_ok_and(|parsed| parsed.is_complete()));
    assert_eq!(Some(&request.method[..]), head.method);
    assert_eq!(Some(&request.uri), head.path.and_then(|path| path.parse().ok()).as_ref());
    let sent = &data[message.body.clone()];
    let is_chunked = head.headers.iter().any(|field| field.name.eq_ignore_ascii_case("transfer-encoding"));
    match &request.body {
        Some(Ok(body)) if is_chunked => assert_eq!(Some((body.to_vec(), sent.len())), chunked::decode(sent)),
        Some(Ok(body)) => assert_eq!(body, sent),
        Some(Err(())) | None => {}
    }
    assert_eq!(matches!(request.body, Some(Ok(_))), message.complete);
}

/// What a service sees of a connection whose bytes come in these pieces, and which then stays open in silence.
fn exchange(pieces: &[&[u8]]) -> Vec<Seen> {
    let pieces = pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| piece.to_vec()).collect();
    let patience = Timeouts { head: LONG, idle: LONG, body: LONG, body_bytes: 1, write: LONG };
    let (stream, talk) = GuardedStream::new(Pieces(pieces), LIMITS, patience);
    let all = Arc::new(Mutex::new(Vec::<Seen>::new()));
    let service = service_fn(|request: Request<Incoming>| {
        let (refusal, turn) = talk.begin();
        let (talk, all) = (talk.clone(), all.clone());
        async move {
            let (head, body) = request.into_parts();
            let options = head.headers.get_all(header::CONNECTION).iter().flat_map(|line| line.to_str());
            let closes = head.version == Version::HTTP_10
                || options.flat_map(|line| line.split(',')).any(|option| option.trim().eq_ignore_ascii_case("close"));
            let method = head.method.to_string();
            let number = {
                let mut all = all.lock().unwrap();
                all.push(Seen { method, uri: head.uri, closes: closes || refusal.is_some(), refusal, body: None });
                all.len() - 1
            };
            let body = body.collect().await.map(|body| body.to_bytes()).map_err(|_| ());
            all.lock().unwrap()[number].body = Some(body);
            if head.headers.contains_key(header::UPGRADE) {
                talk.protocol(false);
            }
            drop(turn);
            Ok::<_, io::Error>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let mut builder = http1::Builder::new();
    builder.header_read_timeout(None).half_close(false).max_buf_size(64 << 10);
    let _inside = RUNTIME.enter();
    let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), service).with_upgrades());
    let bell = Arc::new(Bell(AtomicBool::new(true)));
    let waker = Waker::from(bell.clone());
    // Until it waits for what will not come.
    while bell.0.swap(false, SeqCst) && serving.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {}
    let seen = all.lock().unwrap().clone();
    seen
}

struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// A client that sends one piece for each read, then nothing, and takes whatever it is answered.
struct Pieces(VecDeque<Vec<u8>>);

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(mut piece) = self.0.pop_front() else { return Poll::Pending };
        let count = piece.len().min(buffer.remaining());
        buffer.put_slice(&piece[..count]);
        if count < piece.len() {
            self.0.push_front(piece.split_off(count));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pieces {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
