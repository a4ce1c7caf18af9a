//! Assembles a document with a fetcher that answers by the URL's name and in any order.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use esi::{Action, Assembler, Error, Facts, Limits, Parser, Piece};

use crate::dice::Dice;

/// What a document has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub text: String,
    /// The URL that failed it.
    pub failed: Option<String>,
    pub asked: BTreeSet<String>,
}

/// The pieces up to the first mistake, neighbouring text joined.
pub fn parse(cuts: &[&[u8]], limits: &Limits) -> (Vec<Piece>, Option<Error>) {
    let (mut parser, mut pieces) = (Parser::new(limits), Vec::new());
    let fed = cuts.iter().try_for_each(|cut| parser.feed(Bytes::copy_from_slice(cut), &mut pieces));
    let error = fed.and_then(|()| parser.finish(&mut pieces)).err();
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (joined.last_mut(), &piece) {
            (Some(Piece::Text(before)), Piece::Text(text)) => *before = [&before[..], text].concat().into(),
            _ => joined.push(piece),
        }
    }
    (joined, error)
}

/// Fetched are URLs with `bad` in them, which fail, perhaps halfway, and others, which bring their own name in
/// brackets.
pub fn assemble(pieces: &[Piece], facts: &Facts, dice: &mut Dice) -> Page {
    let mut assembler = Assembler::new(Arc::new(facts.clone()), &Limits::default());
    let mut page = Page { text: String::new(), failed: None, asked: BTreeSet::new() };
    let (mut open, mut pieces, mut ended, mut over) = (Vec::new(), pieces.iter(), false, false);
    loop {
        while let Some(action) = assembler.poll() {
            assert!(!over, "{action:?} after the end");
            match action {
                Action::Emit(bytes) => page.text.push_str(std::str::from_utf8(&bytes).unwrap()),
                Action::Fetch { id, url } => {
                    page.asked.insert(url.clone());
                    open.push((id, url, false));
                }
                Action::Cancel(id) => {
                    let before = open.len();
                    open.retain(|(asked, ..)| *asked != id);
                    assert_eq!(open.len() + 1, before, "nothing is cancelled but what is under way");
                }
                Action::Done => over = true,
                Action::Failed(failure) => {
                    assert_eq!(failure.emitted as usize, page.text.len());
                    page.failed = Some(failure.url);
                    over = true;
                }
            }
        }
        let choice = dice.below(open.len() + 1);
        if let Some((id, url, half)) = open.get_mut(choice) {
            let name = format!("[{url}]");
            if !*half && dice.below(2) == 0 {
                *half = true;
                // Nothing of a fragment that fails can be taken back, so it brings nothing here.
                let bytes = if url.contains("bad") { String::new() } else { name[..name.len() / 2].to_owned() };
                assembler.received(*id, bytes.into());
            } else {
                let (id, url, half) = open.swap_remove(choice);
                if url.contains("bad") {
                    assembler.failed(id);
                } else {
                    let rest = if half { &name[name.len() / 2..] } else { &name };
                    assembler.received(id, rest.to_owned().into());
                    assembler.finished(id);
                }
            }
        } else if let Some(piece) = pieces.next() {
            assembler.feed(piece);
        } else if !ended {
            ended = true;
            assembler.end();
        } else if open.is_empty() {
            assert!(over, "nothing is left to do, and the page is not complete");
            assert_eq!(assembler.held(), 0);
            return page;
        }
    }
}

/// A document without mistakes, to its end.
pub fn page(document: &str, facts: &Facts) -> Page {
    let (pieces, error) = parse(&[document.as_bytes()], &Limits::default());
    assert_eq!(error, None, "{document}");
    assemble(&pieces, facts, &mut Dice::new(document.len() as u64))
}
