//! A request that came in another framing than HTTP/1.1's (HTTP/2), held to the same rules for method, target and host.
//! It never looks at bytes on the wire.

use http::{header, uri::Scheme, HeaderMap, Method, Uri};

use super::{
    head::{self, NO_HOST, OTHER_HOST, SEVERAL_HOSTS},
    target, Refusal,
};

/// What HTTP/1.1 refuses in a head is refused here: RFC 9110 sections 7.1, 7.2 and 9.1, RFC 9113 section 8.3.1.
/// `method` is the one that is meant, GET for an extended CONNECT (RFC 8441). A CONNECT that asks for a tunnel is left
/// to the pipeline.
pub fn check_parsed(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    head::check_method(method.as_str().as_bytes())?;
    check_hosts(uri, headers)?;
    if *method == Method::CONNECT {
        return Ok(());
    }
    let path = uri.path_and_query().map_or("", |path| path.as_str());
    match target::check(method.as_str().as_bytes(), path.as_bytes())? {
        None => Ok(()),
        // Of an absolute URI only its path stands in `:path`.
        Some(_) => Err(Refusal::bad("The request target is no path")),
    }
}

fn check_hosts(uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let mut fields = headers.get_all(header::HOST).iter();
    let field = fields.next();
    if fields.next().is_some() {
        return Err(SEVERAL_HOSTS);
    }
    if let Some(field) = field {
        target::check_host(field.as_bytes())?;
    }
    let Some(authority) = uri.authority().map(|authority| authority.as_str().as_bytes()) else {
        return field.map(drop).ok_or(NO_HOST);
    };
    target::check_host(authority)?;
    let https = uri.scheme() == Some(&Scheme::HTTPS);
    match field {
        Some(field) if !target::same_authority(authority, field.as_bytes(), https) => Err(OTHER_HOST),
        _ => Ok(()),
    }
}

/// `uri-host [ ":" port ]` (RFC 9110 section 7.2) that names a host.
pub fn is_host(host: &str) -> bool {
    !host.is_empty() && host.len() <= 255 && target::is_host(host.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{super::*, *};

    fn parsed(method: &str, uri: &str, hosts: &[&str]) -> u16 {
        let (method, Ok(uri)) = (Method::from_bytes(method.as_bytes()).expect("a token"), uri.parse::<Uri>()) else {
            return 400;
        };
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, host.parse().expect("a value"));
        }
        check_parsed(&method, &uri, &headers).err().map_or(200, |refusal| refusal.status)
    }

    /// The status of such a request in HTTP/1.1.
    fn framed(method: &str, path: &str, hosts: &[&str]) -> u16 {
        let fields: String = hosts.iter().map(|host| format!("Host: {host}\r\n")).collect();
        let limits = Limits { uri: 1000, fields_bytes: 1000, fields: 10 };
        match Follower::new(limits).judge(format!("{method} {path} HTTP/1.1\r\n{fields}\r\n").as_bytes()).1 {
            Next::Refused(refusal) => refusal.status,
            _ => 200,
        }
    }

    #[test]
    fn both_versions_refuse_the_same() {
        let long = "X".repeat(40);
        for (method, path, hosts) in [
            ("GET", "/a?b", &["a.test"][..]),
            ("GET", "/a", &["a.test:8080"]),
            ("GET", "/a", &["[::1]:80"]),
            ("OPTIONS", "*", &["a.test"]),
            ("GET", "*", &["a.test"]),
            ("GET", "/\"", &["a.test"]),
            ("GET", "/é?ü", &["a.test"]),
            ("GET", "/\u{7f}", &["a.test"]),
            ("GET", "/a?<script>", &["a.test"]),
            ("GET", "/", &["a.test", "a.test"]),
            ("GET", "/", &["evil.com/x.example.org"]),
            ("GET", "/", &["user@a.test"]),
            ("GET", "/", &["a.test:abc"]),
            ("GET", "/", &["a.test:99999"]),
            ("GET", "/", &["a test"]),
            ("GET", "/", &["[::1"]),
            ("GET", "/", &[]),
            (&long, "/", &["a.test"]),
        ] {
            assert_eq!(parsed(method, path, hosts), framed(method, path, hosts), "{method} {path} {hosts:?}");
        }
        assert_eq!(parsed("GET", "*", &["a.test"]), 400);
        assert_eq!(parsed(&long, "/", &["a.test"]), 501);
    }

    #[test]
    fn both_versions_refuse_the_same_characters() {
        // In HTTP/1 a space ends the target; the library cuts off what comes after a `#`, which is why none reaches it (`field_blocks`).
        for byte in (0..=0x7f_u8).filter(|byte| !b" #".contains(byte)) {
            let character = char::from(byte);
            for path in [format!("/a{character}b"), format!("/?a{character}b"), format!("/{character}")] {
                assert_eq!(parsed("GET", &path, &["a.test"]), framed("GET", &path, &["a.test"]), "{path:?}");
            }
        }
        assert_eq!((parsed("GET", "/a b", &["a.test"]), framed("GET", "/a#b", &["a.test"])), (400, 400));
    }

    #[test]
    fn an_authority_is_a_host_too() {
        assert_eq!(parsed("GET", "https://a.test/", &[]), 200);
        assert_eq!(parsed("GET", "https://a.test/", &["A.test:443"]), 200);
        assert_eq!(parsed("GET", "https://a.test:80/", &["a.test"]), 400);
        assert_eq!(parsed("GET", "https://user@a.test/", &[]), 400);
        assert_eq!(parsed("GET", "https://a.test/", &["b.test"]), 400);
        assert!(is_host("a.test:81") && !is_host("") && !is_host("evil.com/"));
    }
}
