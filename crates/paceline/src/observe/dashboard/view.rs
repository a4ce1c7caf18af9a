//! What the dashboard shows, as plain data.
//! It never looks anything up.

use cluster::Sighting;

use super::history::{History, Memories, Span};

/// The dashboard at one moment.
pub struct View<'a> {
    /// Unix seconds.
    pub now: f64,
    pub span: Span,
    /// The site that is looked at. None: all of them.
    pub site: Option<&'a str>,
    pub sites: Vec<SiteState>,
    pub history: &'a History,
    pub memories: &'a Memories,
    pub workers: Vec<Worker>,
    pub front: Front,
    pub cache: CacheState,
    /// The oldest first, and how many there are in all.
    pub live: Vec<Live>,
    pub live_count: usize,
    /// What went wrong with processes, and requests that failed in the application; the newest first.
    pub incidents: Vec<Trouble>,
    pub failed: Vec<Trouble>,
    /// None: the server is alone.
    pub cluster: Option<ClusterState>,
}

/// The servers of several machines.
#[derive(Debug, Clone, Default)]
pub struct ClusterState {
    pub name: String,
    /// Where its Valkey is.
    pub server: String,
    /// Why that does not answer, if it does not.
    pub trouble: Option<String>,
    /// The id of the server that shows this.
    pub own_id: String,
    /// As they were seen last.
    pub members: Vec<Sighting>,
}

/// A site and how it stands.
#[derive(Debug, Clone, Default)]
pub struct SiteState {
    pub name: String,
    /// `ready`, `starting`, `failed`, `stopped`, `files`, `upstream`.
    pub standing: &'static str,
    /// Why its last start failed, if it did.
    pub failure: Option<String>,
    /// The incident of that.
    pub incident: Option<String>,
    /// Such as "ruby 3.1.2, rack 2.2.6".
    pub versions: String,
    /// Generation that serves; 0: none.
    pub generation: u64,
    /// A generation boots beside it.
    pub boots: bool,
    /// What parts of the server say of it, a line each.
    pub notes: Vec<String>,
}

/// The front itself.
#[derive(Debug, Clone, Default)]
pub struct Front {
    pub version: &'static str,
    pub pid: u32,
    /// Seconds since it began.
    pub up: f64,
    /// Private bytes.
    pub memory: Option<u64>,
}

/// A Ruby process.
#[derive(Debug, Clone, Default)]
pub struct Worker {
    pub site: String,
    pub generation: u64,
    /// 0: the preloader.
    pub index: usize,
    pub pid: i32,
    /// `ready`, `starting`, `leaving`, `preloader`.
    pub state: &'static str,
    /// Private bytes.
    pub memory: Option<u64>,
    pub busy: usize,
    pub answered: u64,
    /// Seconds since it was forked.
    pub age: f64,
}

/// What the page cache did since the server began.
#[derive(Debug, Clone, Default)]
pub struct CacheState {
    pub hits: u64,
    pub asked: u64,
    /// Why requests were not answered from it: RFC 9211's word, what it means, how many.
    pub reasons: Vec<(String, String, u64)>,
}

/// A request under way.
#[derive(Debug, Clone, Default)]
pub struct Live {
    pub number: u64,
    pub site: String,
    pub method: String,
    /// Without the query.
    pub path: String,
    pub step: &'static str,
    pub age_ms: u64,
    /// The worker's index and its thread.
    pub worker: Option<(usize, usize)>,
}

/// Something that went wrong, with a page.
#[derive(Debug, Clone, Default)]
pub struct Trouble {
    pub href: String,
    /// Unix seconds.
    pub at: f64,
    pub kind: String,
    pub site: String,
    pub what: String,
    pub times: u64,
}
