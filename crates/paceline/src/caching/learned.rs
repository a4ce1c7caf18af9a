//! What each site's responses have told of its cookies, for as long as the server is known: beyond a change of a site's
//! settings, to the next front (`succession`) and, where there is a folder for it, beyond a restart. It never decides
//! what a name means.

use std::{
    collections::BTreeMap,
    sync::{
        mpsc::{self, Sender},
        Arc,
    },
    thread::JoinHandle,
};

use cache::cookies::{CookieKnowledge, Token};
use http::HeaderMap;
use parking_lot::{Mutex, RwLock};
use serde_json::{json, Map, Value};

use super::{
    cookie_file::{CookieFile, CookieFileError},
    succession::RelayMessage,
    Cache, Say,
};
use crate::support::signal_mask;

/// Sites of which it is written, at most; of further ones it stays in memory.
pub const MAX_SITES: usize = 1024;

/// One site's cookies.
#[derive(Default)]
pub struct SiteCookies {
    site: String,
    learned: RwLock<Arc<CookieKnowledge>>,
}

/// Those of all sites that were served.
#[derive(Default)]
pub struct Cookies {
    sites: Mutex<BTreeMap<String, Arc<SiteCookies>>>,
    writer: Mutex<Option<Writer>>,
}

/// The thread that writes, and what it is woken by.
struct Writer {
    wake: Sender<()>,
    thread: JoinHandle<()>,
}

impl SiteCookies {
    pub fn learned(&self) -> Arc<CookieKnowledge> {
        self.learned.read().clone()
    }

    /// What is known when `more` has seen what was known before. None: it found nothing new.
    fn change(&self, more: impl Fn(&CookieKnowledge) -> Option<CookieKnowledge>) -> Option<Arc<CookieKnowledge>> {
        more(&self.learned())?;
        let mut learned = self.learned.write();
        // Another may have been here meanwhile.
        *learned = Arc::new(more(&learned)?);
        Some(learned.clone())
    }
}

impl Cookies {
    /// Those of a site.
    pub fn of(&self, site: &str) -> Arc<SiteCookies> {
        let mut sites = self.sites.lock();
        let new = || Arc::new(SiteCookies { site: site.to_owned(), ..SiteCookies::default() });
        sites.entry(site.to_owned()).or_insert_with(new).clone()
    }

    /// All of which something is known.
    pub fn all(&self) -> Vec<(String, Arc<CookieKnowledge>)> {
        let sites = self.sites.lock();
        let all = sites.iter().map(|(name, cookies)| (name.clone(), cookies.learned()));
        all.filter(|(_, learned)| **learned != CookieKnowledge::default()).collect()
    }

    fn take(&self, site: &str, learned: &CookieKnowledge) -> Option<Arc<CookieKnowledge>> {
        self.of(site).change(|known| known.merged(learned))
    }

    fn wake_writer(&self) {
        if let Some(writer) = &*self.writer.lock() {
            // A thread that is gone has said why.
            let _ = writer.wake.send(());
        }
    }

    /// Writes what is not written yet, and ends the thread.
    pub(super) fn close(&self) {
        let writer = self.writer.lock().take();
        if let Some(Writer { wake, thread }) = writer {
            drop(wake);
            let _ = thread.join();
        }
    }
}

impl Cache {
    /// What was learned of the sites' cookies.
    pub fn cookies(&self) -> &Arc<Cookies> {
        &self.cookies
    }

    /// Goes on with what a file of an earlier run tells, and writes to it from now on. `say` is told, in one line each,
    /// of what is worth knowing.
    pub fn keep_cookies(&self, file: Option<CookieFile>, say: Say) -> std::io::Result<()> {
        let cookies = self.cookies.clone();
        match file.as_ref().map(CookieFile::read) {
            Some(Ok(sites)) => sites.iter().for_each(|(site, learned)| drop(cookies.take(site, learned))),
            Some(Err(why)) => {
                say(format!("What was learned of the applications' cookies can't be read, and is learned again: {why}"))
            }
            None => {}
        }
        let (wake, woken) = mpsc::channel();
        let thread = std::thread::Builder::new().name("cookie-names".into()).spawn(move || {
            signal_mask::block();
            let mut said = false;
            while woken.recv().is_ok() {
                // One file for all that was learned meanwhile.
                woken.try_iter().for_each(drop);
                let written = match &file {
                    Some(file) => file.write(&cookies.all()),
                    None => Err(CookieFileError::NoFolder),
                };
                if let Some(why) = written.err().filter(|_| !said) {
                    said = true;
                    say(format!("What is learned of the applications' cookies is lost with the next restart: {why}"));
                }
            }
        })?;
        *self.cookies.writer.lock() = Some(Writer { wake, thread });
        Ok(())
    }

    /// What another process has learned of a site's cookies.
    pub fn take_cookies(&self, site: &str, learned: &CookieKnowledge) {
        if let Some(learned) = self.cookies.take(site, learned) {
            self.learned(site, &learned);
        }
    }

    /// Learns from a response. What is known now, if that is more than before.
    pub(super) fn learn(
        &self,
        site: &SiteCookies,
        more: impl Fn(&CookieKnowledge) -> Option<CookieKnowledge>,
    ) -> Option<Arc<CookieKnowledge>> {
        let learned = site.change(more)?;
        self.learned(&site.site, &learned);
        Some(learned)
    }

    fn learned(&self, site: &str, learned: &Arc<CookieKnowledge>) {
        self.relayed(|| RelayMessage::Cookies(site.to_owned(), CookieKnowledge::clone(learned)));
        self.cookies.wake_writer();
    }
}

/// What a response tells, for `Cache::learn`.
pub fn from_response(response: &HeaderMap) -> impl Fn(&CookieKnowledge) -> Option<CookieKnowledge> + '_ {
    |known| known.after(response)
}

/// As JSON, in files, between processes and for programs.
pub fn to_json(learned: &CookieKnowledge) -> Value {
    let tokens: Map<String, Value> =
        learned.tokens.iter().map(|token| (token.name.clone(), token.page.clone().into())).collect();
    json!({ "http_only": learned.http_only, "tokens": tokens, "overflowed": learned.overflowed })
}

/// None: it is none of ours. More than is ever remembered is not taken.
pub fn from_json(value: &Value) -> Option<CookieKnowledge> {
    let http_only = value["http_only"].as_array()?.iter().map(|name| name.as_str().map(str::to_owned));
    let tokens = value["tokens"].as_object()?.iter();
    let tokens = tokens.map(|(name, page)| Token { name: name.clone(), page: page.as_str().map(str::to_owned) });
    let read = CookieKnowledge {
        http_only: http_only.collect::<Option<_>>()?,
        tokens: tokens.collect(),
        overflowed: value["overflowed"].as_bool()?,
    };
    Some(CookieKnowledge::default().merged(&read).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(names: &[&str]) -> CookieKnowledge {
        CookieKnowledge { http_only: names.iter().map(|name| name.to_string()).collect(), ..CookieKnowledge::default() }
    }

    #[test]
    fn as_json_and_back() {
        let tokens = vec![
            Token { name: "XSRF-TOKEN".into(), page: Some("/\u{1b}".into()) },
            Token { name: "csrf".into(), page: None },
        ];
        let all = CookieKnowledge { tokens, overflowed: true, ..learned(&["_a", "b\"c"]) };
        assert_eq!(from_json(&to_json(&all)), Some(all));
        assert_eq!(from_json(&to_json(&CookieKnowledge::default())), Some(CookieKnowledge::default()));
        for wrong in ["{}", "[]", r#"{"http_only":[1],"tokens":{},"overflowed":false}"#, r#"{"http_only":[]}"#] {
            assert_eq!(from_json(&serde_json::from_str(wrong).unwrap()), None, "{wrong}");
        }
        let many: Vec<String> = (0..1000).map(|n| format!("n{n}")).collect();
        let read = from_json(&json!({ "http_only": many, "tokens": {}, "overflowed": false })).unwrap();
        assert_eq!((read.http_only.len(), read.overflowed), (cache::cookies::MAX_NAMES, true));
    }

    #[test]
    fn names_that_come_at_the_same_time_are_all_there() {
        let cookies = Cookies::default();
        std::thread::scope(|scope| {
            for n in 0..8 {
                let cookies = &cookies;
                scope.spawn(move || (0..8).for_each(|m| drop(cookies.take("a", &learned(&[&format!("n{n}{m}")])))));
            }
        });
        assert_eq!(cookies.of("a").learned().http_only.len(), 64);
        let _ = cookies.of("b");
        assert_eq!(cookies.all().len(), 1, "of b nothing is known");
    }

    #[test]
    fn what_was_learned_is_there_after_a_restart_and_told_to_who_takes_over() {
        let folder = std::env::temp_dir().join(format!("paceline-learned-{}", std::process::id()));
        let silent: Say = Arc::new(|line| panic!("{line}"));
        let open = || {
            let cache = Cache::new(1 << 20);
            cache.keep_cookies(Some(CookieFile::new(&folder)), silent.clone()).unwrap();
            cache
        };
        let old = open();
        let (relay, told) = mpsc::channel();
        old.relay(Some(relay));
        assert!(old.learn(&old.cookies().of("shop"), |known| known.merged(&learned(&["_id"]))).is_some());
        assert!(old.learn(&old.cookies().of("shop"), |known| known.merged(&learned(&["_id"]))).is_none());
        old.close();
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [RelayMessage::Cookies("shop".into(), learned(&["_id"]))]);
        assert_eq!(*open().cookies().of("shop").learned(), learned(&["_id"]));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
