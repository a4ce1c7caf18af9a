//! A browser by hand: cookies, redirects, and the forms of oidc-provider's pages. It speaks HTTP/1.0 to this machine.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::TcpStream,
};

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub location: Option<String>,
    pub body: String,
}

#[derive(Default)]
pub struct Browser {
    cookies: BTreeMap<String, String>,
}

impl Browser {
    /// Goes through the pages until it is sent away from the provider: to where.
    pub fn sign_in(&mut self, url: &str, name: &str) -> String {
        let form = format!("prompt=login&login={name}&password=any");
        self.follow(url, |page| if page.contains("value=\"login\"") { form.clone() } else { "prompt=consent".into() })
    }

    /// Says no on the first page.
    pub fn refuse(&mut self, url: &str) -> String {
        let answer = self.get(url);
        let page = answer.location.expect("the page to sign in");
        let site = site_of(url).to_owned();
        self.follow(&format!("{site}{page}/abort"), |_| unreachable!())
    }

    /// Follows redirects within the site, and sends what `fill` says where there is a form.
    pub fn follow(&mut self, url: &str, fill: impl Fn(&str) -> String) -> String {
        let site = site_of(url).to_owned();
        let mut answer = self.get(url);
        for _ in 0..20 {
            answer = match answer.location {
                Some(location) if location.starts_with('/') => self.get(&format!("{site}{location}")),
                Some(location) if location.starts_with(&format!("{site}/")) => self.get(&location),
                Some(location) => return location,
                None => {
                    let action = between(&answer.body, "action=\"", "\"").expect(&answer.body);
                    let action = if action.starts_with('/') { format!("{site}{action}") } else { action.to_owned() };
                    self.post(&action, &fill(&answer.body))
                }
            };
        }
        panic!("it goes round in circles");
    }

    /// Sends the first form, and goes no further.
    pub fn follow_to_page(&mut self, url: &str, fill: impl Fn(&str) -> String) {
        let page = self.get(url).body;
        let action = between(&page, "action=\"", "\"").expect(&page).to_owned();
        let answer = self.post(&action, &fill(&page));
        assert!(answer.status < 400, "{answer:?}");
    }

    pub fn get(&mut self, url: &str) -> Answer {
        self.ask("GET", url, "")
    }

    pub fn post(&mut self, url: &str, form: &str) -> Answer {
        self.ask("POST", url, form)
    }

    fn ask(&mut self, method: &str, url: &str, form: &str) -> Answer {
        let site = site_of(url);
        let host = site.strip_prefix("http://").expect("a page of this machine");
        let path = &url[site.len()..];
        let cookies: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut stream = TcpStream::connect(host).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nhost: {host}\r\ncookie: {}\r\naccept: text/html\r\n\
             content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{form}",
            cookies.join("; "),
            form.len()
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let field = |name: &str| {
            let of = move |line: &&str| line.split(':').next().is_some_and(|own| own.eq_ignore_ascii_case(name));
            head.lines().filter(of).map(|line| line[name.len() + 1..].trim().to_owned()).collect::<Vec<_>>()
        };
        for cookie in field("set-cookie") {
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            self.cookies.insert(name.to_owned(), value.to_owned());
            if value.is_empty() {
                self.cookies.remove(name);
            }
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, location: field("location").pop(), body: body.to_owned() }
    }
}

pub fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    Some(text.split_once(before)?.1.split_once(after)?.0)
}

/// `http://host:port` of an address.
fn site_of(url: &str) -> &str {
    let host = url.find("://").expect(url) + 3;
    &url[..url[host..].find('/').map_or(url.len(), |end| host + end)]
}
