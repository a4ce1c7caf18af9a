//! One request's conversation with a worker thread, from the request frame to the moment the thread is idle again.
//! It runs as a task of its own, so that a client that leaves never leaves a channel half read. It never touches the client.

use std::{
    io,
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::{BufMut, Bytes};
use http_body_util::{BodyExt, Limited};
use tokio::{
    net::UnixStream,
    sync::{mpsc, oneshot},
    time::{sleep_until, Instant},
};

use super::{
    queue::{Complaint, Lease},
    response_buffer::{buffer, Reader, Writer},
};
use crate::{
    account::Acting,
    http::{incoming::Arriving, spool::NamedSpool},
    memory::BODIES,
    static_files::{self, FileBody},
    worker::{
        channel::Progress,
        frame::{encode, kind, AppError, Counters, FromWorker, HeadKind, HeaderPairs},
    },
};

/// Bytes up to which a whole response is left out of the account.
const SMALL: usize = 16 << 10;

/// What a worker is asked, and how patiently.
pub struct Request {
    /// The encoded REQUEST frame.
    pub frame: Bytes,
    /// A body that is passed on as it comes (REQUEST flag STREAMED).
    pub body: Option<Limited<Arriving>>,
    /// A spooled body's file: unlinked when the conversation is over.
    pub spooled: Option<Arc<NamedSpool>>,
    /// "GET /path", for the log.
    pub label: String,
    pub soft_timeout: Option<Duration>,
    pub hard_timeout: Option<Duration>,
    /// Bytes of the response held in memory and in a file for a slow client.
    pub memory: usize,
    pub spool: u64,
    /// Where 103 responses go.
    pub hints: mpsc::UnboundedSender<HeaderPairs>,
    /// Set when the worker has reported.
    pub counters: Arc<OnceLock<Counters>>,
}

/// The worker's answer, as far as it decides what the client gets.
pub enum Answer {
    Response {
        status: u16,
        headers: HeaderPairs,
        body: AnswerBody,
    },
    /// The app raised before it had a response.
    Raised(AppError),
    /// The channel is now the client's byte stream. `head` is None for a full hijack.
    Hijacked {
        head: Option<(u16, HeaderPairs)>,
        stream: UnixStream,
        received: Bytes,
    },
    /// The worker went away without an answer.
    Died,
    /// The worker had closed its end before a byte of the request was sent: it was draining, and knows nothing of it.
    Untaken,
    /// The hard time-out passed; the worker is being replaced.
    TimedOut,
}

/// A response body: whole, arriving, or in a file.
pub enum AnswerBody {
    Whole(Bytes),
    Arriving(Reader),
    /// Whole, but too many such bodies are in memory.
    Spooled {
        length: u64,
        body: Reader,
    },
    File {
        length: u64,
        file: FileBody,
    },
}

/// Talks to the worker until its thread is idle again. Dropping `reply`'s receiver or the body cancels the request: the
/// worker is told, and what it still sends is read and thrown away.
pub async fn converse(mut lease: Lease, mut request: Request, reply: oneshot::Sender<Answer>) {
    if lease.channel().attach().is_err() {
        return;
    }
    lease.channel().queue(&request.frame);
    let mut conversation = Conversation { lease, body: request.body.take(), cancelled: false };
    let Some(first) = conversation.first_frame(&request, reply).await else { return };
    let (frame, reply) = first;
    match frame {
        FromWorker::Response { status, busy, counters, headers, body } => {
            let _ = request.counters.set(counters);
            let body = whole(body, &request).await;
            let _ = reply.send(Answer::Response { status, headers, body });
            conversation.finish(busy).await;
        }
        FromWorker::Error { busy, counters, error } => {
            let _ = request.counters.set(counters);
            let _ = reply.send(Answer::Raised(error));
            conversation.finish(busy).await;
        }
        FromWorker::Head { status, kind: HeadKind::Chunks, headers } => {
            let (writer, reader) = buffer(request.memory, request.spool);
            let _ = reply.send(Answer::Response { status, headers, body: AnswerBody::Arriving(reader) });
            conversation.relay(writer, &request.counters).await;
        }
        FromWorker::Head { status, kind: HeadKind::File, headers } => {
            conversation.file(status, headers, reply, &request.counters).await;
        }
        FromWorker::Head { status, kind: HeadKind::Raw, headers } => {
            hijacked(conversation.lease, Some((status, headers)), reply);
        }
        FromWorker::Hijack => hijacked(conversation.lease, None, reply),
        // Any other frame here breaks the protocol; dropping the lease reports the worker.
        _ => {
            let _ = reply.send(Answer::Died);
        }
    }
}

/// A body that came whole. A small one is not worth counting.
async fn whole(body: Bytes, request: &Request) -> AnswerBody {
    if body.len() <= SMALL {
        return AnswerBody::Whole(body);
    }
    match BODIES.hold(body) {
        Ok(body) => AnswerBody::Whole(body),
        Err(body) => {
            let length = body.len() as u64;
            let (mut writer, reader) = buffer(request.memory, request.spool);
            // The first piece never waits.
            let _ = writer.write(body).await;
            AnswerBody::Spooled { length, body: reader }
        }
    }
}

fn hijacked(lease: Lease, head: Option<(u16, HeaderPairs)>, reply: oneshot::Sender<Answer>) {
    if let Ok((stream, received)) = lease.take().into_raw() {
        let _ = reply.send(Answer::Hijacked { head, stream, received });
    }
}

struct Conversation {
    lease: Lease,
    body: Option<Limited<Arriving>>,
    cancelled: bool,
}

impl Conversation {
    /// The frame that decides the answer. None: the reply has been given (or nobody wants it) and all is over.
    async fn first_frame(
        &mut self,
        request: &Request,
        mut reply: oneshot::Sender<Answer>,
    ) -> Option<(FromWorker, oneshot::Sender<Answer>)> {
        let start = Instant::now();
        let far = Duration::from_secs(365 * 86_400);
        let mut soft = request.soft_timeout.map(|after| start + after);
        let hard = start + request.hard_timeout.unwrap_or(far);
        loop {
            let cancelled = self.cancelled;
            let frame = tokio::select! {
                biased;
                frame = self.next() => frame,
                _ = reply.closed(), if !cancelled => {
                    self.cancel();
                    continue;
                }
                _ = sleep_until(soft.unwrap_or(hard)), if soft.is_some() => {
                    soft = None;
                    let thread = self.lease.channel().thread;
                    self.lease.complain(Complaint::Slow { thread, request: request.label.clone() });
                    continue;
                }
                _ = sleep_until(hard) => {
                    let thread = self.lease.channel().thread;
                    let reason = format!("{} ran for {:?}, longer than app_hard_timeout", request.label, start.elapsed());
                    self.lease.complain(Complaint::Replace { thread, reason });
                    self.lease.disarm();
                    let _ = reply.send(Answer::TimedOut);
                    return None;
                }
            };
            match frame {
                Ok(FromWorker::EarlyHints(headers)) => {
                    let _ = request.hints.send(headers);
                }
                Ok(frame) => return Some((frame, reply)),
                Err(error) => {
                    let untaken = self.lease.channel().unsent() == request.frame.len();
                    self.broken(&error);
                    let _ = reply.send(if untaken { Answer::Untaken } else { Answer::Died });
                    return None;
                }
            }
        }
    }

    /// The next frame from the worker; sends what is queued, and the request body if it streams, meanwhile.
    async fn next(&mut self) -> io::Result<FromWorker> {
        loop {
            let may_send = self.body.is_some() && self.lease.channel().drained();
            tokio::select! {
                biased;
                progress = progress(&mut self.lease) => {
                    if let Progress::Received(frame) = progress? {
                        return Ok(frame);
                    }
                }
                piece = next_piece(&mut self.body), if may_send => {
                    let frame = match piece {
                        Piece::Data(bytes) => encode(kind::BODY, |out| out.put_slice(&bytes)),
                        Piece::End => encode(kind::BODY_END, |out| out.put_u8(0)),
                        Piece::CutOff => encode(kind::BODY_END, |out| out.put_u8(1)),
                    };
                    self.lease.channel().queue(&frame);
                }
            }
        }
    }

    fn cancel(&mut self) {
        if !self.cancelled {
            self.cancelled = true;
            self.end_body();
            self.lease.channel().queue(&encode(kind::CANCEL, |_| {}));
        }
    }

    /// A body that nobody will read any more is cut off, so that the worker does not wait for it.
    fn end_body(&mut self) {
        if self.body.take().is_some() {
            self.lease.channel().queue(&encode(kind::BODY_END, |out| out.put_u8(1)));
        }
    }

    /// The body is a file, which is opened before the head goes out: so its length is known, and a file that can't be
    /// opened is an error page.
    async fn file(
        mut self,
        status: u16,
        headers: HeaderPairs,
        reply: oneshot::Sender<Answer>,
        counters: &OnceLock<Counters>,
    ) {
        let opened = match self.next().await {
            Ok(FromWorker::File(path)) => {
                // As the worker's own account could: it names whatever it likes.
                let account = self.lease.account.clone();
                let opening = Acting::new(account, Box::pin(static_files::plain_file(&path)));
                opening.await.map_err(|error| unopened(&path, &error))
            }
            Ok(_) => return drop(reply.send(Answer::Died)),
            Err(error) => {
                let _ = reply.send(Answer::Died);
                return self.broken(&error);
            }
        };
        match self.next().await {
            Ok(FromWorker::End { busy, counters: counted }) => {
                let _ = counters.set(counted);
                let _ = reply.send(match opened {
                    Ok((length, file)) => Answer::Response { status, headers, body: AnswerBody::File { length, file } },
                    Err(error) => Answer::Raised(error),
                });
                self.finish(busy).await;
            }
            Ok(_) => drop(reply.send(Answer::Died)),
            Err(error) => {
                let _ = reply.send(Answer::Died);
                self.broken(&error);
            }
        }
    }

    /// Passes the body on until it ends; once the client is gone, tells the worker and throws the rest away.
    async fn relay(mut self, writer: Writer, counters: &OnceLock<Counters>) {
        let mut writer = Some(writer);
        loop {
            let frame = match &writer {
                Some(open) => tokio::select! {
                    biased;
                    frame = self.next() => frame,
                    _ = open.gone() => {
                        writer = None;
                        self.cancel();
                        continue;
                    }
                },
                None => self.next().await,
            };
            match frame {
                Ok(FromWorker::Chunk(bytes)) => {
                    if let Some(open) = &mut writer {
                        if open.write(bytes).await.is_err() {
                            writer = None;
                            self.cancel();
                        }
                    }
                }
                Ok(FromWorker::End { busy, counters: counted }) => {
                    let _ = counters.set(counted);
                    drop(writer);
                    return self.finish(busy).await;
                }
                Ok(FromWorker::Abort { busy, counters: counted }) => {
                    let _ = counters.set(counted);
                    if let Some(open) = writer.take() {
                        open.abort();
                    }
                    return self.finish(busy).await;
                }
                Ok(_) => {
                    if let Some(open) = writer.take() {
                        open.abort();
                    }
                    return;
                }
                Err(error) => {
                    if let Some(open) = writer.take() {
                        open.abort();
                    }
                    return self.broken(&error);
                }
            }
        }
    }

    /// The response is complete: when the thread is idle too, the next request may have it.
    async fn finish(mut self, busy: bool) {
        self.end_body();
        if busy {
            match self.next().await {
                Ok(FromWorker::Idle) => {}
                Ok(_) => return,
                Err(error) => return self.broken(&error),
            }
        }
        while !self.lease.channel().drained() {
            if let Err(error) = progress(&mut self.lease).await {
                return self.broken(&error);
            }
        }
        self.lease.give_back();
    }

    /// The channel failed. EOF means that the worker is gone, which the supervisor learns by itself.
    fn broken(&mut self, error: &io::Error) {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        if matches!(error.kind(), UnexpectedEof | BrokenPipe | ConnectionReset) {
            self.lease.disarm();
        }
    }
}

fn unopened(path: &Path, error: &io::Error) -> AppError {
    let message = format!("the body's file {} can't be opened: {error}", path.display());
    AppError { class: "Paceline::InvalidResponse".into(), message, ..AppError::default() }
}

async fn progress(lease: &mut Lease) -> io::Result<Progress> {
    lease.channel().progress().await
}

enum Piece {
    Data(Bytes),
    End,
    CutOff,
}

async fn next_piece(body: &mut Option<Limited<Arriving>>) -> Piece {
    let Some(open) = body else { return std::future::pending().await };
    loop {
        match open.frame().await {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => return Piece::Data(data),
                Err(_trailers) => continue,
            },
            Some(Err(_)) => {
                *body = None;
                return Piece::CutOff;
            }
            None => {
                *body = None;
                return Piece::End;
            }
        }
    }
}
