//! The socket on which processes of the machine ask. One call at a time on each connection; who closes it leaves its
//! call. It never makes a call itself.

use std::{convert::Infallible, sync::Arc, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::UnixListener, sync::Semaphore};

use super::{call::call, Egress, SWEEP};

/// Connections at a time; the kernel lets others wait.
const MAX_CONNECTIONS: usize = 256;
/// A longer head of a request is refused: certificates may be in it.
const BUFFER: usize = 256 << 10;
/// So is one with more fields.
const MAX_FIELDS: usize = 1024;

/// Serves for as long as it is not dropped.
pub async fn serve(listener: UnixListener, egress: Arc<Egress>) {
    let sweeping = tokio::spawn({
        let egress = egress.clone();
        async move {
            loop {
                tokio::time::sleep(SWEEP).await;
                egress.sweep();
            }
        }
    });
    let _ended = TaskGuard(sweeping);
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let egress = egress.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let egress = egress.clone();
                async move { Ok::<_, Infallible>(call(&egress, request).await) }
            });
            let mut connection = http1::Builder::new();
            // A client keeps its connections for as long as it likes.
            connection
                .timer(TokioTimer::new())
                .header_read_timeout(None)
                .max_buf_size(BUFFER)
                .max_headers(MAX_FIELDS)
                .preserve_header_case(true)
                .auto_date_header(false);
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
            drop(place);
        });
    }
}

/// A task that ends with this.
struct TaskGuard(tokio::task::JoinHandle<()>);

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}
