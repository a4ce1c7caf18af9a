//! One exchange over an HTTP/2 connection. Never keeps a body.

use std::{future::poll_fn, time::Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use http::{header, HeaderMap, Method, Request};

use super::{
    stream::{micros, Stream},
    Answer, Fault,
};
use crate::parts::Inside;

/// Bytes of bodies that the server may send before they are read.
const WINDOW: u32 = 1 << 20;

/// A connection that speaks HTTP/2; its frames are handled by a task of its own.
#[derive(Clone)]
pub struct H2(SendRequest<Bytes>);

impl H2 {
    /// In a `LocalSet`.
    pub async fn new(stream: Stream) -> Result<H2, Fault> {
        let handshake = h2::client::Builder::new()
            .initial_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .enable_push(false)
            .handshake(stream);
        let (sender, connection) = handshake.await.map_err(|error| fault(&error))?;
        tokio::task::spawn_local(async move {
            // The exchanges see what went wrong.
            let _ = connection.await;
        });
        Ok(H2(sender))
    }

    /// `url`: of the target. `fields`: all but Host.
    pub async fn exchange(
        &mut self,
        method: &Method,
        url: &http::Uri,
        fields: &HeaderMap,
        body: &Bytes,
        wants_server: bool,
    ) -> Result<Answer, Fault> {
        let began = Instant::now();
        poll_fn(|cx| self.0.poll_ready(cx)).await.map_err(|error| fault(&error))?;
        let mut request = Request::new(());
        *request.method_mut() = method.clone();
        *request.uri_mut() = url.clone();
        *request.headers_mut() = fields.clone();
        request.headers_mut().remove(header::CONNECTION);
        request.headers_mut().remove(header::HOST);
        let (response, mut stream) = self.0.send_request(request, body.is_empty()).map_err(|error| fault(&error))?;
        if !body.is_empty() {
            send(&mut stream, body.clone()).await?;
        }
        let upload = micros(began);
        let sent = Instant::now();
        let response = response.await.map_err(|error| fault(&error))?;
        let wait = micros(sent);
        let first = Instant::now();
        let field = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let inside = response.headers().get_all("server-timing").iter().filter_map(|value| value.to_str().ok());
        let inside = inside.filter_map(Inside::parse).next_back();
        let server = field(header::SERVER).filter(|_| wants_server).map(str::to_owned);
        let status = response.status().as_u16();
        let head: usize = response.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        let mut incoming = response.into_body();
        let mut length = 0;
        while let Some(piece) = incoming.data().await {
            let piece = piece.map_err(|error| fault(&error))?;
            length += piece.len() as u64;
            incoming.flow_control().release_capacity(piece.len()).map_err(|error| fault(&error))?;
        }
        let response = micros(first);
        Ok(Answer {
            status,
            upload,
            wait,
            response,
            length,
            received: head as u64 + length,
            inside,
            keeps: true,
            server,
        })
    }
}

async fn send(stream: &mut h2::SendStream<Bytes>, mut body: Bytes) -> Result<(), Fault> {
    while !body.is_empty() {
        stream.reserve_capacity(body.len());
        let granted = poll_fn(|cx| stream.poll_capacity(cx)).await.ok_or(Fault::Closed)?;
        let granted = granted.map_err(|error| fault(&error))?.min(body.len());
        let piece = body.split_to(granted);
        stream.send_data(piece, body.is_empty()).map_err(|error| fault(&error))?;
    }
    Ok(())
}

fn fault(error: &h2::Error) -> Fault {
    match error.get_io() {
        Some(error) => Fault::of(error, true),
        None if error.is_go_away() => Fault::Closed,
        None => {
            Fault::Http2(error.reason().map_or_else(|| error.to_string(), |reason| reason.description().to_owned()))
        }
    }
}
