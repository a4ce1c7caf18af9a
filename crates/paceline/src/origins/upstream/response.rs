//! An upstream's answer as the client gets it (RFC 9110 section 7.6): its head without what speaks of the connection,
//! its body as it comes, or a connection that goes on with another protocol. It never changes a body.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{ready, Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{header, HeaderMap, HeaderValue, Method, Response, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::{body::Incoming, ext::ReasonPhrase};
use hyper_util::rt::TokioIo;

use super::{
    failure::Failure,
    hosts::{HostLease, PendingRequest},
};
use crate::{
    content::body::ResponseBody,
    exchange::{tunnel, Upgrade},
};
use http_guard::hop::{keep_end_to_end, kept_for};

/// How long a response's head waits for the first piece of its body. One that is broken from the start is answered with
/// 502; the client would get nothing at all if its head had gone out before.
const FIRST_PIECE: Duration = Duration::from_millis(1);

/// The response to a request with this method. `upgrade`: the client's connection, if the upstream was offered one.
pub async fn response(
    mut answer: Response<Incoming>,
    method: &Method,
    lease: HostLease,
    upgrade: Option<Upgrade>,
) -> Result<Response<ResponseBody>, Failure> {
    let upstream = lease.pending.host.clone();
    let broken = |why: &str| Failure::Broken { upstream: upstream.name.to_string(), why: why.into() };
    let status = answer.status();
    if status == StatusCode::SWITCHING_PROTOCOLS {
        let upgrade = upgrade.ok_or_else(|| broken("101 to a request that asked for no upgrade"))?;
        let HostLease { lease, mut pending, .. } = lease;
        lease.connection.switch();
        pending.becomes_tunnel();
        return Ok(switch(answer, upgrade, pending));
    }
    let has_body = *method != Method::HEAD && status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED;
    check_framing(answer.headers(), answer.version(), has_body).map_err(broken)?;
    let reason = answer.extensions_mut().remove::<ReasonPhrase>();
    let (head, body) = answer.into_parts();
    let mut headers = head.headers;
    let kept_for = kept_for(&headers, head.version);
    keep_end_to_end(&mut headers);
    settle_length(&mut headers, status);
    let body = if has_body {
        let mut relayed = Box::new(UpstreamBody::new(body, lease, kept_for));
        relayed.await_first().await.map_err(|error| broken(&error.to_string()))?;
        ResponseBody::Stream(Box::into_pin(relayed))
    } else {
        drop(body);
        lease.give_back(kept_for);
        ResponseBody::Empty
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    if let Some(reason) = reason {
        response.extensions_mut().insert(reason);
    }
    Ok(response)
}

/// What hyper would take although two readers may come to two bodies (RFC 9112 sections 6.1 and 6.3).
fn check_framing(headers: &HeaderMap, version: Version, has_body: bool) -> Result<(), &'static str> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next().filter(|_| has_body) else { return Ok(()) };
    if headers.contains_key(header::CONTENT_LENGTH) {
        return Err("both Transfer-Encoding and Content-Length");
    }
    let chunked = coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
    if !chunked || codings.next().is_some() || version != Version::HTTP_11 {
        return Err("a transfer coding that is not chunked alone");
    }
    Ok(())
}

/// One Content-Length, and none where there must not be one (RFC 9110 section 8.6).
fn settle_length(headers: &mut HeaderMap, status: StatusCode) {
    if !headers.contains_key(header::CONTENT_LENGTH) {
        return;
    }
    let values =
        headers.get_all(header::CONTENT_LENGTH).iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let lengths: Option<Vec<u64>> =
        values.map(|length| std::str::from_utf8(length.trim_ascii()).ok()?.parse().ok()).collect();
    let length = lengths.filter(|lengths| lengths.windows(2).all(|two| two[0] == two[1])).map(|lengths| lengths[0]);
    match length.filter(|_| status != StatusCode::NO_CONTENT) {
        Some(length) => drop(headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length))),
        None => drop(headers.remove(header::CONTENT_LENGTH)),
    }
}

/// Joins the two connections, once the client has its 101.
fn switch(mut answer: Response<Incoming>, upgrade: Upgrade, pending: PendingRequest) -> Response<ResponseBody> {
    let theirs = hyper::upgrade::on(&mut answer);
    tokio::spawn(async move {
        let _pending = pending;
        if let Ok(stream) = theirs.await {
            tunnel::tunnel(upgrade, TokioIo::new(stream), Bytes::new()).await;
        }
    });
    let protocol = answer.headers().get(header::UPGRADE).cloned();
    let mut headers = std::mem::take(answer.headers_mut());
    keep_end_to_end(&mut headers);
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    if let Some(protocol) = protocol {
        headers.insert(header::UPGRADE, protocol);
    }
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = headers;
    response
}

/// A response body as it comes from the upstream, read no faster than it is taken. One that is cut off is an error.
pub struct UpstreamBody {
    /// What came together with the head.
    first: Option<Frame<Bytes>>,
    body: Incoming,
    /// The connection until the body is complete, and for how long the upstream keeps it, if it says so.
    lease: Option<(HostLease, Option<Duration>)>,
}

impl UpstreamBody {
    fn new(body: Incoming, lease: HostLease, kept_for: Option<Duration>) -> UpstreamBody {
        let mut relayed = UpstreamBody { first: None, body, lease: Some((lease, kept_for)) };
        relayed.look();
        relayed
    }

    /// Err: the body is broken before its first piece.
    async fn await_first(&mut self) -> io::Result<()> {
        if self.body.is_end_stream() {
            return Ok(());
        }
        if let Ok(Some(first)) =
            tokio::time::timeout(FIRST_PIECE, poll_fn(|cx| Pin::new(&mut *self).poll_frame(cx))).await
        {
            self.first = Some(first?);
        }
        Ok(())
    }

    /// Gives the connection back when there is no more to come.
    fn look(&mut self) {
        if self.body.is_end_stream() {
            self.done();
        }
    }

    fn done(&mut self) {
        if let Some((lease, kept_for)) = self.lease.take() {
            lease.give_back(kept_for);
        }
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        loop {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                None => {
                    self.done();
                    return Poll::Ready(None);
                }
                Some(Ok(frame)) if frame.is_data() => {
                    self.look();
                    return Poll::Ready(Some(Ok(frame)));
                }
                // Trailers stay here (RFC 9110 section 6.5.1 lets them be dropped).
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    if let Some((lease, _)) = self.lease.take() {
                        lease.failed("its response broke off");
                    }
                    return Poll::Ready(Some(Err(io::Error::other(error))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let taken = self.first.as_ref().and_then(Frame::data_ref).map_or(0, |first| first.len() as u64);
        let left = self.body.size_hint();
        match left.exact() {
            Some(left) => SizeHint::with_exact(left + taken),
            None => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn framing_that_can_be_read_in_two_ways_is_refused() {
        let fine = |lines: &[_], version| check_framing(&headers(lines), version, true).is_ok();
        let (te, cl) = ("transfer-encoding", "content-length");
        assert!(fine(&[(te, "Chunked ")], Version::HTTP_11) && fine(&[(cl, "3")], Version::HTTP_10));
        assert!(!fine(&[(te, "chunked"), (cl, "3")], Version::HTTP_11));
        assert!(!fine(&[(te, "gzip, chunked")], Version::HTTP_11));
        assert!(!fine(&[(te, "gzip"), (te, "chunked")], Version::HTTP_11));
        assert!(!fine(&[(te, "chunked")], Version::HTTP_10));
        assert!(check_framing(&headers(&[(te, "chunked"), (cl, "3")]), Version::HTTP_11, false).is_ok());
    }

    #[test]
    fn one_length_or_none() {
        for (given, status, left) in [
            (&["3"][..], 200, Some("3")),
            (&["3", "3"], 200, Some("3")),
            (&["3, 3"], 304, Some("3")),
            (&["3", "4"], 200, None),
            (&["x"], 304, None),
            (&["0"], 204, None),
            (&[], 200, None),
        ] {
            let lines: Vec<_> = given.iter().map(|length| ("content-length", *length)).collect();
            let mut headers = headers(&lines);
            settle_length(&mut headers, StatusCode::from_u16(status).unwrap());
            let found: Vec<_> = headers.get_all("content-length").iter().map(|value| value.to_str().unwrap()).collect();
            assert_eq!(found, left.into_iter().collect::<Vec<_>>(), "{given:?}");
        }
    }
}
