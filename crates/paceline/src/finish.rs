//! The end of an exchange: `Server-Timing`, and the log line when the last byte has been handed to the connection, or when
//! the client left before there was an answer.
//! It never changes what a response says otherwise.

use std::{
    io,
    pin::Pin,
    task::{ready, Context, Poll},
};

use bytes::Bytes;
use http::{request::Parts, HeaderValue, Response};
use http_body::{Body, Frame, SizeHint};

use crate::{
    access_log::{self, Ending, Head},
    clock,
    config::AccessLogFormat,
    exchange::Exchange,
    http::body::ResponseBody,
    log::Log,
    route::Site,
    server::Server,
};

/// The response as it goes to the connection.
pub type Outgoing = Response<ResponseBody>;

/// Prepares the response for the connection.
pub fn response(mut response: Outgoing, mut record: Record, site: Option<&Site>) -> Outgoing {
    let exchange = &mut record.exchange;
    exchange.timeline.first_byte = clock::now();
    exchange.settle();
    if site.is_some_and(|site| site.config.server_timing) {
        if let Ok(value) = HeaderValue::from_str(&access_log::server_timing(exchange)) {
            if !value.is_empty() {
                response.headers_mut().append("server-timing", value);
            }
        }
    }
    record.status = response.status().as_u16();
    record.complete = response.body().is_end_stream();
    if record.format == AccessLogFormat::Off {
        return response;
    }
    response.map(|body| ResponseBody::Logged(Box::new(Logged { body, record })))
}

/// A body whose end is logged.
pub struct Logged {
    body: ResponseBody,
    record: Record,
}

/// An exchange and what the log will say of it when this is dropped.
pub struct Record {
    pub exchange: Exchange,
    log: Log,
    format: AccessLogFormat,
    /// None: there is no access log.
    head: Option<Head>,
    status: u16,
    bytes: u64,
    complete: bool,
}

impl Record {
    /// Until there is a response: the client left, which has no status of its own; 499 is what nginx made familiar.
    pub fn begin(exchange: Exchange, head: &Parts, server: &Server) -> Record {
        let (log, format) = (server.log.clone(), server.config.log.access_format);
        let head = (format != AccessLogFormat::Off).then(|| Head::of(head));
        Record { exchange, log, format, head, status: 499, bytes: 0, complete: false }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let Some(head) = &self.head else { return };
        self.exchange.timeline.last_byte = clock::now();
        self.exchange.settle();
        let ending = Ending { status: self.status, bytes: self.bytes, complete: self.complete };
        if let Some(line) = access_log::line(self.format, head, &self.exchange, ending) {
            self.log.access(line);
        }
    }
}

impl Body for Logged {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                self.record.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                self.record.complete = self.body.is_end_stream();
            }
            Some(Err(_)) => {}
            None => self.record.complete = true,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
