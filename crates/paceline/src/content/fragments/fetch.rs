//! One fragment on its way: asked for, arriving, or a template itself. Asking goes on in a task of its own, so that nobody who
//! answers is kept waiting by a slow client; whoever drops it takes the question back. It never decides what a failure comes to.

use std::{
    future::Future,
    pin::Pin,
    task::{ready, Context, Poll},
};

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::{
    asks,
    coded::Decoded,
    document::{Document, Next},
    place::Place,
    Answered, Page,
};
use crate::content::body::ResponseBody;

/// A fragment on its way.
pub struct Fetch {
    place: Place,
    stage: Stage,
}

enum Stage {
    Asked(Asking),
    Arriving(Box<Decoded>),
    Nested(Box<Document>),
}

/// What came of it.
pub enum Came {
    /// It is answered; its bytes will follow.
    Head,
    /// It is answered, and has ESI in it itself: see `Fetch::nest`.
    Template(Box<Decoded>),
    Bytes(Bytes),
    End,
    Failed(String),
}

impl Fetch {
    pub fn new(place: Place, asking: Pin<Box<dyn Future<Output = Answered> + Send>>) -> Fetch {
        Fetch { place, stage: Stage::Asked(Asking::New(asking)) }
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
    pub fn poll(&mut self, page: &Page, cx: &mut Context<'_>, most: usize) -> Poll<Came> {
        match &mut self.stage {
            Stage::Asked(asking) => {
                let answered = ready!(asking.poll(cx));
                Poll::Ready(self.answered(answered))
            }
            Stage::Arriving(body) => Poll::Ready(match ready!(body.poll_bytes(cx)) {
                Some(Ok(bytes)) => Came::Bytes(bytes),
                Some(Err(error)) => Came::Failed(format!("broke off: {error}")),
                None => Came::End,
            }),
            Stage::Nested(document) => Poll::Ready(match ready!(document.poll_next(page, cx, most)) {
                Next::Bytes(bytes) => Came::Bytes(bytes),
                Next::Done => Came::End,
                Next::Failed(why) => Came::Failed(why),
            }),
        }
    }

    fn answered(&mut self, answered: Option<Answered>) -> Came {
        let Some((response, note)) = answered else { return Came::Failed("was not answered".into()) };
        let (mut parts, body) = response.into_parts();
        if !parts.status.is_success() || matches!(body, ResponseBody::Hijacked(_)) {
            let note = note.map_or(String::new(), |note| format!(" ({note})"));
            return Came::Failed(format!("status {}{note}", parts.status.as_u16()));
        }
        let Ok(body) = Decoded::of(&parts.headers, body).map(Box::new) else {
            return Came::Failed("came in a Content-Encoding that was not asked for".into());
        };
        if asks(&mut parts.headers) && self.place.site.config.esi.is_some() {
            return Came::Template(body);
        }
        self.stage = Stage::Arriving(body);
        Came::Head
    }
}

/// A question that is taken back when this is dropped.
enum Asking {
    New(Pin<Box<dyn Future<Output = Answered> + Send>>),
    UnderWay(JoinHandle<Answered>),
}

impl Asking {
    /// What needs no waiting, such as a page that is kept, needs no task.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Answered>> {
        if let Asking::New(asking) = self {
            if let Poll::Ready(answered) = asking.as_mut().poll(cx) {
                return Poll::Ready(Some(answered));
            }
            let asking = std::mem::replace(asking, Box::pin(std::future::pending()));
            *self = Asking::UnderWay(tokio::spawn(asking));
        }
        match self {
            Asking::UnderWay(task) => Pin::new(task).poll(cx).map(Result::ok),
            Asking::New(_) => Poll::Pending,
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if let Asking::UnderWay(task) = self {
            task.abort();
        }
    }
}
