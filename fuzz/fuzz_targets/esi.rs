//! ESI: cuts change nothing, the order in which fragments come changes nothing, and no URL leads elsewhere in disguise.
//! Input: a line that is all that the client sent, and the document.
#![cfg_attr(fuzzing, no_main)]

use std::sync::Arc;

use bytes::Bytes;
use esi::{Action, Assembler, Base, Error, Facts, Limits, Parser, Piece, Target};
use libfuzzer_sys::fuzz_target;
use paceline_fuzz::cuts;

/// Small, so that the fuzzer finds them; but the fetches, which go to those that ask first.
const LIMITS: Limits = Limits { tag: 200, nesting: 6, fetches: usize::MAX, depth: 1 };

fuzz_target!(|data: &[u8]| {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (sent, document) = (Bytes::copy_from_slice(&data[..end]), data.get(end + 1..).unwrap_or_default());
    let facts = Arc::new(Facts {
        accept_language: sent.clone(),
        cookie: sent.clone(),
        host: sent.clone(),
        referer: sent.clone(),
        user_agent: sent.clone(),
        query: sent.clone(),
        path: sent.clone(),
    });
    let whole = parse(&[document]);
    for pieces in cuts(document) {
        assert_eq!(parse(&pieces), whole);
    }

    let first = assemble(&whole.0, &facts, true);
    let last = assemble(&whole.0, &facts, false);
    assert_eq!(first.is_some(), last.is_some());
    if let (Some(first), Some(last)) = (first, last) {
        assert_eq!(first, last);
        // A byte that was sent has six bytes in HTML at most, and three in a URL.
        assert!(first.len() <= document.len() * (1 + 6 * sent.len().max(10)));
    }

    // The whole input as other things that come from outside.
    if let Ok(text) = std::str::from_utf8(data) {
        check_target(text);
        esi::asks_for_esi(text);
    }
    if let Ok(expression) = esi::Expression::parse(document) {
        expression.holds(&facts);
    }
});

/// The pieces up to the first mistake, neighbouring text joined.
fn parse(cuts: &[&[u8]]) -> (Vec<Piece>, Option<Error>) {
    let (mut parser, mut pieces) = (Parser::new(&LIMITS), Vec::new());
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

/// The page, or None if a fragment fails it: those with an x in their URL do. The first or the last asked for comes
/// first.
fn assemble(pieces: &[Piece], facts: &Arc<Facts>, first: bool) -> Option<Vec<u8>> {
    let (mut assembler, mut page, mut open) = (Assembler::new(facts.clone(), &LIMITS), Vec::new(), Vec::new());
    pieces.iter().for_each(|piece| assembler.feed(piece));
    assembler.end();
    loop {
        while let Some(action) = assembler.poll() {
            match action {
                Action::Emit(bytes) => page.extend_from_slice(&bytes),
                Action::Fetch { id, url } => {
                    check_target(&url);
                    open.push((id, url));
                }
                Action::Cancel(id) => open.retain(|(asked, _)| *asked != id),
                Action::Done => {
                    assert!(open.is_empty() && assembler.held() == 0);
                    return Some(page);
                }
                Action::Failed(failure) => {
                    assert_eq!(failure.emitted as usize, page.len());
                    return None;
                }
            }
        }
        assert!(!open.is_empty(), "nothing is left to do, and the page is not complete");
        let (id, url) = if first { open.remove(0) } else { open.pop().expect("it is not empty") };
        if url.contains('x') {
            assembler.failed(id);
        } else {
            assembler.received(id, url.into());
            assembler.finished(id);
        }
    }
}

fn check_target(url: &str) {
    let base = Base { scheme: "https", authority: "shop.example", path: "/a/b" };
    let Ok(target) = esi::resolve(url, &base) else { return };
    let path = match &target {
        Target::Site { path_and_query } => path_and_query,
        Target::Foreign { scheme, authority, path_and_query } => {
            assert!(authority != "shop.example" && !authority.contains(['@', '/', '?', '#', '\\']), "{target:?}");
            // What was resolved resolves to itself.
            assert_eq!(esi::resolve(&format!("{scheme}://{authority}{path_and_query}"), &base).as_ref(), Ok(&target));
            path_and_query
        }
    };
    assert!(path.starts_with('/') && !path.starts_with("//"), "{target:?}");
    assert!(path.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\#<>\"".contains(&byte)), "{target:?}");
    let segments = path.split('?').next().unwrap_or_default().split('/');
    assert!(segments.into_iter().all(|segment| segment != "." && segment != ".."), "{target:?}");
}
