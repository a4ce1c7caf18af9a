//! What is prepared outlives the server: a file of mode 0600 in the state folder of its account. What is damaged there is
//! left out. It never lies in the application's folder.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::Arc,
};

use cache::record::checksum;
use scheduled::{
    plan::{PageState, Plan},
    rule::PREPARE,
    Millis,
};

use crate::{
    caching::{
        scheduled::{Held, PageRecord, PreparedPage, FORMAT},
        OnRestart, SiteCache,
    },
    config::SiteConfig,
    support::{private_file, state_folder},
};

/// Bytes of a file that is written or read.
const MAX: u64 = 256 << 20;
/// How long after its time a prepared page is taken up by a server that was not there then.
const LATE: Millis = 3_600_000;

/// Before the digest of the code that has rendered the pages.
const CODE: &[u8] = b"code ";

/// The file of a site.
pub struct KeepingFile {
    path: PathBuf,
    /// Its name.
    site: String,
}

impl KeepingFile {
    /// None: the server's account has no state folder.
    pub fn of(site: &SiteConfig) -> Option<KeepingFile> {
        let root = checksum(&[site.root.as_os_str().as_encoded_bytes()]);
        let name = format!("scheduled-{}-{root:016x}", state_folder::file_name(&site.name));
        Some(KeepingFile { path: state_folder::path()?.join(name), site: site.name.clone() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Writes what is prepared for the times to come. Without anything there is no file, nor where that fails: the old one may have what was
/// purged since.
pub fn save(file: &KeepingFile, cache: &Arc<SiteCache>, wall: Millis) -> io::Result<()> {
    let times: Vec<Millis> = cache.schedule().plans.lock().keys().copied().filter(|at| *at > wall).collect();
    let prepared: Vec<Arc<PreparedPage>> = times.into_iter().flat_map(|at| cache.prepared_at(at)).collect();
    if prepared.is_empty() {
        return match fs::remove_file(&file.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let code = cache.cache().code_of(&file.site);
    let bytes = written(&prepared, code.as_deref()).inspect_err(|_| drop(fs::remove_file(&file.path)))?;
    private_file::replace_or_remove(&file.path, &bytes)
}

fn written(prepared: &[Arc<PreparedPage>], code: Option<&str>) -> io::Result<Vec<u8>> {
    let mut bytes = [FORMAT, CODE, code.unwrap_or_default().as_bytes(), b"\n"].concat();
    for page in prepared {
        let record = PageRecord::encode(page)?;
        // What finds no room is rendered when it is asked for, as without the file.
        if bytes.len() + record.len() > MAX as usize {
            break;
        }
        bytes.extend(record);
    }
    Ok(bytes)
}

/// Takes up what was prepared before this server began.
pub fn take_up(file: &KeepingFile, cache: &Arc<SiteCache>, wall: Millis) {
    let Ok(bytes) = private_file::read(&file.path, MAX) else { return };
    let (code, records) = records(&bytes);
    let is_its_own = match cache.settings.on_restart {
        OnRestart::Off => true,
        OnRestart::Changed => code.is_some_and(|code| cache.cache().is_made_by(&file.site, code)),
        OnRestart::Always => false,
    };
    if !is_its_own {
        return;
    }
    for record in records {
        let PageRecord { at, url, by_proxies, request, rendered, announced } = record;
        if wall.saturating_sub(at) > LATE {
            continue;
        }
        let page = cache.restore(&url, &by_proxies, request.clone(), announced.then_some(at));
        // The settings may have another time for it by now, or none. What an earlier one says has been heard.
        if !cache.schedule().changes_at(&page, at) {
            continue;
        }
        let moment = cache.cache().moment();
        let Ok(prepared) = cache.prepared(&page, request, rendered, at, moment) else { continue };
        if cache.cache().changes().hold(prepared) != Held::Kept {
            continue;
        }
        let mut plans = cache.schedule().plans.lock();
        let plan = plans.entry(at).or_insert_with(|| Plan::new(at, PREPARE));
        plan.pages.insert(url, PageState::Ready);
    }
}

/// The digest of the code, if it was known, and the records that are whole, up to the first one that is not.
fn records(bytes: &[u8]) -> (Option<&str>, Vec<PageRecord>) {
    let mut found = Vec::new();
    let rest = bytes.strip_prefix(FORMAT).and_then(|rest| rest.strip_prefix(CODE));
    let Some(rest) = rest else { return (None, found) };
    let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { return (None, found) };
    let code = std::str::from_utf8(&rest[..end]).ok().filter(|code| !code.is_empty());
    let mut rest = &rest[end + 1..];
    while let Some((record, after)) = PageRecord::decode(rest) {
        found.push(record);
        rest = after;
    }
    (code, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{caching::scheduled::RenderedPage, config::test_folder::Folder, support::clock};
    use ::scheduled::rule::Rule;
    use http::{header, HeaderMap, HeaderValue, StatusCode};

    const T: Millis = 1_795_780_800_000;

    fn site() -> Arc<SiteCache> {
        of_code(of_no_code_yet(), "one")
    }

    fn of_no_code_yet() -> Arc<SiteCache> {
        let rule = Rule::new(vec!["/sales/*".into()], "2026-11-27 12:00 UTC", 600_000).unwrap();
        SiteCache::of_test(vec![rule])
    }

    fn of_code(site: Arc<SiteCache>, code: &str) -> Arc<SiteCache> {
        site.cache().note_code("shop", Some(code.into()));
        site
    }

    fn file_in(folder: &Folder) -> KeepingFile {
        KeepingFile { path: folder.0.join("state/scheduled-shop"), site: "shop".into() }
    }

    fn prepare(site: &Arc<SiteCache>, path: &str, body: &'static str) {
        let page = site.restore(&format!("http://shop.test{path}"), b"by a proxy", HeaderMap::new(), None);
        let headers = HeaderMap::from_iter([(header::CACHE_CONTROL, HeaderValue::from_static("max-age=60"))]);
        let rendered = RenderedPage { status: StatusCode::OK, headers, body: body.into() };
        let prepared = site.prepared(&page, HeaderMap::new(), rendered, T, site.cache().moment()).unwrap();
        site.cache().changes().hold(prepared);
        site.schedule().plans.lock().entry(T).or_insert_with(|| Plan::new(T, PREPARE));
    }

    fn names(site: &Arc<SiteCache>) -> Vec<String> {
        let mut names: Vec<_> = site.prepared_at(T).iter().map(|page| page.name()).collect();
        names.sort();
        names
    }

    /// No rule is for it: the second time is known by what the page of the first one says.
    #[test]
    fn the_times_that_prepared_pages_say_are_known_again() {
        let folder = Folder::with(&[]);
        let file = file_in(&folder);
        let now = clock::unix_millis() / 1000 * 1000;
        let (first, second) = (now + 60_000, now + 120_000);
        let before = site();
        let prepare = |at: Millis, says: Millis| {
            let page = before.restore("http://shop.test/beers/1", &[], HeaderMap::new(), (at == first).then_some(at));
            let mut headers = HeaderMap::from_iter([(header::CACHE_CONTROL, HeaderValue::from_static("max-age=60"))]);
            headers.insert(::scheduled::CHANGES_AT, HeaderValue::from(says / 1000));
            let rendered = RenderedPage { status: StatusCode::OK, headers, body: "page".into() };
            let prepared = before.prepared(&page, HeaderMap::new(), rendered, at, before.cache().moment()).unwrap();
            assert_eq!(before.cache().changes().hold(prepared), Held::Kept);
            before.schedule().plans.lock().entry(at).or_insert_with(|| Plan::new(at, PREPARE));
        };
        prepare(first, second);
        prepare(second, second + 60_000);
        save(&file, &before, now).unwrap();
        let after = site();
        take_up(&file, &after, now);
        assert_eq!(after.prepared_times().into_iter().collect::<Vec<_>>(), [first, second]);
        let times = after.schedule().times(now);
        assert!([first, second, second + 60_000].iter().all(|at| times.contains_key(at)), "{times:?}");
    }

    #[test]
    fn what_is_purged_does_not_come_back_from_a_disk_that_is_full() {
        let folder = Folder::with(&[]);
        let file = KeepingFile { path: private_file::on_a_full_disk(&folder.0), ..file_in(&folder) };
        fs::write(&file.path, "with a page that is purged").unwrap();
        let before = site();
        prepare(&before, "/sales/1", "one");
        assert!(save(&file, &before, T - 1).is_err());
        assert!(!file.path.exists());
    }

    #[test]
    fn what_other_code_has_prepared_is_not_taken_up() {
        let folder = Folder::with(&[]);
        let file = file_in(&folder);
        let before = site();
        prepare(&before, "/sales/1", "one");
        save(&file, &before, T - 1).unwrap();
        let other = of_code(site(), "two");
        take_up(&file, &other, T - 1);
        assert!(names(&other).is_empty());
        let unknown = of_no_code_yet();
        take_up(&file, &unknown, T - 1);
        assert_eq!((names(&unknown).len(), unknown.cache().code_of("shop").as_deref()), (1, Some("one")));
        let unnamed = site();
        before.cache().note_code("shop", None);
        save(&file, &before, T - 1).unwrap();
        take_up(&file, &unnamed, T - 1);
        assert!(names(&unnamed).is_empty(), "nobody knows which code it was");
    }

    #[test]
    fn other_code_drops_what_is_prepared_also_where_nothing_else_is_kept() {
        let folder = Folder::with(&[]);
        let file = file_in(&folder);
        let before = site();
        prepare(&before, "/sales/1", "one");
        save(&file, &before, T - 1).unwrap();
        let after = site();
        take_up(&file, &after, T - 1);
        after.cache().purge_site(&[], |authority| authority == "other.test");
        assert_eq!(names(&after).len(), 1);
        after.cache().purge_site(&[], |authority| authority == "shop.test");
        assert!(names(&after).is_empty());
    }

    #[test]
    fn what_is_prepared_is_there_again() {
        let folder = Folder::with(&[]);
        let file = file_in(&folder);
        let before = site();
        prepare(&before, "/sales/1", "one");
        prepare(&before, "/sales/2", "two");
        save(&file, &before, T - 1).unwrap();
        let after = site();
        take_up(&file, &after, T + 1);
        assert_eq!(names(&after), ["http://shop.test/sales/1", "http://shop.test/sales/2"]);
        assert_eq!(
            after.prepared_at(T)[0].rendered,
            before.prepared_at(T).iter().find(|page| page.name() == after.prepared_at(T)[0].name()).unwrap().rendered
        );
        assert_eq!(after.schedule().plans.lock()[&T].count("ready"), 2);
        assert!(after.prepared_at(T).iter().all(|page| page.page.by_proxies == b"by a proxy"));

        let late = site();
        take_up(&file, &late, T + LATE + 1);
        assert!(names(&late).is_empty(), "nobody knows what has changed since");

        let mut bytes = fs::read(&file.path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(&file.path, &bytes).unwrap();
        let damaged = site();
        take_up(&file, &damaged, T - 1);
        assert_eq!(names(&damaged).len(), 1);

        save(&file, &before, T).unwrap();
        assert!(!file.path.exists(), "it has changed, and nothing else is prepared");
    }
}
