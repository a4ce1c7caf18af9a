//! What is no ESI 1.0, and where the error says it is.

use bytes::Bytes;
use esi::{Limits, Parser, Piece};

use crate::fetcher::parse;

#[test]
fn mistakes_are_named_where_they_are() {
    let cases = [
        ("ab<esi:assign name=\"x\"/>", 2, "<esi:assign> is no element of ESI 1.0"),
        ("<esi:Include src=\"x\"/>", 0, "<esi:Include> is no element"),
        ("<esi:>", 0, "<esi:> is no element"),
        ("<esi:include/>", 0, "<esi:include> needs the attribute src"),
        ("<esi:include src=\" \"/>", 0, "needs the attribute src"),
        ("<esi:include src=x/>", 0, "no attribute with a quoted value in <esi:include>"),
        ("<esi:include src/>", 0, "no attribute with a quoted value"),
        ("<esi:include src=\"x\"alt=\"y\"/>", 0, "does not stand apart"),
        ("<esi:include src=\"x\" src=\"y\"/>", 0, "stands twice"),
        ("<esi:include =\"x\"/>", 0, "no attribute"),
        ("<esi:include src=\"x\" <b>", 0, "no attribute"),
        ("</esi:choose x=\"y\">", 0, "there is something after the name"),
        ("</esi:choose/>", 0, "there is something after the name"),
        ("a<esi:when test=\"1==1\">", 1, "<esi:when> stands outside of <esi:choose>"),
        ("<esi:otherwise>", 0, "<esi:otherwise> stands outside of <esi:choose>"),
        ("<esi:attempt>", 0, "<esi:attempt> stands outside of <esi:try>"),
        ("<esi:choose><esi:when test=\"1==1\"><esi:otherwise>", 34, "<esi:otherwise> stands outside"),
        ("<esi:choose>", 0, "choose is not closed"),
        ("<esi:choose></esi:choose>", 12, "<esi:choose> has no <esi:when>"),
        ("<esi:choose/>", 0, "<esi:choose> has no <esi:when>"),
        ("<esi:choose><esi:otherwise></esi:otherwise></esi:choose>", 43, "<esi:choose> has no <esi:when>"),
        ("<esi:choose> a", 0, "text directly in <esi:choose>"),
        ("<esi:vars><esi:choose>$(HTTP_HOST)", 22, "text directly in <esi:choose>"),
        ("<esi:choose><esi:include src=\"x\"/>", 12, "<esi:include> stands directly in <esi:choose>"),
        ("<esi:choose><esi:vars>", 12, "<esi:vars> stands directly in <esi:choose>"),
        ("<esi:choose><esi:otherwise/><esi:otherwise/>", 28, "<esi:choose> has no place for this <esi:otherwise>"),
        ("<esi:choose><esi:otherwise/><esi:when test=\"1==1\"/>", 28, "<esi:choose> has no place for this <esi:when>"),
        ("<esi:choose><esi:when>", 12, "<esi:when> needs the attribute test"),
        ("<esi:choose><esi:when test=\"1 &amp; 4\">", 12, "no expression: a literal alone"),
        ("<esi:try></esi:try>", 9, "<esi:try> has no <esi:attempt>"),
        ("<esi:try><esi:attempt/></esi:try>", 23, "<esi:try> has no <esi:except>"),
        ("<esi:try><esi:attempt/><esi:attempt/>", 23, "no place for this <esi:attempt>"),
        ("<esi:try>a", 0, "text directly in <esi:try>"),
        ("</esi:vars>", 0, "</esi:vars> closes nothing"),
        ("<esi:vars></esi:inline>", 10, "</esi:inline> stands where </esi:vars> is due"),
        ("a</esi:remove>", 1, "</esi:remove> closes nothing"),
        ("a<esi:include src=\"x\"", 1, "a tag is not closed"),
        ("a<esi:remove>b", 13, "<esi:remove> is not closed"),
        ("ab<esi:vars>", 2, "vars is not closed"),
        ("a<!--esi b", 10, "<!--esi is not closed"),
    ];
    for (document, at, reason) in cases {
        let (pieces, error) = parse(&[document.as_bytes()], &Limits::default());
        let error = error.unwrap_or_else(|| panic!("{document}: {pieces:?}"));
        assert!(error.at == at && error.to_string().contains(reason), "{document}: {error}");
    }
}

#[test]
fn limits_hold() {
    let limits = Limits { tag: 40, nesting: 3, ..Limits::default() };
    let error = |document: &str| parse(&[document.as_bytes()], &limits).1.map(|error| (error.to_string(), error.at));
    assert_eq!(error(&format!("<esi:comment text=\"{}\"/>", "x".repeat(18))), None);
    let (reason, at) = error(&format!("a<esi:comment text=\"{}\"/>", "x".repeat(19))).unwrap();
    assert!(reason.contains("more than 40 bytes") && at == 1, "{reason}");
    assert_eq!(error("<esi:vars><esi:vars><esi:vars></esi:vars></esi:vars></esi:vars>"), None);
    let (reason, at) = error(&"<esi:vars>".repeat(4)).unwrap();
    assert!(reason.contains("more than 3 elements") && at == 30, "{reason}");
    // A reference that long is none.
    let document = format!("<esi:vars>$({})</esi:vars>", "A".repeat(50));
    assert!(matches!(&parse(&[document.as_bytes()], &limits).0[..], [Piece::Text(text)] if text.len() == 53));
}

#[test]
fn what_was_not_understood_is_left_for_the_caller() {
    let document = "a<esi:vars>b$(HTTP_HOST)c<esi:bogus x=\"y\">d<esi:include src=\"/1\"/>e";
    for cut in 0..=document.len() {
        let (mut parser, mut pieces) = (Parser::new(&Limits::default()), Vec::new());
        let (front, back) = (Bytes::from(&document[..cut]), Bytes::from(&document[cut..]));
        let first = parser.feed(front, &mut pieces);
        let mut rest: Vec<u8> = parser.take_rest().concat();
        match first {
            Ok(()) => {
                parser.feed(back, &mut pieces).unwrap_err();
                rest.extend(parser.take_rest().concat());
            }
            // What is fed to it now stays with the caller.
            Err(error) => {
                assert_eq!(parser.feed(back.clone(), &mut pieces), Err(error));
                rest.extend(&back);
            }
        }
        assert_eq!(String::from_utf8(rest).unwrap(), "<esi:bogus x=\"y\">d<esi:include src=\"/1\"/>e", "cut at {cut}");
        assert!(parser.finish(&mut pieces).is_err());
    }
}

#[test]
fn of_a_tag_that_is_too_long_nothing_is_lost() {
    let limits = Limits { tag: 20, ..Limits::default() };
    let document = "text<esi:comment text=\"far too long\"/>more";
    for cut in 0..=document.len() {
        let (mut parser, mut pieces) = (Parser::new(&limits), Vec::new());
        let (front, back) = (Bytes::from(&document[..cut]), Bytes::from(&document[cut..]));
        let failed = parser.feed(front, &mut pieces).is_err();
        assert!(parser.feed(back.clone(), &mut pieces).is_err());
        let text: Vec<_> =
            pieces.iter().map(|piece| if let Piece::Text(text) = piece { text.clone() } else { panic!() }).collect();
        assert_eq!(text.concat(), b"text", "cut at {cut}");
        let kept = if failed { back } else { Bytes::new() };
        assert_eq!([&parser.take_rest().concat()[..], &kept].concat(), &document.as_bytes()[4..], "cut at {cut}");
    }
}

#[test]
fn text_is_not_copied() {
    let chunk = Bytes::from("<p>one</p><esi:comment text=\"x\"/><p>two < three</p>");
    let (mut parser, mut pieces) = (Parser::new(&Limits::default()), Vec::new());
    parser.feed(chunk.clone(), &mut pieces).unwrap();
    let [Piece::Text(one), Piece::Text(two)] = &pieces[..] else { panic!("{pieces:?}") };
    for text in [one, two] {
        assert!(chunk.as_ptr_range().contains(&text.as_ptr()));
    }
    assert_eq!(&two[..], b"<p>two < three</p>");
}

/// Work that grew with the square of the input would take minutes here.
#[test]
fn nothing_takes_more_than_linear_time() {
    let inputs = [
        "<",
        "<esi:",
        "<!--esi",
        "<!--esi ",
        "-->",
        "-",
        "$(",
        "$(A",
        "$(A|'",
        "<esi:vars>$(A|'",
        "<!--",
        "</esi:remove",
        "<esi:remove>",
        "<esi:comment text=\"$(A|'$(A|'$(A|'\"/>",
    ];
    for input in inputs {
        for opening in
            ["", "<!--esi ", "<esi:vars>", "<esi:remove>", "<esi:include src=\"", "<esi:choose><esi:when test=\"("]
        {
            let document = format!("{opening}{}", input.repeat(40_000 / input.len()));
            let cuts: Vec<&[u8]> = document.as_bytes().chunks(1).collect();
            let count = |cuts: &[&[u8]]| {
                let (mut parser, mut pieces) = (Parser::new(&Limits::default()), Vec::new());
                let fed = cuts.iter().try_for_each(|cut| parser.feed(Bytes::copy_from_slice(cut), &mut pieces));
                (fed.and_then(|()| parser.finish(&mut pieces))).is_ok()
            };
            assert_eq!(count(&cuts), count(&[document.as_bytes()]), "{opening}{input}");
        }
    }
}
