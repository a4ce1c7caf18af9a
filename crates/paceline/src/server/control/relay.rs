//! The control socket of a running server, for a browser: a port of loopback behind a gate, from which what is read is
//! passed on. It passes nothing on that changes anything.

use std::{
    convert::Infallible,
    error::Error,
    io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{ready, Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use http::{header, Method, Request, Response, StatusCode};
use http_body::{Body as HttpBody, Frame};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, UnixStream};

use super::{
    answer::{refused, Body, Refusal},
    gate::Gate,
    web,
};

/// Relays until its process ends; `told` hears the address for a browser, which opens once.
pub fn run(socket: &Path, port: u16, told: impl FnOnce(&str)) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let address = listener.local_addr()?;
        let token = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        told(&format!("http://{address}/?token={token}"));
        let (gate, socket) = (Arc::new(Gate::once(token, address.port())), socket.to_path_buf());
        web::accept(listener, move |request: Request<Incoming>, from| {
            let (gate, socket) = (gate.clone(), socket.clone());
            async move {
                match gate.pass(&request_head(&request), from.ip(), Instant::now()) {
                    Ok(()) => pass_on(&request, socket).await.unwrap_or_else(|why| {
                        refused(Refusal {
                            status: StatusCode::BAD_GATEWAY,
                            why: format!("the server does not answer: {why}"),
                        })
                    }),
                    Err(answer) => *answer,
                }
            }
        })
        .await;
        Ok(())
    })
}

/// What the gate looks at.
fn request_head(request: &Request<Incoming>) -> http::request::Parts {
    let mut head = Request::new(()).into_parts().0;
    head.method = request.method().clone();
    head.uri = request.uri().clone();
    head.headers = request.headers().clone();
    head
}

async fn pass_on(request: &Request<Incoming>, socket: PathBuf) -> Result<Response<Body>, Box<dyn Error + Send + Sync>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let why = "this listener is read-only: use the control socket".into();
        return Ok(refused(Refusal { status: StatusCode::FORBIDDEN, why }));
    }
    let stream = UnixStream::connect(socket).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let mut onward = Request::builder().method(request.method()).uri(target).header(header::HOST, "localhost");
    for name in [header::ACCEPT, header::HeaderName::from_static("last-event-id")] {
        if let Some(value) = request.headers().get(&name) {
            onward = onward.header(name, value);
        }
    }
    let onward = onward.body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(onward).await?;
    Ok(answer.map(|body| RelayedBody { body, _sender: sender }.boxed_unsync()))
}

/// A body that ends where the other side breaks off. The connection lives as long as it.
struct RelayedBody {
    body: Incoming,
    _sender: http1::SendRequest<Empty<Bytes>>,
}

impl HttpBody for RelayedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(ready!(Pin::new(&mut self.body).poll_frame(context)).and_then(Result::ok).map(Ok))
    }
}
