//! A template and the fragments that it includes, driven by whoever wants its bytes. What can't go out yet is bounded:
//! beyond that only those fragments are read that the page waits for. A fragment may be a template itself. Asking for one
//! goes on in a task of its own, so that nobody who answers is kept waiting by a slow client; dropping it takes the
//! question back. It never sends anything.

use std::{
    future::Future,
    pin::Pin,
    sync::atomic::Ordering::Relaxed,
    task::{ready, Context, Poll},
};

use bytes::Bytes;
use esi::{Action, Assembler, FetchId, Limits, Parser, Piece};
use tokio::task::JoinHandle;

use super::{are_asked_for, coded::DecodedTemplate, place::Place, FragmentResponse, Page};
use crate::content::body::ResponseBody;

/// Bytes that are held back before only what is waited for is read on: of a page, and of a fragment that nobody waits
/// for yet.
pub const MAX_HELD: usize = 1 << 20;
const MAX_AHEAD: usize = 64 << 10;

/// Bytes that may be held back at all: so large an attempt can't be made whole.
const MAX_EVER: usize = 16 << 20;

/// A template with its fragments.
pub struct Document {
    place: Place,
    /// None: a mistake was found, and what follows it goes out as it is.
    parser: Option<Parser>,
    assembler: Assembler,
    /// None: it has ended.
    source: Option<DecodedTemplate>,
    fetches: Vec<(FetchId, Fetch)>,
    failed: Option<String>,
}

/// What comes next of a document.
pub enum Next {
    Bytes(Bytes),
    Done,
    /// It can't be completed, and why.
    Failed(String),
}

impl Document {
    pub fn new(place: Place, assembler: Assembler, source: DecodedTemplate) -> Document {
        let parser = Some(Parser::new(&Limits::default()));
        Document { place, parser, assembler, source: Some(source), fetches: Vec::new(), failed: None }
    }

    /// The next bytes. `most`: bytes that may be held back before only what is waited for is read on.
    pub fn poll_next(&mut self, page: &Page, cx: &mut Context<'_>, most: usize) -> Poll<Next> {
        loop {
            if let Some(why) = self.failed.take() {
                self.fetches.clear();
                return Poll::Ready(Next::Failed(why));
            }
            while let Some(action) = self.assembler.poll() {
                match action {
                    Action::Emit(bytes) => return Poll::Ready(Next::Bytes(bytes)),
                    Action::Fetch { id, url } => self.begin(page, id, &url),
                    Action::Cancel(id) => self.fetches.retain(|(other, _)| *other != id),
                    Action::Done => return Poll::Ready(Next::Done),
                    Action::Failed(failure) => {
                        self.fetches.clear();
                        let why = format!("there is nothing in place of {}", failure.url);
                        return Poll::Ready(Next::Failed(why));
                    }
                }
            }
            let came = self.read_fragments(page, cx, most);
            if !self.read_source(page, cx, most) && !came {
                return Poll::Pending;
            }
        }
    }

    /// Says what is wrong with it.
    pub fn say(&self, page: &Page, what: &str) {
        page.say(&self.place, what);
    }

    fn begin(&mut self, page: &Page, id: FetchId, url: &str) {
        match self.place.follow(url, page) {
            Ok((place, head, exchange)) => {
                page.fragments.fetch_add(1, Relaxed);
                let asking = (page.ask)(place.site.clone(), head, exchange);
                self.fetches.push((id, Fetch::new(place, asking)));
            }
            Err(refused) => {
                page.say(&self.place, &format!("{url} is not included: {refused}"));
                self.assembler.failed(id);
            }
        }
    }

    /// Whether anything came.
    fn read_fragments(&mut self, page: &Page, cx: &mut Context<'_>, most: usize) -> bool {
        let (mut index, mut any) = (0, false);
        while let Some((id, fetch)) = self.fetches.get_mut(index) {
            let id = *id;
            let awaited = self.assembler.is_awaited(id);
            if fetch.is_arriving() && !awaited && self.assembler.held() > most {
                index += 1;
                continue;
            }
            let Poll::Ready(came) = fetch.poll(page, cx, if awaited { most } else { most.min(MAX_AHEAD) }) else {
                index += 1;
                continue;
            };
            any = true;
            let failed = match came {
                FragmentResult::Head => None,
                FragmentResult::Template(source) => match self.assembler.nested() {
                    Some(assembler) => {
                        fetch.nest(Document::new(fetch.place().clone(), assembler, *source));
                        None
                    }
                    None => Some(format!("is nested deeper than {}", Limits::default().depth)),
                },
                FragmentResult::Bytes(bytes) => {
                    self.assembler.received(id, bytes);
                    let too_much = self.assembler.held() > MAX_EVER;
                    too_much.then(|| format!("more than {} MiB would have to wait", MAX_EVER >> 20))
                }
                FragmentResult::End => {
                    self.assembler.finished(id);
                    self.fetches.swap_remove(index);
                    continue;
                }
                FragmentResult::Failed(why) => Some(why),
            };
            match failed {
                None => index += 1,
                Some(why) => {
                    page.say(&self.place, &format!("fragment {}: {why}", fetch.place().path()));
                    self.assembler.failed(id);
                    self.fetches.swap_remove(index);
                }
            }
        }
        any
    }

    /// Whether anything came. While the page waits for a fragment the rest of the template can wait, too.
    fn read_source(&mut self, page: &Page, cx: &mut Context<'_>, most: usize) -> bool {
        let Some(source) = &mut self.source else { return false };
        let held = self.assembler.held();
        if held > most && self.fetches.iter().any(|(id, _)| self.assembler.is_awaited(*id)) {
            return false;
        }
        let Poll::Ready(came) = source.poll_bytes(cx) else { return false };
        match came {
            Some(Ok(bytes)) => {
                self.feed(page, bytes);
                if self.assembler.held() > MAX_EVER && held > MAX_EVER {
                    self.failed = Some(format!("more than {} MiB would have to wait for a try", MAX_EVER >> 20));
                }
            }
            Some(Err(error)) => self.failed = Some(format!("the template broke off: {error}")),
            None => {
                self.source = None;
                let mut pieces = Vec::new();
                let end = self.parser.as_mut().map_or(Ok(()), |parser| parser.finish(&mut pieces));
                pieces.iter().for_each(|piece| self.assembler.feed(piece));
                if let Err(error) = end {
                    self.give_up(page, &error);
                }
                self.assembler.end();
            }
        }
        true
    }

    fn feed(&mut self, page: &Page, bytes: Bytes) {
        let Some(parser) = &mut self.parser else { return self.assembler.feed(&Piece::Text(bytes)) };
        let mut pieces = Vec::new();
        let read = parser.feed(bytes, &mut pieces);
        pieces.iter().for_each(|piece| self.assembler.feed(piece));
        if let Err(error) = read {
            self.give_up(page, &error);
        }
    }

    /// The document has a mistake. What stands before it is good, and a reader has more of the rest as it is than of
    /// nothing.
    fn give_up(&mut self, page: &Page, error: &esi::Error) {
        page.say(&self.place, &format!("{error}; from there on the page goes out as it is"));
        self.assembler.close_open();
        let rest = self.parser.take().map(|mut parser| parser.take_rest()).unwrap_or_default();
        rest.into_iter().for_each(|bytes| self.assembler.feed(&Piece::Text(bytes)));
    }
}

/// A fragment on its way.
pub struct Fetch {
    place: Place,
    stage: Stage,
}

enum Stage {
    Asked(FetchTask),
    Arriving(Box<DecodedTemplate>),
    Nested(Box<Document>),
}

/// What came of it.
pub enum FragmentResult {
    /// It is answered; its bytes will follow.
    Head,
    /// It is answered, and has ESI in it itself: see `Fetch::nest`.
    Template(Box<DecodedTemplate>),
    Bytes(Bytes),
    End,
    Failed(String),
}

impl Fetch {
    pub fn new(place: Place, asking: Pin<Box<dyn Future<Output = FragmentResponse> + Send>>) -> Fetch {
        Fetch { place, stage: Stage::Asked(FetchTask::New(asking)) }
    }

    /// Its bytes are wanted only when somebody takes them.
    pub fn is_arriving(&self) -> bool {
        !matches!(self.stage, Stage::Asked(_))
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    /// It goes on as a document of its own.
    pub fn nest(&mut self, document: Document) {
        self.stage = Stage::Nested(Box::new(document));
    }

    /// `most`: bytes that a template may hold back.
    pub fn poll(&mut self, page: &Page, cx: &mut Context<'_>, most: usize) -> Poll<FragmentResult> {
        match &mut self.stage {
            Stage::Asked(asking) => {
                let answered = ready!(asking.poll(cx));
                if answered.as_ref().is_some_and(|answered| answered.is_protected) {
                    page.is_protected.store(true, Relaxed);
                }
                Poll::Ready(self.answered(answered))
            }
            Stage::Arriving(body) => Poll::Ready(match ready!(body.poll_bytes(cx)) {
                Some(Ok(bytes)) => FragmentResult::Bytes(bytes),
                Some(Err(error)) => FragmentResult::Failed(format!("broke off: {error}")),
                None => FragmentResult::End,
            }),
            Stage::Nested(document) => Poll::Ready(match ready!(document.poll_next(page, cx, most)) {
                Next::Bytes(bytes) => FragmentResult::Bytes(bytes),
                Next::Done => FragmentResult::End,
                Next::Failed(why) => FragmentResult::Failed(why),
            }),
        }
    }

    fn answered(&mut self, answered: Option<FragmentResponse>) -> FragmentResult {
        let Some(FragmentResponse { response, note, .. }) = answered else {
            return FragmentResult::Failed("was not answered".into());
        };
        let (mut parts, body) = response.into_parts();
        if !parts.status.is_success() || matches!(body, ResponseBody::Hijacked(_)) {
            let note = note.map_or(String::new(), |note| format!(" ({note})"));
            return FragmentResult::Failed(format!("status {}{note}", parts.status.as_u16()));
        }
        let Ok(body) = DecodedTemplate::of(&parts.headers, body).map(Box::new) else {
            return FragmentResult::Failed("came in a Content-Encoding that was not asked for".into());
        };
        if are_asked_for(&self.place.site, &mut parts.headers) {
            return FragmentResult::Template(body);
        }
        self.stage = Stage::Arriving(body);
        FragmentResult::Head
    }
}

/// A question that is taken back when this is dropped.
enum FetchTask {
    New(Pin<Box<dyn Future<Output = FragmentResponse> + Send>>),
    UnderWay(JoinHandle<FragmentResponse>),
}

impl FetchTask {
    /// What needs no waiting, such as a page that is kept, needs no task.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<FragmentResponse>> {
        if let FetchTask::New(asking) = self {
            if let Poll::Ready(answered) = asking.as_mut().poll(cx) {
                return Poll::Ready(Some(answered));
            }
            let asking = std::mem::replace(asking, Box::pin(std::future::pending()));
            *self = FetchTask::UnderWay(tokio::spawn(asking));
        }
        match self {
            FetchTask::UnderWay(task) => Pin::new(task).poll(cx).map(Result::ok),
            FetchTask::New(_) => Poll::Pending,
        }
    }
}

impl Drop for FetchTask {
    fn drop(&mut self) {
        if let FetchTask::UnderWay(task) = self {
            task.abort();
        }
    }
}
