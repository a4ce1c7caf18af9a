//! One fragment on its way: asked for, arriving, or a template itself. Asking goes on in a task of its own, so that
//! nobody who answers is kept waiting by a slow client; whoever drops it takes the question back. It never decides what
//! a failure comes to.

use std::{
    future::Future,
    pin::Pin,
    sync::atomic::Ordering::Relaxed,
    task::{ready, Context, Poll},
};

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::{
    asks,
    coded::DecodedTemplate,
    document::{Document, Next},
    place::Place,
    FragmentResponse, Page,
};
use crate::content::body::ResponseBody;

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
        if asks(&mut parts.headers) && self.place.site.config.esi.is_some() {
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
