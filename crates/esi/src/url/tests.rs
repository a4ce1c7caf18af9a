//! Where references lead: RFC 3986's own examples, and those that attackers write.

use super::{resolve, Base, Refused, Target};

const BASE: Base<'static> = Base { scheme: "http", authority: "a", path: "/b/c/d;p" };

fn site(path_and_query: &str) -> Result<Target, Refused> {
    Ok(Target::Site { path_and_query: path_and_query.into() })
}

fn foreign(scheme: &'static str, authority: &str, path_and_query: &str) -> Result<Target, Refused> {
    Ok(Target::Foreign { scheme, authority: authority.into(), path_and_query: path_and_query.into() })
}

#[test]
fn references_resolve_as_rfc_3986_section_5_4_has_them() {
    let cases = [
        ("g:h", Err(Refused::Scheme)),
        ("g", site("/b/c/g")),
        ("./g", site("/b/c/g")),
        ("g/", site("/b/c/g/")),
        ("/g", site("/g")),
        ("//g", foreign("http", "g", "/")),
        ("?y", site("/b/c/d;p?y")),
        ("g?y", site("/b/c/g?y")),
        ("#s", Err(Refused::Empty)),
        ("g#s", site("/b/c/g")),
        ("g?y#s", site("/b/c/g?y")),
        (";x", site("/b/c/;x")),
        ("g;x", site("/b/c/g;x")),
        ("", Err(Refused::Empty)),
        (".", site("/b/c/")),
        ("./", site("/b/c/")),
        ("..", site("/b/")),
        ("../g", site("/b/g")),
        ("../..", site("/")),
        ("../../g", site("/g")),
        ("../../../g", site("/g")),
        ("/./g", site("/g")),
        ("/../g", site("/g")),
        ("g.", site("/b/c/g.")),
        ("..g", site("/b/c/..g")),
        ("./../g", site("/b/g")),
        ("g/./h", site("/b/c/g/h")),
        ("g/../h", site("/b/c/h")),
        ("g?y/../x", site("/b/c/g?y/../x")),
        ("http:g", Err(Refused::Scheme)),
        ("a?b:c", site("/b/c/a?b:c")),
        ("a/b:c", site("/b/c/a/b:c")),
    ];
    for (reference, expected) in cases {
        assert_eq!(resolve(reference, &BASE), expected, "{reference}");
    }
}

#[test]
fn nothing_leads_elsewhere_in_disguise() {
    let base = Base { scheme: "https", authority: "Shop.example:443", path: "/page" };
    let cases = [
        ("https://shop.example/x", site("/x")),
        ("https://SHOP.EXAMPLE:443/x", site("/x")),
        ("https://shop.example:/x", site("/x")),
        ("HTTPS://shop.example", site("/")),
        ("https://shop.example?q", site("/?q")),
        ("//shop.example/x", site("/x")),
        ("http://shop.example/x", site("/x")),
        ("http://shop.example:80/x", site("/x")),
        ("http://shop.example:443/x", foreign("http", "shop.example:443", "/x")),
        ("https://shop.example:8443/x", foreign("https", "shop.example:8443", "/x")),
        ("https://shop.example.evil/x", foreign("https", "shop.example.evil", "/x")),
        ("//169.254.169.254/latest/../meta", foreign("https", "169.254.169.254", "/meta")),
        ("http://[::1]:6379/", foreign("http", "[::1]:6379", "/")),
        ("http://[::1", Err(Refused::Authority)),
        ("http://[evil]/", Err(Refused::Authority)),
        ("https://shop.example@evil/x", Err(Refused::UserInfo)),
        ("https://shop.example:pass@evil/x", Err(Refused::UserInfo)),
        ("https://evil:99999/", Err(Refused::Authority)),
        ("https://evil:8a/", Err(Refused::Authority)),
        ("https:///x", Err(Refused::Authority)),
        ("///evil/x", Err(Refused::Authority)),
        ("https:shop.example", Err(Refused::Scheme)),
        ("https:/evil", Err(Refused::Scheme)),
        ("file:///etc/passwd", Err(Refused::Scheme)),
        ("gopher://evil/", Err(Refused::Scheme)),
        ("javascript:x", Err(Refused::Scheme)),
        (":x", Err(Refused::Scheme)),
        ("/\\evil", Err(Refused::ForbiddenByte(b'\\'))),
        ("\\\\evil", Err(Refused::ForbiddenByte(b'\\'))),
        ("/\tevil", Err(Refused::ForbiddenByte(b'\t'))),
        ("/\r\nX: y", Err(Refused::ForbiddenByte(b'\r'))),
        ("/a b", Err(Refused::ForbiddenByte(b' '))),
        ("/\u{7f}", Err(Refused::ForbiddenByte(0x7f))),
        ("/\u{ff0f}", Err(Refused::ForbiddenByte(0xef))),
        ("/..//evil/", Err(Refused::AmbiguousPath)),
        (".//evil/", Err(Refused::AmbiguousPath)),
        ("https://shop.example//evil/", Err(Refused::AmbiguousPath)),
        ("/%2e%2E/%2e/x", site("/x")),
        ("/a/.%2e/x", site("/x")),
        ("/a%2F..%2Fb", site("/a%2F..%2Fb")),
        ("/a/..", site("/")),
    ];
    for (reference, expected) in cases {
        assert_eq!(resolve(reference, &base), expected, "{reference}");
    }
}

#[test]
fn a_port_of_its_own_belongs_to_the_site() {
    let base = Base { scheme: "http", authority: "localhost:3000", path: "/" };
    assert_eq!(resolve("http://localhost:3000/x", &base), site("/x"));
    assert_eq!(resolve("//localhost:3000", &base), site("/"));
    assert_eq!(resolve("http://localhost/x", &base), foreign("http", "localhost", "/x"));
    assert_eq!(resolve("https://localhost:3000/x", &base), foreign("https", "localhost:3000", "/x"));
    assert_eq!(resolve("x", &Base { path: "", ..base }), site("/x"));
}
