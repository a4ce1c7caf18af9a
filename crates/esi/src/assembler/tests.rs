//! When things are asked for and go out, step by step. What pages come to is in tests/assembly.

use std::sync::Arc;

use bytes::Bytes;

use super::{Action, Assembler, FetchId};
use crate::{Facts, Limits, Parser};

/// A page in the making, as a caller sees it.
struct Page {
    assembler: Assembler,
    parser: Parser,
    asked: Vec<(FetchId, String)>,
}

impl Page {
    fn new() -> Page {
        Page::with(&Limits::default())
    }

    fn with(limits: &Limits) -> Page {
        let facts = Facts { cookie: "a=1".into(), ..Facts::default() };
        Page { assembler: Assembler::new(Arc::new(facts), limits), parser: Parser::new(limits), asked: Vec::new() }
    }

    fn of(document: &str) -> Page {
        let mut page = Page::new();
        page.feed(document);
        page.end();
        page
    }

    fn feed(&mut self, document: &str) {
        let mut pieces = Vec::new();
        self.parser.feed(Bytes::copy_from_slice(document.as_bytes()), &mut pieces).unwrap();
        pieces.iter().for_each(|piece| self.assembler.feed(piece));
    }

    fn end(&mut self) {
        self.assembler.end();
    }

    /// What is to be done now: `?url` to be fetched, `-url` not any more, other words are emitted, `.` is the end.
    fn now(&mut self) -> String {
        let mut actions: Vec<String> = Vec::new();
        while let Some(action) = self.assembler.poll() {
            actions.push(match action {
                Action::Emit(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
                Action::Fetch { id, url } => {
                    self.asked.push((id, url.clone()));
                    format!("?{url}")
                }
                Action::Cancel(id) => format!("-{}", self.url(id)),
                Action::Done => ".".into(),
                Action::Failed(failure) => format!("!{} after {}", failure.url, failure.emitted),
            });
        }
        actions.join(" ")
    }

    fn url(&self, id: FetchId) -> &str {
        &self.asked.iter().find(|(asked, _)| *asked == id).unwrap().1
    }

    fn id(&self, url: &str) -> FetchId {
        self.asked.iter().rev().find(|(_, asked)| asked == url).unwrap_or_else(|| panic!("{url} was not asked for")).0
    }

    fn receive(&mut self, url: &str, text: &'static str) -> String {
        self.assembler.received(self.id(url), text.into());
        self.now()
    }

    fn finish(&mut self, url: &str) -> String {
        self.assembler.finished(self.id(url));
        self.now()
    }

    fn fail(&mut self, url: &str) -> String {
        self.assembler.failed(self.id(url));
        self.now()
    }
}

#[test]
fn all_fragments_are_asked_for_at_once_and_text_does_not_wait() {
    let mut page = Page::of("head<esi:include src=\"a\"/>mid<esi:include src=\"b\"/>tail");
    assert_eq!(page.now(), "?a ?b head");
    assert_eq!(page.receive("b", "B1"), "");
    assert_eq!(page.finish("b"), "");
    assert_eq!(page.assembler.held(), 9);
    // The one whose turn it is streams.
    assert!(page.assembler.is_awaited(page.id("a")) && !page.assembler.is_awaited(page.id("b")));
    assert_eq!(page.receive("a", "A1"), "A1");
    assert_eq!(page.receive("a", "A2"), "A2");
    assert_eq!(page.finish("a"), "mid B1 tail .");
    assert_eq!(page.assembler.held(), 0);
}

#[test]
fn pieces_are_assembled_as_they_come() {
    let mut page = Page::new();
    page.feed("<p>");
    assert_eq!(page.now(), "<p>");
    page.feed("<esi:include src=\"a\"/><esi:choose><esi:when test=\"1==1\">x");
    assert_eq!(page.now(), "?a");
    assert_eq!(page.finish("a"), "x");
    page.feed("y");
    assert_eq!(page.now(), "y");
    page.feed("</esi:when><esi:otherwise>z<esi:include src=\"never\"/></esi:otherwise></esi:choose>w");
    assert_eq!(page.now(), "w");
    page.end();
    assert_eq!(page.now(), ".");
}

#[test]
fn alt_is_asked_for_when_src_has_failed() {
    let mut page = Page::of("<esi:include src=\"a\" alt=\"b\"/>.");
    assert_eq!(page.now(), "?a");
    assert_eq!(page.fail("a"), "?b");
    assert_eq!(page.finish("a"), "", "nothing is heard of a fetch that has failed");
    assert_eq!(page.receive("b", "B"), "B");
    assert_eq!(page.finish("b"), ". .");
}

#[test]
fn what_a_broken_fragment_has_brought_is_dropped_unless_it_is_out() {
    let mut page = Page::of(
        "<esi:include src=\"a\"/><esi:include src=\"b\" alt=\"c\"/><esi:include src=\"d\" onerror=\"continue\"/>.",
    );
    assert_eq!(page.now(), "?a ?b ?d");
    assert_eq!(page.receive("b", "half"), "");
    assert_eq!(page.fail("b"), "?c");
    assert_eq!(page.assembler.held(), 1);
    assert_eq!(page.receive("c", "C") + &page.finish("c"), "");
    assert_eq!(page.finish("a"), "C");
    assert_eq!(page.receive("d", "half"), "half");
    assert_eq!(page.fail("d"), ". .");
}

#[test]
fn alt_does_not_follow_on_half_of_src() {
    let mut page = Page::of("<esi:include src=\"a\" alt=\"b\"/>");
    assert_eq!(page.now(), "?a");
    assert_eq!(page.receive("a", "half"), "half");
    assert_eq!(page.fail("a"), "!a after 4");
    let mut page = Page::of("<esi:include src=\"a\" alt=\"b\" onerror=\"continue\"/>.");
    assert_eq!(page.now(), "?a");
    assert_eq!(page.receive("a", "half"), "half");
    assert_eq!(page.fail("a"), ". .");
}

#[test]
fn awaited_is_what_the_next_bytes_wait_for() {
    let mut page = Page::of(
        "<esi:include src=\"a\"/><esi:try><esi:attempt><esi:include src=\"b\"/><esi:try><esi:attempt><esi:include src=\"c\"/></esi:attempt>\
         <esi:except/></esi:try></esi:attempt><esi:except><esi:include src=\"e\"/><esi:include src=\"f\"/></esi:except></esi:try>\
         <esi:include src=\"d\"/>",
    );
    let awaited = |page: &Page| {
        let awaited = page.asked.iter().filter(|(id, _)| page.assembler.is_awaited(*id));
        awaited.map(|(_, url)| &url[..]).collect::<String>()
    };
    assert_eq!(page.now(), "?a ?b ?c ?d");
    assert_eq!(awaited(&page), "a");
    page.finish("a");
    assert_eq!(awaited(&page), "bc");
    assert_eq!(page.fail("b"), "-c ?e ?f");
    assert_eq!(awaited(&page), "e");
    page.finish("e");
    assert_eq!(awaited(&page), "f");
    page.finish("f");
    assert_eq!(awaited(&page), "d");
    assert_eq!(page.finish("d"), ".");
    assert_eq!(awaited(&page), "");
}

#[test]
fn a_fragment_that_nothing_stands_in_for_fails_the_page() {
    let mut page = Page::of("<esi:include src=\"slow\"/><esi:include src=\"a\" alt=\"b\"/>");
    assert_eq!(page.now(), "?slow ?a");
    assert_eq!(page.fail("a"), "?b");
    assert_eq!(page.fail("b"), "-slow !b after 0");
    assert_eq!(page.now() + &page.receive("slow", "late"), "");

    let mut page = Page::of("head<esi:include src=\"a\"/>");
    assert_eq!(page.now(), "?a head");
    assert_eq!(page.receive("a", "A"), "A");
    assert_eq!(page.fail("a"), "!a after 5");
    assert_eq!(page.assembler.held(), 0);
}

#[test]
fn an_attempt_goes_out_when_nothing_in_it_can_fail() {
    let document = "<esi:try><esi:attempt>[<esi:include src=\"a\"/>|<esi:include src=\"b\"/>]</esi:attempt>\
                    <esi:except>(<esi:include src=\"e\"/>)</esi:except></esi:try>end<esi:include src=\"z\"/>";
    let mut page = Page::of(document);
    assert_eq!(page.now(), "?a ?b ?z");
    assert_eq!(page.receive("a", "A") + &page.finish("a") + &page.receive("b", "B"), "");
    assert_eq!(page.finish("b"), "[ A | B ] end");
    assert_eq!(page.finish("z"), ".");

    let mut page = Page::of(document);
    assert_eq!(page.now(), "?a ?b ?z");
    assert_eq!(page.receive("a", "A") + &page.finish("a"), "");
    assert_eq!(page.fail("b"), "?e (");
    assert_eq!(page.receive("e", "E"), "E", "an except streams");
    assert_eq!(page.finish("e"), ") end");
    assert_eq!(page.finish("z"), ".");

    let mut page = Page::of(document);
    assert_eq!(page.now(), "?a ?b ?z");
    assert_eq!(page.fail("a"), "-b ?e (");
    assert_eq!(page.fail("e"), "-z !e after 1");
}

#[test]
fn an_except_that_comes_after_the_failure_is_needed_at_once() {
    let mut page = Page::new();
    page.feed("<esi:try><esi:attempt><esi:include src=\"a\"/>");
    assert_eq!(page.now(), "?a");
    assert_eq!(page.fail("a"), "");
    page.feed("more<esi:include src=\"never\"/></esi:attempt><esi:except>E<esi:include src=\"e\"/>");
    assert_eq!(page.now(), "?e E");
    assert_eq!(page.finish("e"), "");
    page.feed("F</esi:except></esi:try>");
    assert_eq!(page.now(), "F");
    page.end();
    assert_eq!(page.now(), ".");
}

#[test]
fn tries_within_tries_fail_outwards() {
    let document = "<esi:try><esi:attempt>1<esi:try><esi:attempt><esi:include src=\"a\"/></esi:attempt>\
                    <esi:except>2<esi:include src=\"b\"/></esi:except></esi:try><esi:include src=\"c\"/></esi:attempt>\
                    <esi:except>3<esi:try><esi:attempt><esi:include src=\"d\"/></esi:attempt><esi:except>4</esi:except></esi:try>\
                    </esi:except></esi:try>";
    let mut page = Page::of(document);
    assert_eq!(page.now(), "?a ?c");
    assert_eq!(page.fail("a"), "?b");
    assert_eq!(page.finish("c"), "");
    assert_eq!(page.finish("b"), "1 2 .");

    let mut page = Page::of(document);
    assert_eq!(page.now(), "?a ?c");
    assert_eq!(page.fail("a"), "?b");
    assert_eq!(page.fail("b"), "-c ?d 3");
    assert_eq!(page.fail("d"), "4 .");

    let mut page = Page::of(document);
    assert_eq!(page.now(), "?a ?c");
    assert_eq!(page.fail("c"), "-a ?d 3");
    assert_eq!(page.finish("a"), "");
    assert_eq!(page.finish("d"), ".");
}

#[test]
fn fragments_beyond_the_limit_fail_without_being_asked_for() {
    let limits = Limits { fetches: 2, ..Limits::default() };
    let mut page = Page::with(&limits);
    page.feed(
        "<esi:include src=\"a\"/><esi:include src=\"b\"/><esi:include src=\"c\" alt=\"d\" onerror=\"continue\"/>",
    );
    page.end();
    assert_eq!(page.now(), "?a ?b");
    assert_eq!(page.finish("a") + &page.finish("b"), ".");

    // Documents within it share the limit.
    let mut page = Page::with(&limits);
    page.feed("<esi:include src=\"a\"/>");
    assert_eq!(page.now(), "?a");
    page.assembler = page.assembler.nested().unwrap();
    page.feed("<esi:include src=\"b\"/><esi:include src=\"c\"/>");
    assert_eq!(page.now(), "!c after 0");
}

#[test]
fn documents_nest_as_deep_as_the_limit() {
    let limits = Limits { depth: 3, ..Limits::default() };
    let page = Assembler::new(Arc::default(), &limits);
    assert!(page.nested().unwrap().nested().unwrap().nested().is_none());
}

#[test]
fn pieces_in_disorder_are_put_up_with() {
    use crate::Piece::*;
    let all = [
        EndTry,
        EndChoose,
        Attempt,
        Except,
        Otherwise,
        Try,
        Text("a".into()),
        EndChoose,
        Except,
        Try,
        Choose,
        Text("b".into()),
        Attempt,
    ];
    for start in 0..all.len() {
        let mut page = Page::new();
        all[start..].iter().chain(&all[..start]).for_each(|piece| page.assembler.feed(piece));
        page.end();
        assert!(page.now().ends_with('.'));
        assert_eq!(page.assembler.held(), 0);
    }
}
