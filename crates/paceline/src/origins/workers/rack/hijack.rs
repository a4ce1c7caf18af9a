//! Hijacked channels: the app writes bytes of its own, the front makes a response or an upgraded connection of them
//! (Rack SPEC "Hijacking"; RFC 9110 section 7.8).
//! It never interprets what flows after the head.

use std::{
    io,
    pin::Pin,
    task::{ready, Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http::{header, Response, StatusCode};
use http_body::{Body, Frame};
use tokio::{
    io::{AsyncRead, AsyncReadExt, ReadBuf},
    net::UnixStream,
};

use super::{
    dechunk::{take_coding, Decoder},
    response::{header_map, status_code, unknown_coding, Unsendable},
};
use crate::{
    content::body::ResponseBody,
    exchange::{tunnel::tunnel, Upgrade},
    origins::workers::protocol::{fields::put_pair, frame::HeaderPairs, hijacked::Hijacked},
};

/// Largest response head an app may write itself.
const HEAD: usize = 64 << 10;

/// Makes a response of a hijacked channel. `head` is given by a partial hijack; a full one writes it on the stream.
pub async fn respond(
    head: Option<(u16, HeaderPairs)>,
    mut stream: UnixStream,
    received: Bytes,
    open: Hijacked,
    upgrade: Option<Upgrade>,
) -> Result<Response<ResponseBody>, Unsendable> {
    let (status, pairs, received) = match head {
        Some((status, pairs)) => (status, pairs, received),
        None => read_head(&mut stream, BytesMut::from(&received[..])).await?,
    };
    let status = status_code(status)?;
    let mut headers = header_map(&pairs)?;
    if status == StatusCode::SWITCHING_PROTOCOLS {
        let upgrade = upgrade.ok_or_else(|| Unsendable("101 for a request that asked for no upgrade".into()))?;
        tokio::spawn(async move {
            let _open = open;
            tunnel(upgrade, stream, received).await;
        });
        let mut response = Response::new(ResponseBody::Empty);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        return Ok(response);
    }
    headers.remove(header::CONNECTION);
    let decoder = take_coding(&mut headers).map_err(unknown_coding)?.then(Decoder::default);
    if decoder.is_some() {
        headers.remove(header::CONTENT_LENGTH);
    }
    let mut response = Response::new(ResponseBody::hijacked(RawBody { stream, received, decoder, _open: open }));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

async fn read_head(stream: &mut UnixStream, mut received: BytesMut) -> Result<(u16, HeaderPairs, Bytes), Unsendable> {
    loop {
        let mut fields = [httparse::EMPTY_HEADER; 100];
        let mut parsed = httparse::Response::new(&mut fields);
        match parsed.parse(&received) {
            Ok(httparse::Status::Complete(length)) => {
                let mut pairs = Vec::new();
                parsed.headers.iter().for_each(|field| put_pair(&mut pairs, field.name, field.value));
                let status = parsed.code.unwrap_or(0);
                return Ok((status, HeaderPairs::new(pairs.into()), received.split_off(length).freeze()));
            }
            Ok(httparse::Status::Partial) if received.len() < HEAD => {}
            _ => return Err(Unsendable("a hijacking app wrote no HTTP response head".into())),
        }
        match stream.read_buf(&mut received).await {
            Ok(count) if count > 0 => {}
            _ => return Err(Unsendable("a hijacking app closed without a response head".into())),
        }
    }
}

/// The body that a hijacking app writes until it closes the stream.
pub struct RawBody {
    stream: UnixStream,
    received: Bytes,
    decoder: Option<Decoder>,
    _open: Hijacked,
}

impl RawBody {
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        if !self.received.is_empty() {
            return Poll::Ready(Ok(std::mem::take(&mut self.received)));
        }
        let mut bytes = vec![0; 16 << 10];
        let mut buffer = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        let count = buffer.filled().len();
        bytes.truncate(count);
        Poll::Ready(Ok(bytes.into()))
    }
}

impl Body for RawBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            if self.decoder.as_ref().is_some_and(Decoder::is_done) {
                return Poll::Ready(None);
            }
            let bytes = ready!(self.poll_bytes(cx))?;
            match &mut self.decoder {
                None => return Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes)))),
                Some(decoder) => {
                    let (ended, mut data) = (bytes.is_empty(), BytesMut::new());
                    if ended {
                        decoder.finish(&mut data)?
                    } else {
                        decoder.decode(bytes, &mut data)?
                    }
                    if ended || !data.is_empty() {
                        return Poll::Ready((!data.is_empty()).then(|| Ok(Frame::data(data.freeze()))));
                    }
                }
            }
        }
    }
}
