//! The control listener on a TCP address, for browsers and for programs that collect figures: behind its gate the same
//! routes as on the socket. It never listens beyond loopback without a token; the configuration sees to that.

use std::{
    convert::Infallible,
    future::Future,
    io::ErrorKind,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::{Duration, Instant},
};

use http::{header, HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{sync::Semaphore, task::JoinHandle};

use super::{
    answer::{refused, Body, Refusal},
    gate::Gate,
    parts, router, ControlError, HEAD_TIMEOUT, MAX_CONNECTIONS,
};
use crate::{config::ControlWeb, observe::log::Name, request::front::Front};

/// What a browser is told of everything that it gets here: nothing of it is kept, framed, guessed at or sent on, and
/// only the page's own script runs.
const FENCES: [(HeaderName, &str); 5] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
];

/// How long what was sent may stay untaken.
pub const UNTAKEN: Duration = Duration::from_secs(30);

/// The address, and who listens there.
pub struct Web {
    config: ControlWeb,
    /// None: a front that we take over from still has it.
    listener: Option<TcpListener>,
    serving: Option<JoinHandle<()>>,
}

impl Web {
    /// Opens it. `successor`: it may be had by a front that we take over from, until that is gone (`look`).
    pub fn open(config: &ControlWeb, successor: bool) -> Result<Web, ControlError> {
        let listener = match TcpListener::bind(config.address) {
            Ok(listener) => Some(listener),
            Err(error) if successor && error.kind() == ErrorKind::AddrInUse => None,
            Err(error) => return Err(ControlError::Address { address: config.address, error }),
        };
        Ok(Web { config: config.clone(), listener, serving: None })
    }

    /// Answers from now on. Must be called within the event loop that is to do it.
    pub fn serve(&mut self, server: &Arc<Front>) {
        let Some(listener) = &self.listener else { return };
        let listening = listener
            .set_nonblocking(true)
            .and_then(|()| listener.try_clone())
            .and_then(tokio::net::TcpListener::from_std)
            .and_then(|listener| Ok((listener.local_addr()?, listener)));
        let Ok((address, listener)) = listening else { return };
        server.log.event(Name::Listening, format!("The control listener is http://{address}/"));
        let token = self.config.token.as_ref().map(|token| token.0.clone());
        let (gate, server) = (Arc::new(Gate::new(token, address.port())), server.clone());
        let answer = move |request: Request<Incoming>, from: SocketAddr| {
            let (gate, server) = (gate.clone(), server.clone());
            async move {
                let (head, body) = request.into_parts();
                match gate.pass(&head, from.ip(), Instant::now()) {
                    Ok(()) if parts::is_for_the_socket_alone(head.uri.path()) => {
                        let why = "this is answered on the control socket only".into();
                        refused(Refusal { status: StatusCode::FORBIDDEN, why })
                    }
                    Ok(()) => router::answer(Request::from_parts(head, body), server).await,
                    Err(answer) => *answer,
                }
            }
        };
        if let Some(before) = self.serving.replace(tokio::spawn(accept(listener, answer))) {
            before.abort();
        }
    }

    /// Tries again to have the address.
    pub fn look(&mut self, server: &Arc<Front>) {
        if self.listener.is_none() {
            self.listener = TcpListener::bind(self.config.address).ok();
            self.serve(server);
        }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
    }
}

/// Serves HTTP/1.1 to so many at a time; the kernel lets others wait.
pub async fn accept<F, A>(listener: tokio::net::TcpListener, answer: F)
where
    F: Fn(Request<Incoming>, SocketAddr) -> A + Clone + Send + 'static,
    A: Future<Output = Response<Body>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Whoever takes nothing of what was sent, a stream of events say, frees his place.
        let _ = socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(UNTAKEN));
        let answer = answer.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answering = answer(request, from);
                async move {
                    let mut response = answering.await;
                    fence(response.headers_mut());
                    Ok::<_, Infallible>(response)
                }
            });
            let mut connection = http1::Builder::new();
            connection.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(64 << 10);
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
            drop(place);
        });
    }
}

fn fence(headers: &mut HeaderMap) {
    for (name, value) in FENCES {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
