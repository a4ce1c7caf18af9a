//! HTTP/2 (RFC 9113) on a client's connection: hyper frames it, here are its limits (docs/limits.md) and what differs
//! for a request. It never routes or answers.

mod body;
mod frames;
mod streams;
mod watched;

use std::{
    future::{poll_fn, Future},
    sync::Arc,
    time::Duration,
};

use http::Request;
use http_body::Body;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{sleep, sleep_until, Instant},
};

use self::{
    body::{Answer, BodyTimeout, Pace},
    streams::{StreamCheck, Streams, Tasks},
    watched::WatchedStream,
};
use crate::{
    config::Http2Config,
    exchange::{incoming::BodyPace, Connection, NeedsHttp1},
    request::{
        front::{drain::Stop, Front},
        pipeline::{self, Link},
    },
    support::event_loops,
};

/// How long a client that was told to go (GOAWAY) may stay without an exchange.
const FAREWELL: Duration = Duration::from_secs(5);
/// Errors of one client in single streams, before its connection is closed; also those it tricks the server into
/// (CVE-2025-8671, "made you reset").
const STREAM_ERRORS: usize = 100;
/// Bytes of one stream that wait for the client here; the rest waits in the response's own buffer.
const SEND_BUFFER: usize = 64 << 10;
/// Bytes of request bodies that a client may have sent and nobody has read, of all its streams together and of each.
const RECEIVE_WINDOW: u32 = 1 << 20;

/// Serves a connection until it is closed, or until `stop` says so and the exchanges in hand are done.
pub async fn serve<S>(stream: S, connection: Connection, server: Arc<Front>, mut stop: Stop)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let limits = server.config.http2.clone();
    let timeouts = server.config.client.timeouts;
    let connection = Arc::new(connection);
    let streams = Arc::new(Streams::new(limits.resets));
    let tasks = Tasks::default();
    let stream = WatchedStream::new(stream, streams.clone(), timeouts, limits.header_list);
    let service = service_fn({
        let (streams, tasks) = (streams.clone(), tasks.clone());
        move |request: Request<Incoming>| {
            let (server, connection, stream) = (server.clone(), connection.clone(), Streams::open(&streams));
            // The time that the body has. In HTTP/1 it is the guard's matter.
            let pace = (!request.body().is_end_stream()).then(|| {
                let pace = Pace { time: timeouts.body, bytes: timeouts.body_bytes };
                Box::new(BodyTimeout::new(pace, stream.clone())) as Box<dyn BodyPace>
            });
            // Early hints would need an informational HEADERS frame, which hyper can't send.
            let link = Link { hints: None, hold: Some(stream.clone()), pace };
            tasks.expect(stream.clone());
            async move {
                let response = pipeline::run(server, connection, request, link).await;
                stream.answered();
                if response.extensions().get::<NeedsHttp1>().is_some() {
                    return Err(h2::Error::from(h2::Reason::HTTP_1_1_REQUIRED));
                }
                Ok::<_, h2::Error>(response.map(|body| Answer::new(body, stream)))
            }
        }
    });
    let serving = builder(&limits, tasks).serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    let mut idle_until = Instant::now() + limits.idle_timeout;
    // Looked at only while a response waits for its client.
    let mut look_at = None;
    loop {
        tokio::select! {
            // A client's broken connection is its own affair. Its exchanges have tasks of their own, which stay where they are.
            _ = poll_fn(|cx| {
                event_loops::may_move(true);
                serving.as_mut().poll(cx)
            }) => return,
            _ = streams.flooded.notified() => return,
            _ = stop.asked_to_stop() => break,
            _ = streams.waiting.notified() => look_at = Some(Instant::now() + timeouts.write / 4),
            _ = sleep_until(look_at.unwrap_or(idle_until)), if look_at.is_some() => {
                let now = Instant::now();
                look_at = match streams.look(now, timeouts.write) {
                    StreamCheck::Nothing => None,
                    StreamCheck::Waiting => Some(now + timeouts.write / 4),
                    StreamCheck::Stuck => break,
                };
            }
            _ = sleep_until(idle_until) => {
                let Some(since) = streams.idle_since() else {
                    idle_until = Instant::now() + limits.idle_timeout;
                    continue;
                };
                idle_until = since + limits.idle_timeout;
                if idle_until <= Instant::now() {
                    break;
                }
            }
        }
    }
    serving.as_mut().graceful_shutdown();
    // Exchanges in hand are finished; a client that then does not go is left.
    loop {
        tokio::select! {
            _ = serving.as_mut() => return,
            _ = stop.cut() => return,
            _ = sleep(FAREWELL) => {}
        }
        streams.look(Instant::now(), timeouts.write);
        if streams.idle_since().is_some_and(|since| since.elapsed() >= FAREWELL) {
            return;
        }
    }
}

fn builder(limits: &Http2Config, tasks: Tasks) -> hyper::server::conn::http2::Builder<Tasks> {
    let mut builder = hyper::server::conn::http2::Builder::new(tasks);
    builder
        .timer(TokioTimer::new())
        .enable_connect_protocol()
        .initial_connection_window_size(RECEIVE_WINDOW)
        .initial_stream_window_size(RECEIVE_WINDOW)
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(limits.header_list)
        .max_pending_accept_reset_streams(limits.pending_resets)
        .max_local_error_reset_streams(STREAM_ERRORS)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(limits.ping_interval)
        .keep_alive_timeout(limits.ping_timeout);
    builder
}
