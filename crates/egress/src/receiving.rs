//! The response as the process gets it: the upstream's, read no faster than it is taken, or one that was kept. It never
//! asks.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{ready, Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use cache::{stored::Stored, storing::Storable};
use client_pool::Failure;
use http::{header, request::Parts, HeaderName, HeaderValue, Method, Response, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{sleep_until, Instant, Sleep};

use super::{
    caller::UnderWay,
    keeping::{CallCache, Flight, Question},
    refusing::{field, status},
    wanted::{ERROR_FIELD, FIELD},
    Lease, Origin,
};
use http_guard::hop::{keep_end_to_end_and_proxy, kept_for};

/// An answer of the upstream.
pub struct Answer {
    pub response: Response<Incoming>,
    pub lease: Lease,
    /// From the request's sending to the head.
    pub first: Duration,
}

/// A call that is counted when it is over, however it ends.
pub struct CallGuard {
    pub origin: Arc<Origin>,
    pub began: Instant,
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.origin.figures.ended(self.began.elapsed());
    }
}

/// A body that is kept when it is complete.
pub struct Keep {
    pub keeping: Arc<CallCache>,
    pub question: Question,
    pub head: Parts,
    pub storable: Storable,
    /// Those who wait for it.
    pub flight: Option<Flight>,
    pub status: StatusCode,
    pub read: BytesMut,
}

impl Keep {
    fn done(self) {
        self.keeping.put(&self.question, &self.head, self.status, self.storable, self.read.freeze());
        drop(self.flight);
    }
}

/// The upstream's response, passed on.
pub fn passed_on(
    answer: Answer,
    method: &Method,
    deadline: Option<Instant>,
    counted: Option<CallGuard>,
    keep: Option<Keep>,
) -> Response<CallResponseBody> {
    let Answer { response, lease, first } = answer;
    let (mut head, body) = response.into_parts();
    let kept_for = kept_for(&head.headers, head.version);
    let told = told(&lease, head.version, first);
    keep_end_to_end_and_proxy(&mut head.headers);
    head.headers.remove(ERROR_FIELD);
    head.headers.insert(HeaderName::from_static(FIELD), told);
    let has_body =
        *method != Method::HEAD && head.status != StatusCode::NO_CONTENT && head.status != StatusCode::NOT_MODIFIED;
    let mut receiving = CallResponseBody {
        body: if has_body { Source::Arriving(body) } else { Source::Nothing },
        lease: Some((lease, kept_for)),
        late: deadline.map(|deadline| Box::pin(sleep_until(deadline))),
        keep: keep.map(Box::new),
        counted,
        _under_way: None,
    };
    if receiving.is_end_stream() {
        receiving.done();
    }
    head.version = Version::HTTP_11;
    Response::from_parts(head, receiving)
}

/// A response that was kept. `age` (s): for its field; `how`: why it answers.
pub fn kept(stored: &Stored, age: u64, method: &Method, how: &str, counted: CallGuard) -> Response<CallResponseBody> {
    stored.count_hit();
    let body = stored.whole().cloned().filter(|_| *method != Method::HEAD);
    let body = body.map_or(Source::Nothing, |bytes| Source::Kept(Some(bytes)));
    let mut response = Response::new(CallResponseBody { body, counted: Some(counted), ..CallResponseBody::nothing() });
    *response.status_mut() = stored.status;
    *response.headers_mut() = stored.headers.clone();
    response.headers_mut().insert(header::AGE, age.into());
    let told =
        format!("version=\"1.1\", new=?0, waited=0.0, dns=0.0, connect=0.0, tls=0.0, first=0.0, cache=\"{how}\"");
    if let Ok(told) = HeaderValue::from_str(&told) {
        response.headers_mut().insert(HeaderName::from_static(FIELD), told);
    }
    response
}

/// The response when there is none.
pub fn refusal(failure: &Failure) -> Response<CallResponseBody> {
    let mut response = Response::new(CallResponseBody::nothing());
    *response.status_mut() = status(failure);
    response.headers_mut().insert(HeaderName::from_static(ERROR_FIELD), field(failure));
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    response
}

/// The value of `Paceline-Egress`. Milliseconds.
fn told(lease: &Lease, version: Version, first: Duration) -> HeaderValue {
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let connection = &lease.connection;
    let version = match version {
        Version::HTTP_2 => "2",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    };
    let opened = if connection.reused { Default::default() } else { connection.opened };
    let told = format!(
        "version=\"{version}\", new=?{}, waited={:.1}, dns={:.1}, connect={:.1}, tls={:.1}, first={:.1}, address=\"{}\"",
        u8::from(!connection.reused),
        ms(lease.waited),
        ms(opened.dns),
        ms(opened.connect),
        ms(opened.tls),
        ms(first),
        connection.address.map(|address| address.to_string()).unwrap_or_default(),
    );
    HeaderValue::from_str(&told).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// A response's body. It gives the connection back when it is complete, and closes it if it is left before.
pub struct CallResponseBody {
    body: Source,
    lease: Option<(Lease, Option<Duration>)>,
    late: Option<Pin<Box<Sleep>>>,
    keep: Option<Box<Keep>>,
    counted: Option<CallGuard>,
    /// The call that it ends.
    _under_way: Option<UnderWay>,
}

enum Source {
    Nothing,
    Kept(Option<Bytes>),
    Arriving(Incoming),
}

impl CallResponseBody {
    fn nothing() -> CallResponseBody {
        CallResponseBody { body: Source::Nothing, lease: None, late: None, keep: None, counted: None, _under_way: None }
    }

    /// It is this call's.
    pub fn of(self, under_way: UnderWay) -> CallResponseBody {
        CallResponseBody { _under_way: Some(under_way), ..self }
    }

    fn done(&mut self) {
        self.body = Source::Nothing;
        if let Some((lease, kept_for)) = self.lease.take() {
            lease.give_back(kept_for);
        }
        if let Some(keep) = self.keep.take() {
            keep.done();
        }
        self.counted = None;
    }

    /// Notes what has come; what is too large is not kept.
    fn note(&mut self, data: Option<&Bytes>) {
        let (Some(keep), Some(data)) = (&mut self.keep, data) else { return };
        if keep.read.len() + data.len() > keep.keeping.object() {
            self.keep = None;
        } else {
            keep.read.extend_from_slice(data);
        }
    }
}

impl Body for CallResponseBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let this = self.get_mut();
        let body = match &mut this.body {
            Source::Nothing => return Poll::Ready(None),
            Source::Kept(bytes) => return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Source::Arriving(body) => body,
        };
        let polled = Pin::new(&mut *body).poll_frame(cx);
        if polled.is_pending() && this.late.as_mut().is_some_and(|late| late.as_mut().poll(cx).is_ready()) {
            return Poll::Ready(Some(Err(Failure::Deadline)));
        }
        let ended = body.is_end_stream();
        match ready!(polled) {
            None => {
                this.done();
                Poll::Ready(None)
            }
            // The end is looked for at once: whoever has a Content-Length does not ask again.
            Some(Ok(frame)) => {
                this.note(frame.data_ref());
                if ended {
                    this.done();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => {
                let failure = Failure::of(&error, true);
                if let Some(counted) = &this.counted {
                    counted.origin.figures.failed(failure.kind());
                }
                this.keep = None;
                Poll::Ready(Some(Err(failure)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            Source::Nothing => true,
            Source::Kept(bytes) => bytes.is_none(),
            Source::Arriving(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Source::Nothing => SizeHint::with_exact(0),
            Source::Kept(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Source::Arriving(body) => body.size_hint(),
        }
    }
}
