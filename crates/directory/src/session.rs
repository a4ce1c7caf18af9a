//! One connection to a directory, and what is asked on it. Which person is asked for, and what is remembered, is
//! decided elsewhere.

use std::{sync::Arc, time::Duration};

use ldap3::{
    adapters::{Adapter, EntriesOnly, PagedResults},
    Ldap, LdapConnAsync, LdapConnSettings, LdapError, Scope, SearchEntry, SearchOptions,
};
use rustls::ClientConfig;
use url::Url;

use crate::{
    failure::Denial,
    query,
    settings::{Kind, Settings},
    Failure, Secret,
};

/// Groups of one person.
const MAX_GROUPS: usize = 4096;
/// Groups in groups, where the server does not follow them by itself.
const MAX_DEPTH: usize = 8;
/// Names or identifiers in one filter.
const IN_ONE_FILTER: usize = 50;
const PAGE: i32 = 500;
/// The number of LDAP_CAP_ACTIVE_DIRECTORY_OID.
const ACTIVE_DIRECTORY: &str = "1.2.840.113556.1.4.800";
const SUCCESS: u32 = 0;
const SIZE_LIMIT_EXCEEDED: u32 = 4;
const NO_SUCH_OBJECT: u32 = 32;
const INVALID_CREDENTIALS: u32 = 49;

/// How a server is spoken to.
pub struct Dialing {
    pub urls: Vec<Url>,
    pub tls: Arc<ClientConfig>,
    pub starttls: bool,
    /// For one server. The next one gets its turn while somebody still waits.
    pub timeout: Duration,
}

#[derive(Clone)]
pub struct Session {
    ldap: Ldap,
    pub kind: Kind,
    pub url: String,
}

/// A person's entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub dn: String,
    /// As the directory writes it, whatever was typed.
    pub name: String,
    pub mail: Option<String>,
    /// The primary group's security identifier.
    primary: Option<String>,
}

/// What a bind came to.
pub enum Bind {
    Yes,
    No(Denial),
    /// The server refuses for another reason.
    Refused(String),
}

impl Session {
    /// Connects to the first server that answers, and finds out of which kind it is. A task of the current runtime
    /// drives the connection.
    ///
    /// # Errors
    /// None answers.
    pub async fn open(dialing: &Dialing, kind: Kind) -> Result<Session, Failure> {
        let mut reasons = Vec::new();
        for url in &dialing.urls {
            match Session::connect(dialing, url, kind).await {
                Ok(session) => return Ok(session),
                Err(error) => reasons.push((url.to_string(), words(&error))),
            }
        }
        Err(Failure::Unreachable(reasons))
    }

    async fn connect(dialing: &Dialing, url: &Url, kind: Kind) -> Result<Session, LdapError> {
        let settings = LdapConnSettings::new()
            .set_conn_timeout(dialing.timeout)
            .set_config(dialing.tls.clone())
            .set_starttls(dialing.starttls);
        let (connection, ldap) = LdapConnAsync::from_url_with_settings(settings, url).await?;
        // Its end closes what is asked on it, which says why.
        tokio::spawn(async move { drop(connection.drive().await) });
        let mut session = Session { ldap, kind, url: url.to_string() };
        if kind == Kind::Detect {
            session.kind = session.detect(dialing.timeout).await?;
        }
        Ok(session)
    }

    async fn detect(&mut self, timeout: Duration) -> Result<Kind, LdapError> {
        let search = self.ldap.with_timeout(timeout);
        let (entries, _) =
            search.search("", Scope::Base, "(objectClass=*)", vec!["supportedCapabilities"]).await?.success()?;
        let values = entries.into_iter().flat_map(|entry| SearchEntry::construct(entry).attrs.into_values().flatten());
        let is_ad = values.into_iter().any(|capability: String| capability == ACTIVE_DIRECTORY);
        Ok(if is_ad { Kind::ActiveDirectory } else { Kind::Ldap })
    }

    pub fn is_closed(&mut self) -> bool {
        self.ldap.is_closed()
    }

    pub async fn close(mut self) {
        // The server closes the connection; nobody waits for that.
        let _ = self.ldap.unbind().await;
    }

    /// Signs in on this connection. An empty name or password is never sent: it would be a visit without a name, which
    /// succeeds.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn bind(&mut self, name: &str, password: &Secret) -> Result<Bind, LdapError> {
        if password.expose().is_empty() {
            return Ok(Bind::No(Denial::EmptyPassword));
        }
        if name.is_empty() {
            return Ok(Bind::No(Denial::OddName));
        }
        let result = self.ldap.simple_bind(name, password.expose()).await?;
        Ok(match result.rc {
            SUCCESS => Bind::Yes,
            INVALID_CREDENTIALS => Bind::No(Denial::of_bind(&result.text)),
            code => Bind::Refused(format!("{} ({code})", result.text.escape_debug())),
        })
    }

    /// The one entry that a filter finds.
    ///
    /// # Errors
    /// There is none, there are several, or the search fails.
    pub async fn person(&mut self, settings: &Settings, filter: &str) -> Result<Entry, SearchError> {
        self.entry(settings, &settings.base, Scope::Subtree, filter).await
    }

    /// The entry of this very DN.
    ///
    /// # Errors
    /// It can't be seen, or the search fails.
    pub async fn person_at(&mut self, settings: &Settings, dn: &str) -> Result<Entry, SearchError> {
        self.entry(settings, dn, Scope::Base, "(objectClass=*)").await
    }

    async fn entry(
        &mut self,
        settings: &Settings,
        base: &str,
        scope: Scope,
        filter: &str,
    ) -> Result<Entry, SearchError> {
        let name_attribute = self.name_attribute(settings);
        let attributes = vec![name_attribute.as_str(), "mail", "objectSid", "primaryGroupID"];
        let search = self.ldap.with_search_options(SearchOptions::new().sizelimit(2));
        let result = search.search(base, scope, filter, attributes).await?;
        match result.1.rc {
            SUCCESS | SIZE_LIMIT_EXCEEDED => {}
            NO_SUCH_OBJECT => return Err(SearchError::Server(format!("there is no {}", base.escape_debug()))),
            code => return Err(SearchError::Server(format!("{} ({code})", result.1.text.escape_debug()))),
        }
        let mut entries = result.0.into_iter();
        let entry = match (entries.next(), entries.next()) {
            (None, _) => return Err(SearchError::Denied(Denial::Unknown)),
            (Some(_), Some(_)) => return Err(SearchError::Denied(Denial::Ambiguous)),
            (Some(entry), None) => SearchEntry::construct(entry),
        };
        let first = |name: &str| values(&entry, name).first().cloned();
        // An entry without the attribute is nobody that an application could name.
        let name = first(&name_attribute).ok_or(SearchError::Denied(Denial::Unknown))?;
        query::check_name(&name).map_err(SearchError::Denied)?;
        let sid = entry.bin_attrs.iter().find(|(name, _)| name.eq_ignore_ascii_case("objectSid"));
        let sid = sid.and_then(|(_, values)| values.first().cloned());
        let primary = sid.zip(first("primaryGroupID")).and_then(|(sid, rid)| query::primary_group(&sid, &rid));
        Ok(Entry { mail: first("mail"), dn: entry.dn, name, primary })
    }

    /// The names of the groups of a person, groups in groups too, in order.
    ///
    /// # Errors
    /// The search fails.
    pub async fn groups(&mut self, settings: &Settings, person: &Entry) -> Result<Vec<String>, SearchError> {
        let mut names = match self.kind {
            Kind::ActiveDirectory => {
                let filter = query::groups_in_chain(&person.dn, person.primary.as_deref());
                self.found_groups(settings, &filter).await?.into_iter().map(|(_, name)| name).collect()
            }
            _ => self.groups_by_level(settings, person).await?,
        };
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Asks for the groups of the groups until none is new.
    async fn groups_by_level(&mut self, settings: &Settings, person: &Entry) -> Result<Vec<String>, SearchError> {
        let filter = query::groups_of(&[&person.dn], Some(&person.name));
        let mut level = self.found_groups(settings, &filter).await?;
        let mut all = std::collections::BTreeMap::new();
        for _ in 0..MAX_DEPTH {
            level.retain(|(dn, name)| all.insert(dn.clone(), name.clone()).is_none());
            if level.is_empty() || all.len() >= MAX_GROUPS {
                break;
            }
            let mut next = Vec::new();
            for some in level.chunks(IN_ONE_FILTER) {
                let dns: Vec<&str> = some.iter().map(|(dn, _)| dn.as_str()).collect();
                next.extend(self.found_groups(settings, &query::groups_of(&dns, None)).await?);
            }
            level = next;
        }
        Ok(all.into_values().collect())
    }

    /// The names of the groups with these security identifiers. Well-known ones, which are no groups of the directory,
    /// have none.
    ///
    /// # Errors
    /// The search fails.
    pub async fn names(&mut self, settings: &Settings, sids: &[String]) -> Result<Vec<String>, SearchError> {
        let sids: Vec<&str> = sids.iter().map(String::as_str).take(MAX_GROUPS).collect();
        let mut names = Vec::new();
        for some in sids.chunks(IN_ONE_FILTER) {
            if let Some(filter) = query::sids(some) {
                names.extend(self.found_groups(settings, &filter).await?.into_iter().map(|(_, name)| name));
            }
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// DN and name of each group that a filter finds, page by page.
    async fn found_groups(&mut self, settings: &Settings, filter: &str) -> Result<Vec<(String, String)>, SearchError> {
        let attribute = self.group_attribute(settings);
        let base = settings.group_base.as_deref().unwrap_or(&settings.base);
        let adapters: Vec<Box<dyn Adapter<'_, &str, Vec<&str>>>> =
            vec![Box::new(EntriesOnly::new()), Box::new(PagedResults::new(PAGE))];
        let attributes = vec![attribute.as_str()];
        let mut stream = self.ldap.streaming_search_with(adapters, base, Scope::Subtree, filter, attributes).await?;
        let mut found = Vec::new();
        while let Some(entry) = stream.next().await? {
            let entry = SearchEntry::construct(entry);
            let name = values(&entry, &attribute).first().cloned();
            if let Some(name) = name.filter(|name| query::check_name(name).is_ok()) {
                found.push((entry.dn, name));
            }
            if found.len() > MAX_GROUPS {
                return Err(SearchError::Server(format!("more than {MAX_GROUPS} groups")));
            }
        }
        let result = stream.finish().await;
        match result.rc {
            SUCCESS => Ok(found),
            NO_SUCH_OBJECT => Err(SearchError::Server(format!("there is no {base}"))),
            code => Err(SearchError::Server(format!("{} ({code})", result.text.escape_debug()))),
        }
    }

    pub fn person_filter(&self, settings: &Settings, name: &str) -> String {
        let default = match self.kind {
            Kind::ActiveDirectory => "(&(objectCategory=person)(objectClass=user)(sAMAccountName={name}))",
            _ => "(uid={name})",
        };
        query::person(settings.person_filter.as_deref().unwrap_or(default), name)
    }

    fn name_attribute(&self, settings: &Settings) -> String {
        settings.name_attribute.clone().unwrap_or_else(|| self.by_kind("sAMAccountName", "uid"))
    }

    fn group_attribute(&self, settings: &Settings) -> String {
        settings.group_attribute.clone().unwrap_or_else(|| self.by_kind("sAMAccountName", "cn"))
    }

    fn by_kind(&self, active_directory: &str, other: &str) -> String {
        if self.kind == Kind::ActiveDirectory { active_directory } else { other }.into()
    }
}

/// Why a search has no result.
pub enum SearchError {
    Denied(Denial),
    Server(String),
    Connection(LdapError),
}

impl From<LdapError> for SearchError {
    fn from(error: LdapError) -> SearchError {
        SearchError::Connection(error)
    }
}

/// The values of an attribute, whose name has no case.
fn values<'a>(entry: &'a SearchEntry, name: &str) -> &'a [String] {
    entry.attrs.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map_or(&[], |(_, values)| values)
}

/// What the library says, and what lies beneath it, without its own preface.
pub fn words(error: &LdapError) -> String {
    let said = error.to_string();
    said.strip_prefix("I/O error: ").map_or(said.clone(), str::to_owned)
}
