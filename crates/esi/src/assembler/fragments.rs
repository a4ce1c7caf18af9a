//! Fragments, from the request to the last byte (3.1): `src`, then `alt`, then nothing if `onerror` says so, else
//! failure. It never mixes bytes of two fetches.

use std::collections::VecDeque;

use bytes::Bytes;

use super::{tries::Consequence, Action, Assembler, FetchId};
use crate::{Include, Template};

#[derive(Debug)]
pub(super) struct Fragment {
    /// The sequence it stands in.
    pub within: usize,
    /// What was asked for last.
    pub url: String,
    src: Option<Template>,
    alt: Option<Template>,
    continue_on_error: bool,
    stage: Stage,
    chunks: VecDeque<Bytes>,
    /// Bytes of it are out, so that nothing else can take its place.
    has_emitted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    NotAsked,
    Fetching(FetchId),
    Done,
}

impl Fragment {
    pub(super) fn new(include: &Include, within: usize) -> Fragment {
        Fragment {
            within,
            url: String::new(),
            src: Some(include.src.clone()),
            alt: include.alt.clone(),
            continue_on_error: include.continue_on_error,
            stage: Stage::NotAsked,
            chunks: VecDeque::new(),
            has_emitted: false,
        }
    }

    pub(super) fn emit(&mut self) -> Option<Bytes> {
        let bytes = self.chunks.pop_front()?;
        self.has_emitted = true;
        Some(bytes)
    }

    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Throws away what has come of it, and says how much that was.
    fn discard(&mut self) -> usize {
        self.chunks.drain(..).map(|chunk| chunk.len()).sum()
    }
}

impl Assembler {
    /// The next bytes of a fragment.
    pub fn received(&mut self, id: FetchId, bytes: Bytes) {
        if let Some(fragment) = self.fetching(id).filter(|_| !bytes.is_empty()) {
            self.held += bytes.len();
            self.fragments[fragment].chunks.push_back(bytes);
        }
    }

    /// A fragment is complete.
    pub fn finished(&mut self, id: FetchId) {
        if let Some(fragment) = self.fetching(id) {
            self.done(fragment);
            self.settle();
        }
    }

    /// A fragment can't be had: it could not be fetched, was refused, has a status that is no success, or broke off.
    /// Once bytes of it are out `alt` is of no use; with `onerror="continue"` it ends where it broke off.
    pub fn failed(&mut self, id: FetchId) {
        if let Some(fragment) = self.fetching(id) {
            self.fetch_failed(fragment);
            self.settle();
        }
    }

    /// The fragment that a fetch is for, as long as anybody waits for it.
    pub(super) fn fetching(&self, id: FetchId) -> Option<usize> {
        let fragment = *self.fetches.get(id.0)?;
        (self.fragments[fragment].stage == Stage::Fetching(id)).then_some(fragment)
    }

    pub(super) fn fetch(&mut self, number: usize) {
        if self.fragments[number].stage == Stage::Done {
            return;
        }
        let within_limit = self.takes_fetch();
        let fragment = &mut self.fragments[number];
        let template = fragment.src.take().or_else(|| fragment.alt.take());
        // Not before it is needed: values may be long, and includes many.
        fragment.url = template.map(|template| template.expand(&self.facts)).unwrap_or_default();
        if !within_limit {
            fragment.alt = None;
            return self.fetch_failed(number);
        }
        let id = FetchId(self.fetches.len());
        self.fetches.push(number);
        fragment.stage = Stage::Fetching(id);
        self.orders.push_back(Action::Fetch { id, url: fragment.url.clone() });
    }

    fn fetch_failed(&mut self, number: usize) {
        let fragment = &mut self.fragments[number];
        if !fragment.has_emitted {
            self.held -= fragment.discard();
            if fragment.alt.is_some() {
                self.consequences.push(Consequence::Fetch(number));
                return;
            }
        }
        if fragment.continue_on_error {
            self.done(number);
        } else {
            fragment.stage = Stage::Done;
            self.consequences.push(Consequence::Fail(fragment.within, number));
        }
    }

    fn done(&mut self, number: usize) {
        let fragment = &mut self.fragments[number];
        fragment.stage = Stage::Done;
        fragment.url = String::new();
        self.consequences.push(Consequence::Settled(fragment.within));
    }

    pub(super) fn drop_fragment(&mut self, number: usize) {
        let fragment = &mut self.fragments[number];
        self.held -= fragment.discard();
        if let Stage::Fetching(id) = fragment.stage {
            self.cancel(id);
        }
        self.fragments[number].stage = Stage::Done;
    }

    /// A request that nobody has been told of is taken back in silence.
    fn cancel(&mut self, id: FetchId) {
        let told = self.orders.len();
        self.orders.retain(|order| !matches!(order, Action::Fetch { id: asked, .. } if *asked == id));
        if self.orders.len() == told {
            self.orders.push_back(Action::Cancel(id));
        }
    }
}
