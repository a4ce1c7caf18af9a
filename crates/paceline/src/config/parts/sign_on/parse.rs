//! An `[[sso]]` as a table. It checks what can be checked without opening anything.

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use ipnet::IpNet;
use toml_edit::{Item, TableLike};

use super::{ways, Allow, LocalName, Otherwise, SignOn, Store};
use crate::config::{
    hosts::parse_network,
    table::TableItem,
    table_fields::{Table, TableError},
};

const KEYS: &[&str] = &[
    "path",
    "except",
    "kerberos",
    "basic",
    "oidc",
    "otherwise",
    "allow",
    "local",
    "intranet",
    "lifetime",
    "idle",
    "store",
    "store_password_file",
    "store_ca_file",
];

const LIFETIME: Duration = Duration::from_secs(12 * 3600);
const IDLE: Duration = Duration::from_secs(2 * 3600);
const TIMES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(400 * 86_400);

impl TableItem for SignOn {
    const WORDS: &'static str = "tables [[sso]] with path, kerberos, oidc, basic and further keys";
    const EXAMPLE: &'static str = "[{ kerberos = { keytab = \"/k\" } }]";
    type Error = TableError;

    fn read(table: &dyn TableLike) -> Result<SignOn, TableError> {
        sign_on(table)
    }

    fn anchor(&mut self, base: &Path) {
        let mut files: Vec<&mut PathBuf> = Vec::new();
        if let Some(kerberos) = &mut self.kerberos {
            files.push(&mut kerberos.keytab);
        }
        if let Some(basic) = &mut self.basic {
            files.extend(basic.password_file.iter_mut().chain(&mut basic.ca_file));
        }
        if let Some(oidc) = &mut self.oidc {
            files.extend(oidc.client_secret_file.iter_mut().chain(&mut oidc.ca_file));
        }
        match &mut self.store {
            Store::Usual => {}
            Store::File(path) => files.push(path),
            Store::Redis { password_file, ca_file, .. } => files.extend(password_file.iter_mut().chain(ca_file)),
        }
        files.into_iter().for_each(|file| *file = base.join(&*file));
    }

    fn wrong_key(error: &TableError) -> Option<&str> {
        error.key()
    }
}

fn sign_on(table: &dyn TableLike) -> Result<SignOn, TableError> {
    let mut table = Table { table, name: "[[sso]]".into() };
    let paths = table.patterns("path")?.filter(|paths| !paths.is_empty()).unwrap_or_else(|| vec!["/*".into()]);
    table.name = format!("[[sso]] path = {:?}", paths.join(", "));
    table.check(KEYS)?;
    let except = table.patterns("except")?.unwrap_or_default();
    let kerberos = table.table("kerberos")?.map(|own| ways::kerberos(&own)).transpose()?;
    let basic = table.table("basic")?.map(|own| ways::basic(&own)).transpose()?;
    let oidc = table.table("oidc")?.map(|own| ways::oidc(&own)).transpose()?;
    let ways = [
        ("kerberos", kerberos.is_some(), Otherwise::App),
        ("oidc", oidc.is_some(), Otherwise::OpenId),
        ("basic", basic.is_some(), Otherwise::Basic),
    ];
    if ways.iter().all(|(_, is_there, _)| !is_there) {
        return Err(table.missing("kerberos, basic or oidc", "kerberos = { keytab = \"/etc/paceline/http.keytab\" }"));
    }
    let words = [
        ("app", Otherwise::App),
        ("oidc", Otherwise::OpenId),
        ("basic", Otherwise::Basic),
        ("refuse", Otherwise::Refuse),
    ];
    let otherwise = table.word("otherwise", "\"app\", \"oidc\", \"basic\" or \"refuse\"", &words)?;
    let otherwise = match otherwise {
        Some(way @ (Otherwise::OpenId | Otherwise::Basic)) => {
            match ways.iter().find(|(_, is_there, is_for)| *is_for == way && !is_there) {
                Some(("oidc", ..)) => {
                    return Err(
                        table.missing("oidc", "oidc = { issuer = ..., client_id = ... }, or another `otherwise`")
                    )
                }
                Some(_) => {
                    return Err(table.missing("basic", "basic = { ldap = ..., base = ... }, or another `otherwise`"))
                }
                None => way,
            }
        }
        Some(way) => way,
        // Nobody comes in by having forgotten a line.
        None if oidc.is_some() => Otherwise::OpenId,
        None if basic.is_some() => Otherwise::Basic,
        None => Otherwise::Refuse,
    };
    let allow = table.texts("allow")?.unwrap_or_default();
    if table.item("allow").is_some() && allow.is_empty() {
        return Err(table.wrong(
            "allow",
            "names like \"group:staff\" or \"user:bob\"; without allow everybody who has signed in may come in",
            "",
        ));
    }
    let allow = allow.iter().map(|text| allowed(&table, text)).collect::<Result<Vec<_>, _>>()?;
    let locals = [("strip-realm", LocalName::StripRealm), ("keep", LocalName::Keep)];
    let local = table.word("local", "\"strip-realm\" or \"keep\"", &locals)?.unwrap_or(LocalName::StripRealm);
    if let Some(groups) = kerberos.as_ref().and_then(|kerberos| kerberos.groups) {
        let has_account = basic.as_ref().is_some_and(|basic| basic.account.is_some());
        if groups == ways::KerberosGroups::Ldap && !has_account {
            return Err(table.missing(
                "basic",
                "basic with ldap, base, account and password_file: it is where groups = \"ldap\" looks",
            ));
        }
    }
    Ok(SignOn {
        except,
        kerberos,
        basic,
        oidc,
        otherwise,
        allow,
        local,
        intranet: networks(&table)?,
        lifetime: table.time("lifetime", "a time like \"12h\", at most 400d", TIMES)?.unwrap_or(LIFETIME),
        idle: match table.item("idle").and_then(Item::as_str) {
            Some("off") => None,
            _ => Some(table.time("idle", "a time like \"2h\", or \"off\"", TIMES)?.unwrap_or(IDLE)),
        },
        store: store(&table)?,
        paths,
    })
}

fn allowed(table: &Table<'_>, text: &str) -> Result<Allow, TableError> {
    let name = |name: &str| (!name.trim().is_empty()).then(|| name.to_owned());
    let found = match text.split_once(':') {
        Some(("user", rest)) => name(rest).map(Allow::User),
        Some(("group", rest)) => name(rest).map(Allow::Group),
        Some(("realm", rest)) => name(rest).map(Allow::Realm),
        _ => None,
    };
    found.ok_or_else(|| table.wrong("allow", "names like \"group:staff\", \"user:bob\" or \"realm:EXAMPLE.COM\"", text))
}

fn networks(table: &Table<'_>) -> Result<Vec<IpNet>, TableError> {
    let texts = table.texts("intranet")?.unwrap_or_default();
    let network = |text: &String| {
        parse_network(text).ok_or_else(|| table.wrong("intranet", "networks like \"10.0.0.0/8\" or addresses", text))
    };
    texts.iter().map(network).collect()
}

fn store(table: &Table<'_>) -> Result<Store, TableError> {
    let (password_file, ca_file) = (table.path("store_password_file")?, table.path("store_ca_file")?);
    let text = table.text("store")?;
    let scheme = text.as_deref().and_then(|text| text.split_once("://")).map(|(scheme, _)| scheme);
    match (text.as_deref(), scheme) {
        (Some(url), Some("redis" | "rediss" | "valkey" | "valkeys" | "redis+unix")) => {
            // `user:password@`, or `pass=` behind a socket's path.
            let authority = url.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
            let has_password = authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'));
            if has_password || url.contains("pass=") {
                return Err(table.refused("store", "a password in the URL: write it into a file of mode 600 and name that: store_password_file = \"...\""));
            }
            Ok(Store::Redis { url: url.to_owned(), password_file, ca_file })
        }
        (Some(other), Some(_)) => {
            Err(table.wrong("store", "a path, or a URL like \"redis://127.0.0.1:6379/0\"", other))
        }
        (_, None) if password_file.is_some() || ca_file.is_some() => {
            Err(table.refused("store_password_file and store_ca_file", "they are for a store = \"redis://...\""))
        }
        (Some(path), None) => Ok(Store::File(path.into())),
        (None, _) => Ok(Store::Usual),
    }
}
