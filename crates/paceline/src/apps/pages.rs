//! What is kept of an application's pages, as its actor sees it. It keeps and purges nothing itself.

use std::sync::Arc;

use tokio::{task::spawn_blocking, time::timeout};

use super::{attempts::Outcome, ready_check::Page};
use crate::caching::{
    code::{self, Load, Unknown},
    MadeBy, OnRestart,
};
use unix_user::RunAs;

/// The pages of one site. All of it may take a moment.
pub trait SitePages: Send + Sync {
    /// Those that are asked for most, so many at most.
    fn popular(&self, most: usize) -> Vec<Page>;

    /// Purges all. How many there were.
    fn purge(&self) -> usize;

    /// Which code has made them. If there were none before, all are of the code of the digest `now` from here on.
    fn made_by(&self, now: Option<&str>) -> MadeBy;

    /// From now on all are of the code of this digest; None: nobody knows which.
    fn note_code(&self, code: Option<String>);

    /// Held while the files of its application are read. Where they lie may never answer, and then a thread is lost, but not one more
    /// with each restart and each change of its settings.
    fn turn(&self) -> Turn;
}

pub type Pages = Arc<dyn SitePages>;

/// One at a time has it.
pub type Turn = Arc<tokio::sync::Mutex<()>>;

/// Of an application of which nothing is kept.
pub struct NoPages;

impl SitePages for NoPages {
    fn popular(&self, _: usize) -> Vec<Page> {
        Vec::new()
    }

    fn purge(&self) -> usize {
        0
    }

    fn made_by(&self, _: Option<&str>) -> MadeBy {
        MadeBy::Itself
    }

    fn note_code(&self, _: Option<String>) {}

    fn turn(&self) -> Turn {
        Turn::default()
    }
}

/// Why a load of the code has no digest to compare.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Uncompared {
    /// `purge_on_restart` asks for no comparison.
    #[error("it was not compared")]
    NotAsked,
    /// It has served, and its files may be others by now.
    #[error("it was not compared in time")]
    NotInTime,
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// The thread that read them has ended.
    #[error("its files could not be read")]
    Unread,
}

/// The digest of a load of the code.
pub type Digest = Result<String, Uncompared>;

/// A load of the code that has taken over.
pub struct Loaded {
    pub load: Load,
    /// Unix seconds.
    pub began: f64,
    pub run_as: RunAs,
    /// It has served before, when its digest was this.
    pub known: Option<Digest>,
}

/// What a load of the code that takes over does to the pages.
pub struct Purged {
    pub digest: Digest,
    /// In a line, if something was purged.
    pub text: Option<String>,
}

/// What those who wait for a restart are told once the pages are what they are to be.
pub struct Settled {
    pub outcome: Outcome,
    /// Their numbers.
    pub attempts: Vec<u64>,
}

/// Purges the pages that another code has made. All requests that the code before may answer have been asked for already.
pub async fn renew(pages: Pages, on_restart: OnRestart, loaded: Loaded) -> Purged {
    let digest = match loaded.known.clone() {
        Some(digest) => digest,
        None if on_restart != OnRestart::Changed => Err(Uncompared::NotAsked),
        None => {
            timeout(code::PATIENCE, read(loaded, pages.turn())).await.unwrap_or_else(|_| Err(Unknown::TooSlow.into()))
        }
    };
    let known = digest.clone();
    let purging = spawn_blocking(move || purge(&*pages, on_restart, known));
    Purged { digest, text: purging.await.ok().flatten() }
}

async fn read(Loaded { load, began, run_as, .. }: Loaded, turn: Turn) -> Digest {
    let turn = turn.lock_owned().await;
    let reading = spawn_blocking(move || {
        let _turn = turn;
        code::digest(&load, began, &run_as)
    });
    reading.await.map_or(Err(Uncompared::Unread), |digest| digest.map_err(Uncompared::from))
}

fn purge(pages: &dyn SitePages, on_restart: OnRestart, digest: Digest) -> Option<String> {
    let now = digest.as_deref().ok().filter(|_| on_restart == OnRestart::Changed);
    let why = match (on_restart, &digest, pages.made_by(now)) {
        (OnRestart::Off, ..) => None,
        (OnRestart::Always, ..) => Some("purge_on_restart = \"always\"".to_owned()),
        (OnRestart::Changed, _, MadeBy::Itself) => None,
        (OnRestart::Changed, Ok(now), MadeBy::Code(before)) if *now == before => None,
        (OnRestart::Changed, Ok(_), MadeBy::Code(_)) => Some("the code has changed".into()),
        (OnRestart::Changed, Ok(_), MadeBy::Unknown) => Some("it is not known which code made them".into()),
        (OnRestart::Changed, Err(why), _) => Some(format!("the code can't be compared: {why}")),
    };
    // Until they are gone they are of no code: the process may end before.
    if why.is_some() || on_restart == OnRestart::Off {
        pages.note_code(None);
    }
    let purged = why.map(|why| (pages.purge(), why));
    if on_restart == OnRestart::Changed {
        pages.note_code(digest.ok());
    }
    let (count, why) = purged.filter(|(count, _)| *count > 0)?;
    let pages = if count == 1 { "page" } else { "pages" };
    Some(format!("purged {count} {pages}: {why}"))
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    struct CountedPages {
        count: Mutex<usize>,
        made_by: Mutex<MadeBy>,
    }

    impl SitePages for CountedPages {
        fn popular(&self, _: usize) -> Vec<Page> {
            Vec::new()
        }

        fn purge(&self) -> usize {
            assert_eq!(*self.made_by.lock(), MadeBy::Unknown, "the server may end here");
            std::mem::take(&mut self.count.lock())
        }

        fn made_by(&self, _: Option<&str>) -> MadeBy {
            self.made_by.lock().clone()
        }

        fn turn(&self) -> Turn {
            Turn::default()
        }

        fn note_code(&self, code: Option<String>) {
            *self.made_by.lock() = code.map_or(MadeBy::Unknown, MadeBy::Code);
        }
    }

    #[tokio::test]
    async fn the_code_is_read_by_one_thread_at_a_time() {
        let (load, run_as) = (Arc::into_inner(Load::for_tests()).unwrap(), RunAs::own());
        let turn = Turn::default();
        let held = turn.clone().lock_owned().await;
        let reading = tokio::spawn(read(Loaded { load, began: 0.0, run_as, known: None }, turn));
        tokio::task::yield_now().await;
        assert!(!reading.is_finished(), "the one before has not come back");
        drop(held);
        assert!(matches!(reading.await.unwrap(), Err(Uncompared::Unknown(Unknown::Unreadable(..)))));
    }

    #[test]
    fn pages_of_other_code_go_and_those_of_the_same_stay() {
        let kept =
            |count: usize, made_by: MadeBy| CountedPages { count: Mutex::new(count), made_by: Mutex::new(made_by) };
        let code = |code: &str| MadeBy::Code(code.into());
        let (one, none): (Digest, Digest) = (Ok("one".into()), Err(Unknown::Changed("app/a.rb".into()).into()));
        let changed = Some("purged 2 pages: the code has changed");
        let unknown = Some("purged 2 pages: it is not known which code made them");
        let uncompared =
            Some("purged 2 pages: the code can't be compared: app/a.rb may have changed since it was loaded");
        for (on_restart, digest, before, told, after) in [
            (OnRestart::Changed, &one, code("one"), None, code("one")),
            (OnRestart::Changed, &one, MadeBy::Itself, None, code("one")),
            (OnRestart::Changed, &none, MadeBy::Itself, None, MadeBy::Unknown),
            (OnRestart::Changed, &one, code("two"), changed, code("one")),
            (OnRestart::Changed, &one, MadeBy::Unknown, unknown, code("one")),
            (OnRestart::Changed, &none, code("one"), uncompared, MadeBy::Unknown),
            (
                OnRestart::Always,
                &none,
                code("one"),
                Some("purged 2 pages: purge_on_restart = \"always\""),
                MadeBy::Unknown,
            ),
            (OnRestart::Off, &none, code("two"), None, MadeBy::Unknown),
        ] {
            let pages = kept(2, before);
            assert_eq!(purge(&pages, on_restart, digest.clone()).as_deref(), told);
            assert_eq!((*pages.count.lock() == 0, pages.made_by(None)), (told.is_some(), after), "{told:?}");
        }
        assert_eq!(purge(&kept(0, code("two")), OnRestart::Changed, one.clone()), None, "nothing is worth a word");
        let told = purge(&kept(1, code("two")), OnRestart::Changed, one);
        assert_eq!(told.as_deref(), Some("purged 1 page: the code has changed"));
    }
}
