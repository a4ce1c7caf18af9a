//! What each variable's value is, by section of the note.

use super::Facts;
use crate::variable::Variable;

/// The examples of the note's table in section 4.
fn facts() -> Facts {
    Facts {
        accept_language: "da, en-gb;q=0.8, en;q=0.7, fr;q=0".into(),
        cookie: "id=571; visits=42; empty=; id=572".into(),
        host: "esi.xyz.com".into(),
        referer: "http://roberts.xyz.com/".into(),
        user_agent: "Mozilla/4.0 (compatible; MSIE 5.5; Windows NT 5.0)".into(),
        query: "first=Robin&last=Roberts&both=Robin+%26%20Roberts&odd=100%&two=1&two=2&fl%61g".into(),
        path: "/here".into(),
    }
}

#[test]
fn each_variable_has_its_value() {
    let cases = [
        // 4
        ("$(HTTP_HOST)", "esi.xyz.com"),
        ("$(HTTP_REFERER)", "http://roberts.xyz.com/"),
        ("$(HTTP_COOKIE)", "id=571; visits=42; empty=; id=572"),
        ("$(HTTP_ACCEPT_LANGUAGE)", "da, en-gb;q=0.8, en;q=0.7, fr;q=0"),
        ("$(HTTP_USER_AGENT)", "Mozilla/4.0 (compatible; MSIE 5.5; Windows NT 5.0)"),
        ("$(REQUEST_PATH)", "/here"),
        // 4.1.1
        ("$(HTTP_COOKIE{visits})", "42"),
        ("$(HTTP_COOKIE{id})", "571"),
        ("$(HTTP_COOKIE{VISITS})", ""),
        ("$(QUERY_STRING{first})", "Robin"),
        ("$(QUERY_STRING{both})", "Robin & Roberts"),
        ("$(QUERY_STRING{odd})", "100%"),
        ("$(QUERY_STRING{two})", "2"),
        ("$(QUERY_STRING{flag})", ""),
        ("$(HTTP_USER_AGENT{browser})", "MSIE"),
        ("$(HTTP_USER_AGENT{version})", "5.5"),
        ("$(HTTP_USER_AGENT{os})", "WIN"),
        ("$(HTTP_USER_AGENT{colour})", ""),
        // 4.1.2
        ("$(HTTP_ACCEPT_LANGUAGE{en-gb})", "true"),
        ("$(HTTP_ACCEPT_LANGUAGE{EN-GB})", "true"),
        ("$(HTTP_ACCEPT_LANGUAGE{gb})", "false"),
        ("$(HTTP_ACCEPT_LANGUAGE{fr})", "false"),
        // 4.2
        ("$(HTTP_COOKIE{nobody})", ""),
        ("$(NOBODY)", ""),
        ("$(NOBODY{key})", ""),
        ("$(HTTP_HOST{key})", ""),
        ("$(HTTP_COOKIE{nobody}|default)", "default"),
        ("$(HTTP_COOKIE{empty}|default)", "default"),
        ("$(HTTP_COOKIE{id}|default)", "571"),
        ("$(HTTP_COOKIE{nobody}|'new user')", "new user"),
        ("$(HTTP_COOKIE{nobody}|'a ) b')", "a ) b"),
        ("$(NOBODY|)", ""),
    ];
    for (text, expected) in cases {
        let (variable, length) = Variable::parse(text.as_bytes()).expect(text);
        assert_eq!(length, text.len(), "{text}");
        let facts = facts();
        let value = variable.value(&facts);
        assert_eq!(String::from_utf8_lossy(value.bytes()), expected, "{text}");
    }
}

#[test]
fn what_is_no_reference_is_text() {
    let none = [
        "$",
        "$(",
        "$()",
        "$(a)",
        "$('#id')",
        "$(function(){})",
        "$(A",
        "$(A B)",
        "$(A{})",
        "$(A{b)",
        "$(A{b}c)",
        "$(A|b c)",
        "$(A|'b)",
        "$(A|'b'c)",
        "$ (A)",
        "$(A|<b>)",
        "$(A|$(B))",
        "$(1A)",
    ];
    for text in none {
        assert!(Variable::parse(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn user_agents_are_told_apart_as_in_2001() {
    let cases = [
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_8_4) Safari/536.30.1", "MOZILLA", "5.0", "MAC"),
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "MOZILLA", "5.0", "UNIX"),
        ("Mozilla/5.0 (Windows NT 10.0; WOW64; Trident/7.0; rv:11.0) like Gecko", "MSIE", "11.0", "WIN"),
        ("curl/8.5.0", "OTHER", "8.5.0", "OTHER"),
        ("thing", "OTHER", "", "OTHER"),
        ("", "", "", ""),
    ];
    for (agent, browser, version, os) in cases {
        let facts = Facts { user_agent: agent.into(), ..Facts::default() };
        let of = |key: &[u8]| String::from_utf8_lossy(facts.of_user_agent(key)).into_owned();
        assert_eq!((of(b"browser"), of(b"version"), of(b"os")), (browser.into(), version.into(), os.into()), "{agent}");
    }
}
