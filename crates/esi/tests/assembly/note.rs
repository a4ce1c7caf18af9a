//! What the note says of each element, by section.

use esi::Facts;

use crate::fetcher::page;

fn facts() -> Facts {
    Facts {
        cookie: "group=Advanced; name=Ann; type=big; evil=<b>\"x\"&'y'".into(),
        query: "query=esi".into(),
        host: "example.com".into(),
        ..Facts::default()
    }
}

fn text(document: &str) -> String {
    let page = page(document, &facts());
    assert_eq!(page.failed, None, "{document}");
    page.text
}

#[test]
fn elements_come_to_what_the_note_says() {
    let cases = [
        // 3: what is no ESI passes
        ("", ""),
        ("<p>no ESI</p> <esifoo> < <e <es <esi <ESI:include/> $(HTTP_HOST) --> <!-- x -->", "<p>no ESI</p> <esifoo> < <e <es <esi <ESI:include/> $(HTTP_HOST) --> <!-- x -->"),
        ("<<<<esi:comment text=\"x\"/>>>", "<<<>>"),
        // 3.1
        ("<esi:include src=\"http://example.com/1.html\" alt=\"http://bak.example.com/2.html\" onerror=\"continue\"/>", "[http://example.com/1.html]"),
        ("<esi:include src=\"http://example.com/search?query=$(QUERY_STRING{query})\"/>", "[http://example.com/search?query=esi]"),
        ("a<esi:include src=\"/bad\" alt=\"/2\"/>b", "a[/2]b"),
        ("a<esi:include src=\"/bad\" alt=\"/bad2\" onerror=\"continue\"/>b", "ab"),
        ("<esi:include\n  src = '/1?a=\"&amp;b=c&d'\t/>", "[/1?a=%22&b=c&d]"),
        ("<esi:include src=\"/a>b\"/>", "[/a%3Eb]"),
        ("<esi:include src=\"/1\" dca=\"esi\" maxwait='1'/>", "[/1]"),
        ("<esi:include src=\"/1\">x", "[/1]x"),
        ("<esi:include src=\"/1\"></esi:include>x", "[/1]x"),
        // 3.2
        ("a<esi:inline name=\"/x\" fetchable=\"yes\">b<esi:include src=\"/1\"/></esi:inline>c", "ab[/1]c"),
        // 3.3
        (
            "<esi:choose> \n<esi:when test=\"$(HTTP_COOKIE{group})=='Advanced'\"> \n<esi:include src=\"http://www.example.com/advanced.html\"/> \n</esi:when> \n<esi:when test=\"$(HTTP_COOKIE{group})=='Basic User'\">\n<esi:include src=\"http://www.example.com/basic.html\"/>\n</esi:when> \n<esi:otherwise> \n<esi:include src=\"http://www.example.com/new_user.html\"/> \n</esi:otherwise>\n</esi:choose>",
            " \n[http://www.example.com/advanced.html] \n",
        ),
        ("<esi:choose><esi:when test=\"1==2\">a</esi:when><esi:when test='1==1'>b</esi:when><esi:when test=\"1==1\">c</esi:when></esi:choose>", "b"),
        ("<esi:choose><esi:when test=\"1>2\">a</esi:when><esi:otherwise>b</esi:otherwise></esi:choose>", "b"),
        ("<esi:choose><esi:when test=\"1 &lt; 2 &amp; 1==1\">a</esi:when><esi:otherwise>b</esi:otherwise></esi:choose>", "a"),
        ("x<esi:choose><esi:when test=\"1==2\">a</esi:when></esi:choose>y", "xy"),
        ("<esi:choose><esi:comment text=\"x\"/><esi:when test=\"1==1\"><esi:choose><esi:when test=\"1==2\">a</esi:when><esi:otherwise>b</esi:otherwise></esi:choose></esi:when></esi:choose>", "b"),
        ("<esi:choose><esi:when test=\"1==2\"><esi:choose><esi:when test=\"1==1\">a</esi:when></esi:choose><esi:try><esi:attempt>b</esi:attempt><esi:except>c</esi:except></esi:try></esi:when></esi:choose>", ""),
        // 3.4
        (
            "<esi:try> \n<esi:attempt>\n<esi:comment text=\"Include an ad\"/> \n<esi:include src=\"http://www.example.com/ad1.html\"/> \n</esi:attempt>\n<esi:except> \n<esi:comment text=\"Just write some HTML instead\"/> \n<a href=\"www.akamai.com\">www.example.com</a>\n</esi:except> \n</esi:try>",
            "\n \n[http://www.example.com/ad1.html] \n",
        ),
        ("<esi:try><esi:attempt>a<esi:include src=\"/bad\"/></esi:attempt><esi:except>b</esi:except></esi:try>", "b"),
        ("<esi:try><esi:except>b</esi:except><esi:attempt>a<esi:include src=\"/bad\"/></esi:attempt></esi:try>", "b"),
        ("<esi:try><esi:attempt>a<esi:include src=\"/bad\" alt=\"/2\"/></esi:attempt><esi:except>b</esi:except></esi:try>", "a[/2]"),
        ("<esi:try><esi:attempt>a<esi:include src=\"/bad\" onerror=\"continue\"/></esi:attempt><esi:except>b</esi:except></esi:try>", "a"),
        // 3.5
        ("a<esi:comment text=\"the following animation will have a 24 hr TTL.\" />b", "ab"),
        ("a<esi:comment text=\"a > b\"/>b", "ab"),
        // 3.6
        ("<esi:include src=\"http://www.example.com/ad.html\"/> \n<esi:remove> \n  <a href=\"http://www.example.com\">www.example.com</a>\n</esi:remove>", "[http://www.example.com/ad.html] \n"),
        ("a<esi:remove><esi:include src=\"/never\"/><esi:bogus '</esi:remove </esi:removed></esi:remove >b", "ab"),
        ("a<esi:remove/>b", "ab"),
        // 3.7
        ("<esi:vars>\n<img src=\"http://www.example.com/$(HTTP_COOKIE{type})/hello.gif\"/>\n</esi:vars>", "\n<img src=\"http://www.example.com/big/hello.gif\"/>\n"),
        ("<esi:vars>$(HTTP_COOKIE{none}|'new user') $(HTTP_COOKIE{evil}) $(HTTP_COOKIE{none}|'<b>')</esi:vars>$(HTTP_HOST)", "new user &lt;b&gt;&quot;x&quot;&amp;&#39;y&#39; <b>$(HTTP_HOST)"),
        ("<esi:vars>$(function(){$('#a').b()}) $$(HTTP_HOST) $(HTTP_HOST</esi:vars>", "$(function(){$('#a').b()}) $example.com $(HTTP_HOST"),
        ("<esi:vars><esi:choose><esi:when test=\"1==1\">$(HTTP_HOST)</esi:when></esi:choose></esi:vars>", "example.com"),
        ("<esi:choose><esi:when test=\"1==1\">$(HTTP_HOST)</esi:when></esi:choose>", "$(HTTP_HOST)"),
        // 3.8
        ("<!--esi  \n  <p><esi:vars>Hello, $(HTTP_COOKIE{name})!</esi:vars></p>\n-->", "  \n  <p>Hello, Ann!</p>\n"),
        ("<!--esi-->a-->", "a-->"),
        ("<!--esi a - b -- c ---> d", " a - b -- c - d"),
        ("<!--esi<p>--><!--esix--><!--es--><!--", "<p><!--esix--><!--es--><!--"),
        ("<!--esi a <!-- b --> c -->", " a <!-- b  c -->"),
        ("<!--esi a <!--esi b --> c -->", " a  b  c "),
        ("<!-- <esi:include src=\"/1\"/> -->", "<!-- [/1] -->"),
        ("<esi:choose><!--esi <esi:when test=\"1==1\">a</esi:when> --></esi:choose>", "a"),
    ];
    for (document, expected) in cases {
        assert_eq!(text(document), expected, "{document}");
    }
}

#[test]
fn what_nothing_stands_in_for_fails_the_page() {
    let cases = [
        ("a<esi:include src=\"/bad\"/>b", "/bad"),
        ("a<esi:include src=\"/bad\" alt=\"/bad2\"/>b", "/bad2"),
        ("a<esi:include src=\"/bad\" onerror=\"retry\"/>b", "/bad"),
        ("<esi:try><esi:attempt><esi:include src=\"/bad\"/></esi:attempt><esi:except><esi:include src=\"/bad2\"/></esi:except></esi:try>", "/bad2"),
    ];
    for (document, url) in cases {
        assert_eq!(page(document, &facts()).failed.as_deref(), Some(url), "{document}");
    }
}
