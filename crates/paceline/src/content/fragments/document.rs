//! A template and the fragments that it includes, driven by whoever wants its bytes. What can't go out yet is bounded:
//! beyond that only those fragments are read that the page waits for. It never sends anything.

use std::{
    sync::atomic::Ordering::Relaxed,
    task::{Context, Poll},
};

use bytes::Bytes;
use esi::{Action, Assembler, FetchId, Limits, Parser, Piece};

use super::{
    coded::DecodedTemplate,
    fetch::{Fetch, FragmentResult},
    place::Place,
    Page,
};

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
