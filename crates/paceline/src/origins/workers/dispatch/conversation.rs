//! One request's conversation with a worker thread, from the request frame to the moment the thread is idle again.
//! It runs within the request's own task until that leaves it, then in one of its own, so that a client that leaves
//! never leaves a channel half read. It never touches the client.

use std::{future::Future, io, pin::Pin, sync::Arc};

use bytes::BufMut;
use http::{Method, StatusCode, Uri};
use http_body_util::Limited;
use tokio::{
    runtime::Handle,
    time::{sleep_until, Instant},
};

mod closing;
mod ending;
mod message;

pub use message::{Answer, Request};

use self::ending::{hijacked, spooled, unopened, whole};
use super::{
    queue::{Complaint, Lease, Offer},
    request_body::{next_piece, Piece},
};
use crate::{
    content::static_files,
    exchange::incoming::Arriving,
    observe::in_flight::Held,
    origins::workers::{
        protocol::{
            channel::{Misdirected, Progress},
            frame::{encode, kind, AppError, FromWorker, HeadKind, HeaderPairs},
            spin::WaitingConversation,
        },
        rack::response::{header_map, AnswerBody},
        response_buffer::{buffer, Writer},
    },
    support::{
        site_files::SiteFiles,
        stall::hear_out,
        tick::{Pace, Tick},
    },
};

/// After so many ticks, of which each looks into the thread's mailbox as well, a request that others may follow is
/// longer than was expected, and those behind it are given to other threads: 10 to 15 ms.
const fn ticks_to_release(pace: Pace) -> u32 {
    match pace {
        Pace::Fast => 10,
        Pace::Slow => 3,
    }
}

/// Brings a request to its end that nobody waits for any more, and that a thread has claimed.
pub fn abandon(lease: Lease, offer: Offer) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(end_unattended(lease, offer))
}

async fn end_unattended(lease: Lease, offer: Offer) {
    let request = Request {
        number: offer.number,
        frame: offer.frame,
        body: None,
        spooled: None,
        method: Method::GET,
        uri: Uri::default(),
        soft_timeout: None,
        hard_timeout: None,
        memory: 0,
        spool: 0,
        after_reply: None,
        hints: None,
        counters: Arc::default(),
        record: None,
        held: Held::default(),
    };
    let Ok(mut conversation) = Conversation::begin(lease, request) else { return };
    conversation.cancel();
    let first = conversation.first_frame().await;
    drop(conversation.outcome(first));
}

/// Talks to the worker until the answer is known. What is left to do after that (the rest of a body, a thread that is
/// still busy) is done by a task of its own.
///
/// Dropping the future or the answer's body cancels the request: the worker is told, and what it still sends is read
/// and thrown away.
pub async fn converse(conversation: Box<Conversation>) -> Answer {
    let mut attended = ConversationGuard(Some(conversation));
    let Some(conversation) = &mut attended.0 else { return Answer::Died };
    let first = conversation.first_frame().await;
    match attended.0.take().map(|conversation| conversation.outcome(first)) {
        Some(Outcome::Known(answer)) => answer,
        Some(Outcome::Later(answer)) => answer.await,
        None => Answer::Died,
    }
}

/// A conversation that somebody waits for. When nobody does any more, it is brought to its end all the same: a channel
/// is never left half read.
struct ConversationGuard(Option<Box<Conversation>>);

impl Drop for ConversationGuard {
    fn drop(&mut self) {
        let (Some(mut conversation), Ok(runtime)) = (self.0.take(), Handle::try_current()) else { return };
        runtime.spawn(async move {
            conversation.cancel();
            let first = conversation.first_frame().await;
            drop(conversation.outcome(first));
        });
    }
}

/// One request's talk with the thread that it was given.
pub struct Conversation {
    lease: Lease,
    request: Request,
    body: Option<Limited<Arriving>>,
    started: Instant,
    /// When the time-outs pass that have not.
    soft: Option<Instant>,
    hard: Option<Instant>,
    /// Time was given to an answer that had come while the front did not run.
    heard_out: bool,
    cancelled: bool,
    /// What the response that follows is the page of.
    raised: Option<Arc<AppError>>,
}

/// What came of a conversation.
enum Outcome {
    Known(Answer),
    /// Rare, and not worth the room in every request's future.
    Later(Pin<Box<dyn Future<Output = Answer> + Send>>),
}

impl Conversation {
    /// On the heap, since it changes hands. Err: the channel is of no use.
    pub fn begin(mut lease: Lease, mut request: Request) -> Result<Box<Conversation>, Answer> {
        if lease.channel().attach().is_err() {
            let claimed = lease.posted.is_some_and(|posted| !lease.channel().revoke(posted));
            return Err(if claimed { Answer::Died } else { Answer::Unread });
        }
        match lease.posted {
            Some(_) => lease.channel().await_answer(request.number),
            None => lease.send(request.number, request.frame.clone()),
        }
        let started = Instant::now();
        let soft = request.soft_timeout.map(|after| started + after);
        let hard = request.hard_timeout.map(|after| started + after);
        let body = request.body.take();
        Ok(Box::new(Conversation {
            lease,
            request,
            body,
            started,
            soft,
            hard,
            heard_out: false,
            cancelled: false,
            raised: None,
        }))
    }

    /// The frame that decides the answer; Err: the answer when there is none. Cancel-safe.
    async fn first_frame(&mut self) -> Result<FromWorker, Answer> {
        let _waiting = WaitingConversation::begin();
        let mut looks = 0;
        let (pace, mut look) = self.look();
        // Only polled, and so only known to the event loop, when there is a time-out.
        let mut timer = std::pin::pin!(sleep_until(self.time_limit().unwrap_or(self.started)));
        loop {
            let (piped, limited) = (self.lease.piped, self.time_limit().is_some());
            let frame = tokio::select! {
                biased;
                frame = self.next() => frame,
                () = look.next(), if piped => {
                    looks += 1;
                    if looks == ticks_to_release(pace) {
                        self.lease.release_followers();
                    }
                    continue;
                }
                () = timer.as_mut(), if limited => {
                    self.overdue()?;
                    timer.as_mut().reset(self.time_limit().unwrap_or(self.started));
                    continue;
                }
            };
            match frame {
                Ok(FromWorker::EarlyHints(headers)) => {
                    let hints = self.request.hints.as_ref().filter(|_| !self.cancelled && headers.size() > 0);
                    // The shim has refused what breaks the framing: this is the second lock.
                    if let (Some(hints), Ok(headers)) = (hints, header_map(&headers)) {
                        hints.interim(StatusCode::EARLY_HINTS, &headers);
                    }
                }
                Ok(FromWorker::Record(record)) => self.request.note_record(record),
                Ok(FromWorker::Raised(error)) => self.raised = Some(Arc::from(error)),
                Ok(FromWorker::Aside) => self.lease.step_aside(),
                Ok(frame) => return Ok(frame),
                Err(error) => {
                    let answer = self.unanswered(&error);
                    self.broken(&error);
                    return Err(answer);
                }
            }
        }
    }

    /// How often it looks for what the worker may not tell of at once.
    fn look(&self) -> (Pace, Tick) {
        let pace = if self.lease.quick { Pace::Fast } else { Pace::Slow };
        (pace, Tick::new(pace))
    }

    /// When the next time-out passes.
    fn time_limit(&self) -> Option<Instant> {
        self.soft.into_iter().chain(self.hard).min()
    }

    /// How far a request got that has no answer. (One that streams is never asked again.)
    fn unanswered(&mut self, error: &io::Error) -> Answer {
        let unsent = self.lease.channel().unsent();
        match (error.kind(), self.lease.posted) {
            _ if is_misdirected(error) => Answer::Misdirected,
            // It was draining, or has died: the request was never claimed.
            (_, Some(posted)) if self.lease.channel().revoke(posted) => Answer::Untaken,
            (_, Some(_)) => Answer::Died,
            _ if unsent == self.request.frame.len() => Answer::Untaken,
            // A Unix socket says so when the other end was closed with bytes in it that nobody had read (unix(7)). A
            // worker reads a request's frame to its end before the app sees any of it.
            (io::ErrorKind::ConnectionReset, _) => Answer::Unread,
            _ if unsent > 0 => Answer::Unread,
            _ => Answer::Died,
        }
    }

    /// A time-out has passed. Err: the hard one.
    fn overdue(&mut self) -> Result<(), Answer> {
        let now = Instant::now();
        if !self.heard_out && hear_out(now, [&mut self.soft, &mut self.hard]) {
            self.heard_out = true;
            return Ok(());
        }
        let thread = self.lease.channel().thread;
        if self.soft.take_if(|soft| *soft <= now).is_some() {
            self.lease.complain(Complaint::Slow { thread, request: self.request.label() });
        }
        if self.hard.is_none_or(|hard| hard > now) {
            return Ok(());
        }
        let ran = self.started.elapsed();
        let reason = format!("{} ran for {ran:?}, longer than app_hard_timeout", self.request.label());
        self.lease.give_up(reason);
        Err(Answer::TimedOut)
    }

    /// What the first frame means.
    fn outcome(mut self: Box<Self>, first: Result<FromWorker, Answer>) -> Outcome {
        if matches!(first, Ok(FromWorker::Head { .. } | FromWorker::Hijack)) {
            // Nobody knows how long it takes.
            self.lease.release_followers();
        }
        let counters = self.request.counters.clone();
        let (memory, spool) = (self.request.memory, self.request.spool);
        let raised = self.raised.take();
        Outcome::Known(match first {
            Err(answer) => answer,
            Ok(FromWorker::Response { status, busy, counters: counted, headers, body }) => {
                let _ = counters.set(counted);
                self.finish(busy);
                match whole(body) {
                    Ok(body) => Answer::Response { status, headers, body, raised },
                    Err(body) => {
                        let spooled = async move {
                            let body = spooled(body, memory, spool).await;
                            Answer::Response { status, headers, body, raised }
                        };
                        return Outcome::Later(Box::pin(spooled));
                    }
                }
            }
            Ok(FromWorker::Error { busy, counters: counted, error }) => {
                let _ = counters.set(counted);
                self.finish(busy);
                Answer::Raised(error)
            }
            Ok(FromWorker::Head { status, kind: kind @ (HeadKind::Chunks | HeadKind::Stream), headers }) => {
                if kind == HeadKind::Stream {
                    self.lease.step_aside();
                }
                let (writer, reader) = buffer(memory, spool);
                tokio::spawn(self.relay(writer));
                Answer::Response { status, headers, body: AnswerBody::Arriving(reader), raised }
            }
            Ok(FromWorker::Head { status, kind: HeadKind::File, headers }) => {
                let file = tokio::spawn(self.file(status, headers));
                return Outcome::Later(Box::pin(async move { file.await.unwrap_or(Answer::Died) }));
            }
            Ok(FromWorker::Head { status, kind: HeadKind::Raw, headers }) => {
                hijacked(self.lease, Some((status, headers)))
            }
            Ok(FromWorker::Hijack) => hijacked(self.lease, None),
            // Any other frame here breaks the protocol; dropping the lease reports the worker.
            Ok(_) => Answer::Died,
        })
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
                    self.lease.channel().queue(frame.into());
                }
            }
        }
    }

    fn cancel(&mut self) {
        if !self.cancelled {
            self.cancelled = true;
            self.end_body();
            let number = self.request.number;
            // A request behind this one may take the connection over, and would find the CANCEL in it.
            if self.lease.release_all() {
                self.lease.channel().cancel(number);
            }
        }
    }

    /// A body that nobody will read any more is cut off, so that the worker does not wait for it.
    fn end_body(&mut self) {
        if self.body.take().is_some() {
            self.lease.channel().queue(encode(kind::BODY_END, |out| out.put_u8(1)).into());
        }
    }

    /// The body is a file, which is opened before the head goes out: so its length is known, and a file that can't be
    /// opened is an error page.
    async fn file(mut self: Box<Self>, status: u16, headers: HeaderPairs) -> Answer {
        let opened = match self.next().await {
            Ok(FromWorker::File(path)) => {
                // As the worker's own account could: it names whatever it likes.
                let files = SiteFiles::new(self.lease.run_as.clone());
                Box::pin(static_files::plain_file(&files, &path)).await.map_err(|error| unopened(&path, &error))
            }
            Ok(_) => return Answer::Died,
            Err(error) => return self.died(&error),
        };
        match self.next().await {
            Ok(FromWorker::End { busy, counters }) => {
                let _ = self.request.counters.set(counters);
                self.finish(busy);
                match opened {
                    Ok((length, file)) => {
                        let body = AnswerBody::File { length, file };
                        Answer::Response { status, headers, body, raised: None }
                    }
                    Err(error) => Answer::Raised(Box::new(error)),
                }
            }
            Ok(_) => Answer::Died,
            Err(error) => self.died(&error),
        }
    }

    /// Passes the body on until it ends; once the client is gone, tells the worker and throws the rest away.
    async fn relay(mut self: Box<Self>, writer: Writer) {
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
                Ok(FromWorker::Record(record)) => self.request.note_record(record),
                Ok(FromWorker::End { busy, counters: counted }) => {
                    let _ = self.request.counters.set(counted);
                    drop(writer);
                    return self.finish(busy);
                }
                Ok(FromWorker::Abort { busy, counters: counted }) => {
                    let _ = self.request.counters.set(counted);
                    if let Some(open) = writer.take() {
                        open.abort();
                    }
                    return self.finish(busy);
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

    fn died(&mut self, error: &io::Error) -> Answer {
        self.broken(error);
        Answer::Died
    }

    /// The channel failed. EOF means that the worker is gone, which the supervisor learns by itself.
    fn broken(&mut self, error: &io::Error) {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        match error.kind() {
            UnexpectedEof | BrokenPipe | ConnectionReset => self.lease.disarm(),
            _ => self.lease.give_up(format!("its channel is broken: {error}")),
        }
    }
}

fn is_misdirected(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Misdirected>())
}

async fn progress(lease: &mut Lease) -> io::Result<Progress> {
    lease.channel().progress().await
}
