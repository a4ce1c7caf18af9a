//! A `[[rule]]` as a table. It checks what can be checked without opening anything.

use std::path::Path;

use http::{HeaderName, HeaderValue, StatusCode};
use toml_edit::TableLike;
use units::parse_bytes;

use super::{
    redirect::{Redirect, TargetError},
    shown, BasicAuth, HeaderChanges, MaxBody, Rule,
};
use crate::config::{
    hosts::is_host_name,
    table::TableItem,
    table_fields::{Table, TableError},
    trusted::{self, TrustedProxies},
};

const KEYS: &[&str] =
    &["path", "except", "host", "redirect", "status", "headers", "basic_auth", "allow", "deny", "max_body"];
const HEADER_KEYS: &[&str] = &["set", "remove"];
const BASIC_KEYS: &[&str] = &["file", "realm", "pass_user"];

/// Fields by which a message says where it ends, or how it is coded: they are the server's.
const FRAMING: [&str; 11] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "date",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl TableItem for Rule {
    const WORDS: &'static str = "tables [[rule]] with path, host and what is to be done";
    const EXAMPLE: &'static str = "[{ path = \"/old/*\", redirect = \"/new/*\" }]";
    type Error = TableError;

    fn read(table: &dyn TableLike) -> Result<Rule, TableError> {
        rule(table)
    }

    fn anchor(&mut self, base: &Path) {
        if let Some(basic) = &mut self.basic_auth {
            basic.file = base.join(&basic.file);
        }
    }

    fn wrong_key(error: &TableError) -> Option<&str> {
        error.key()
    }
}

fn rule(table: &dyn TableLike) -> Result<Rule, TableError> {
    let mut table = Table { table, name: "[[rule]]".into() };
    let paths = table.patterns("path")?.filter(|paths| !paths.is_empty()).unwrap_or_else(|| vec!["/*".into()]);
    table.name = shown(&paths);
    table.check(KEYS)?;
    let rule = Rule {
        except: table.patterns("except")?.unwrap_or_default(),
        hosts: hosts(&table)?,
        redirect: redirect(&table, &paths)?,
        headers: table.table("headers")?.map(|own| headers(&own)).transpose()?.unwrap_or_default(),
        basic_auth: basic_auth(&table)?,
        allow: addresses(&table, "allow")?,
        deny: addresses(&table, "deny")?,
        max_body: max_body(&table)?,
        paths,
    };
    let does_nothing = rule.redirect.is_none()
        && rule.headers == HeaderChanges::default()
        && !rule.protects()
        && rule.max_body.is_none();
    if does_nothing {
        Err(table.missing(
            "redirect, headers, basic_auth, allow, deny or max_body",
            "redirect = \"/new/*\", or what else is to be done with these paths",
        ))
    } else {
        Ok(rule)
    }
}

fn hosts(table: &Table<'_>) -> Result<Vec<String>, TableError> {
    let hosts = table.texts("host")?.unwrap_or_default();
    match hosts.iter().find(|host| !is_host_name(host)) {
        Some(wrong) => Err(table.wrong("host", "host names without scheme and port like \"shop.test\"", wrong)),
        None => Ok(hosts.iter().map(|host| host.to_ascii_lowercase()).collect()),
    }
}

fn redirect(table: &Table<'_>, paths: &[String]) -> Result<Option<Redirect>, TableError> {
    let status = match table.item("status") {
        None => None,
        Some(item) => {
            let code = item.as_integer().filter(|code| [301, 302, 307, 308].contains(code));
            let code = code.and_then(|code| StatusCode::from_u16(code as u16).ok());
            Some(code.ok_or_else(|| table.mismatch("status", "301, 302, 307 or 308", item))?)
        }
    };
    let Some(target) = table.text("redirect")? else {
        return match status {
            Some(_) => Err(table.refused("status", "it belongs to a redirect: add redirect = \"/new/*\"")),
            None => Ok(None),
        };
    };
    let expected = |error| match error {
        TargetError::Form => "a path like \"/new/*\" or an address like \"https://shop.example\"",
        TargetError::StarInHost => "the star in the path, not in the host",
        TargetError::Stars => "one star at most",
        TargetError::NoRest => {
            "a star only where each path ends in one, like path = \"/old/*\": it stands for what follows there"
        }
    };
    let made = Redirect::new(&target, paths, status);
    made.map(Some).map_err(|error| table.wrong("redirect", expected(error), &target))
}

fn headers(table: &Table<'_>) -> Result<HeaderChanges, TableError> {
    table.check(HEADER_KEYS)?;
    let name = |key: &'static str, text: &str| {
        let name = HeaderName::from_bytes(text.as_bytes());
        let name = name.map_err(|_| table.wrong(key, "names of headers like \"X-Frame-Options\"", text))?;
        if FRAMING.contains(&name.as_str()) {
            Err(table.refused(text, "it says how a response is sent, which is the server's work"))
        } else {
            Ok(name)
        }
    };
    let mut changes = HeaderChanges::default();
    for text in table.texts("remove")?.unwrap_or_default() {
        changes.remove.push(name("remove", &text)?);
    }
    if let Some(set) = table.table("set")? {
        for (key, item) in set.table.iter() {
            let value = item.as_str().and_then(|text| HeaderValue::from_str(text).ok());
            let expected = "a table of headers and strings, like { \"X-Frame-Options\" = \"DENY\" },";
            changes.set.push((name("set", key)?, value.ok_or_else(|| table.wrong("set", expected, key))?));
        }
    }
    Ok(changes)
}

fn basic_auth(table: &Table<'_>) -> Result<Option<BasicAuth>, TableError> {
    let Some(item) = table.item("basic_auth") else { return Ok(None) };
    let usual = |file| BasicAuth { file, realm: "Restricted".into(), pass_user: false };
    if item.is_str() {
        return Ok(table.path("basic_auth")?.map(usual));
    }
    let Ok(Some(own)) = table.table("basic_auth") else {
        return Err(table.mismatch("basic_auth", "a file of lines name:hash, or a table with file,", item));
    };
    own.check(BASIC_KEYS)?;
    let Some(file) = own.path("file")? else {
        return Err(own.missing("file", "file = \"staging.htpasswd\", made by htpasswd -cB staging.htpasswd alice"));
    };
    let mut basic = BasicAuth { pass_user: own.bool("pass_user")?, ..usual(file) };
    if let Some(realm) = own.text("realm")? {
        let is_fine = |byte: u8| (byte.is_ascii_graphic() || byte == b' ') && !b"\"\\".contains(&byte);
        if !realm.bytes().all(is_fine) {
            return Err(own.wrong("realm", "plain text without quotes", &realm));
        }
        basic.realm = realm;
    }
    Ok(Some(basic))
}

fn addresses(table: &Table<'_>, key: &'static str) -> Result<Option<TrustedProxies>, TableError> {
    let Some(texts) = table.texts(key)? else { return Ok(None) };
    let is_wrong = |text: &&String| text.as_str() == "none" || !trusted::is_known(text);
    let expected = "addresses, networks like \"10.0.0.0/8\", \"loopback\", \"private\" or \"unix\"";
    match texts.iter().find(is_wrong) {
        Some(wrong) => Err(table.wrong(key, expected, wrong)),
        None if texts.is_empty() => Err(table.wrong(key, expected, "")),
        None => Ok(Some(TrustedProxies::new(&texts, true))),
    }
}

fn max_body(table: &Table<'_>) -> Result<Option<MaxBody>, TableError> {
    let Some(item) = table.item("max_body") else { return Ok(None) };
    let size = match (item.as_integer(), item.as_str()) {
        (_, Some("off")) => return Ok(Some(MaxBody::Unbounded)),
        (Some(number), _) => u64::try_from(number).ok(),
        (_, Some(text)) => parse_bytes(text),
        _ => None,
    };
    let wrong = || table.mismatch("max_body", "a size like \"64KB\" or \"1GB\", or \"off\"", item);
    size.map(|size| Some(MaxBody::Bytes(size))).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::config::table::{TableProblem, TableSetting};

    fn read(text: &str) -> Result<Vec<Rule>, TableProblem> {
        let document = toml_edit::Document::parse(text).unwrap();
        Vec::from_toml(&document.as_table()["rule"]).unwrap()
    }

    fn one(text: &str) -> Rule {
        read(&format!("[[rule]]\n{text}")).unwrap().remove(0)
    }

    #[test]
    fn everything_can_be_said() {
        let rule = one("path = [\"/a/*\", \"/b/*\"]\nexcept = \"/a/up\"\nhost = \"Shop.Test\"\nallow = [\"10.0.0.0/8\", \"192.0.2.1\"]\n\
            deny = \"10.6.6.6\"\nmax_body = \"1MB\"\nheaders = { set = { \"X-Frame-Options\" = \"DENY\" }, remove = [\"Server\"] }\n\
            basic_auth = { file = \"staff\", realm = \"Staff only\", pass_user = true }");
        assert_eq!(
            (rule.paths.len(), rule.except, rule.hosts),
            (2, vec!["/a/up".to_owned()], vec!["shop.test".to_owned()])
        );
        let is_in = |list: &Option<TrustedProxies>, address: &str| {
            list.as_ref().unwrap().trusts(Some(address.parse::<IpAddr>().unwrap()))
        };
        assert!(is_in(&rule.allow, "10.6.6.6") && is_in(&rule.deny, "10.6.6.6") && !is_in(&rule.allow, "192.0.2.2"));
        assert_eq!(rule.max_body, Some(MaxBody::Bytes(1 << 20)));
        assert_eq!(rule.headers.set, [(HeaderName::from_static("x-frame-options"), HeaderValue::from_static("DENY"))]);
        assert_eq!(rule.headers.remove, ["server"]);
        let basic = rule.basic_auth.unwrap();
        assert_eq!((basic.file.to_str(), basic.realm.as_str(), basic.pass_user), (Some("staff"), "Staff only", true));
    }

    #[test]
    fn little_has_to_be_said() {
        let rule = one("basic_auth = \"staff\"");
        assert_eq!((rule.paths, rule.hosts.len()), (vec!["/*".to_owned()], 0));
        assert_eq!(rule.basic_auth.unwrap().realm, "Restricted");
        assert_eq!(one("max_body = \"off\"").max_body, Some(MaxBody::Unbounded));
        assert_eq!(one("redirect = \"/x\"\nstatus = 302").redirect.unwrap().status, Some(StatusCode::FOUND));
    }

    #[test]
    fn mistakes() {
        for (text, told) in [
            ("path = \"/a\"", "needs redirect, headers, basic_auth, allow, deny or max_body in [[rule]] path = \"/a\""),
            ("path = \"a\"\nmax_body = 1", "must have plain paths"),
            ("redirct = \"/x\"", "(did you mean \"redirect\"?)"),
            ("redirect = \"x\"", "a path like"),
            ("path = \"/old\"\nredirect = \"/x/*\"", "a star only where each path ends in one"),
            ("redirect = \"https://*.test/\"", "the star in the path"),
            ("redirect = \"/x\"\nstatus = 200", "must have 301, 302, 307 or 308 as status"),
            ("max_body = 1\nstatus = 301", "it belongs to a redirect"),
            ("host = \"https://a\"\nmax_body = 1", "host names without scheme"),
            ("headers = { set = { \"Content-Length\" = \"1\" } }", "the server's work"),
            ("headers = { set = { \"X\" = 1 } }", "a table of headers and strings"),
            ("headers = { remove = [\"a b\"] }", "names of headers"),
            ("headers = { add = { \"X\" = \"1\" } }", "not \"add\""),
            ("basic_auth = 1", "a file of lines name:hash"),
            ("basic_auth = { realm = \"x\" }", "needs file"),
            ("basic_auth = { file = \"f\", realm = \"a\\\"b\" }", "without quotes"),
            ("allow = [\"office\"]", "must have addresses"),
            ("allow = []", "must have addresses"),
            ("deny = \"none\"", "must have addresses"),
            ("max_body = -1", "a size like"),
        ] {
            let error = read(&format!("[[rule]]\n{text}\n")).unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn a_mistake_has_its_place() {
        let text = "[[rule]]\nmax_body = 1\n[[rule]]\npath = \"/x\"\nstatus = 999\n";
        assert_eq!(read(text).unwrap_err().at, text.find("status"));
        let text = "[[rule]]\nmax_body = 1\n[[rule]]\npath = \"/x\"\n";
        assert_eq!(read(text).unwrap_err().at, text.rfind("[[rule]]"));
    }
}
