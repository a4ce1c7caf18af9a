//! The sites that are closed for maintenance on all fronts. Valkey has them, with a version that each front compares when it
//! says that it is there; so one that was away hears of them, too. Each front remembers them in its state folder, and
//! writes them back when Valkey has lost them. It never opens what a front has closed by itself.

use std::{path::PathBuf, time::Duration};

use ::cluster::{ClosedSites, Position, Sighting};
use serde_json::{json, Value};
use tokio::time::sleep;

use super::{
    error::{LinkError, SharedStateError},
    link::mark,
    now, Cluster,
};
use crate::{observe::log::Name, support::private_file};

/// The others are waited for, at most: each asks once a second.
const CONFIRM: u64 = 10_000;
const LOOK: Duration = Duration::from_millis(50);
/// How often a change is tried while others make theirs.
const TRIES: usize = 10;
/// Bytes of the file, at most.
const MAX_FILE: u64 = 1 << 20;

/// What this front knows of them.
#[derive(Default)]
pub struct Closing {
    version: Position,
    sites: ClosedSites,
    /// Where it is remembered.
    file: Option<PathBuf>,
    /// A version that it could not read, and has said so.
    unreadable: String,
}

impl Closing {
    pub fn in_file(file: Option<PathBuf>) -> Closing {
        Closing { file, ..Closing::default() }
    }

    /// As it was when this front, or the one before it, ended.
    fn remembered(&self) -> Option<(Position, ClosedSites)> {
        let said: Value = serde_json::from_slice(&private_file::read(self.file.as_ref()?, MAX_FILE).ok()?).ok()?;
        Some((Position::parse(said["version"].as_str()?)?, ClosedSites::from_json(&said["sites"].to_string())?))
    }

    /// Nothing needs to be remembered before something was closed for the first time.
    fn remember(&self) -> std::io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let sites: Value = serde_json::from_str(&self.sites.to_json())?;
        private_file::replace(file, json!({ "version": written(&self.version), "sites": sites }).to_string().as_bytes())
    }
}

/// As Valkey has a version.
fn written(version: &Position) -> String {
    match version.number {
        0 => String::new(),
        _ => version.to_string(),
    }
}

impl Cluster {
    /// What is closed on all fronts.
    pub fn closed(&self) -> ClosedSites {
        self.closing.lock().sites.clone()
    }

    /// Does something with it that no change comes between.
    pub fn apply_closed(&self, apply: impl FnOnce(&ClosedSites)) {
        apply(&self.closing.lock().sites);
    }

    pub(super) fn closed_version(&self) -> Position {
        self.closing.lock().version.clone()
    }

    /// For Valkey, which says nothing if it has the same.
    pub(super) fn closed_text(&self) -> String {
        written(&self.closing.lock().version)
    }

    /// Closes what was closed when this front ended, before it hears from the others.
    pub(super) fn recall_closed(&self) {
        let remembered = self.closing.lock().remembered();
        if let Some((version, sites)) = remembered {
            self.adopt(version, sites);
        }
    }

    /// Asks what is closed on all fronts, which may have changed a moment ago. Why that is not known, if it is not.
    pub async fn hear_closed(&self) -> Option<String> {
        match self.link.closed().await {
            Ok((version, sites)) => {
                self.heard_closed(&version, &sites).await;
                self.trouble()
            }
            Err(why) => Some(why.to_string()),
        }
    }

    /// What Valkey has. It may have lost the last change, or everything; then it gets it back.
    pub(super) async fn heard_closed(&self, version: &str, sites: &str) {
        let (known, known_sites) = {
            let closing = self.closing.lock();
            (closing.version.clone(), closing.sites.clone())
        };
        if version == written(&known) {
            return;
        }
        let theirs = Position::parse(version).unwrap_or_default();
        if theirs.number < known.number {
            // If it fails, the next beat is told the same.
            let _ = self.link.close(version, &written(&known), &known_sites).await;
            return;
        }
        match ClosedSites::from_json(sites) {
            Some(sites) => self.adopt(theirs, sites),
            None => self.cannot_read(version),
        }
    }

    fn cannot_read(&self, version: &str) {
        let mut closing = self.closing.lock();
        if closing.unreadable != version {
            closing.unreadable = version.to_owned();
            let text = format!(
                "Cluster {}: a newer Paceline has changed which sites are closed for maintenance on all servers, in a way that this one \
                 does not understand: nothing changes here",
                self.settings.name
            );
            self.log.event(Name::Cluster, text);
        }
    }

    fn adopt(&self, version: Position, sites: ClosedSites) {
        let mut closing = self.closing.lock();
        if version.number < closing.version.number {
            return;
        }
        closing.version = version;
        closing.sites = sites;
        if let Err(why) = closing.remember() {
            let text = format!(
                "Cluster {}: could not save which sites are closed for maintenance on all servers: {why}. After a restart this server \
                 asks {} for them",
                self.settings.name,
                self.link.place()
            );
            self.log.event(Name::Cluster, text);
        }
        // Under the lock, so that the last change is the last one that is applied.
        if let Some(own) = self.own.get() {
            own.close(&closing.sites);
        }
        drop(closing);
        self.has_news();
    }

    /// Closes a site on all fronts, or all sites, or opens them: `notice` is None. The number of the change, which the others
    /// confirm.
    ///
    /// # Errors
    /// Why nothing has changed, as far as this front knows.
    pub async fn close_sites(&self, site: Option<&str>, notice: Option<&Value>) -> Result<u64, SharedStateError> {
        for _ in 0..TRIES {
            let (version, sites) = self.link.closed().await.map_err(|why| self.unreachable(why))?;
            let theirs = Position::parse(&version).unwrap_or_default();
            let known = self.closed_version();
            let (number, mut sites) = match ClosedSites::from_json(&sites) {
                Some(sites) if theirs.number >= known.number => (theirs.number, sites),
                None if theirs.number > known.number => return Err(SharedStateError::Newer),
                _ => (known.number, self.closed()),
            };
            sites.turn(site, notice.cloned());
            if sites.is_too_large() {
                return Err(SharedStateError::TooLarge);
            }
            // What another one has written may be any number.
            let next_number = number.saturating_add(1);
            let next = Position::new(next_number, mark());
            let changed = self.link.close(&version, &written(&next), &sites).await;
            if changed.map_err(|why| self.unreachable(why))? {
                self.adopt(next, sites);
                return Ok(next_number);
            }
        }
        Err(SharedStateError::Contended)
    }

    /// Waits until all fronts that can be reached have applied the change; how they stand then.
    ///
    /// # Errors
    /// Why that is not known.
    pub async fn confirmed(&self, number: u64) -> Result<Vec<Sighting>, SharedStateError> {
        let end = now() + CONFIRM;
        loop {
            let members = self.link.members().await.map_err(|why| self.unreachable(why))?;
            let is_waiting = |seen: &Sighting| {
                seen.left > 0
                    && !seen.member.has_left
                    && seen.member.id != self.me.id
                    && seen.member.closed.is_some_and(|applied| applied < number)
            };
            if !members.iter().any(is_waiting) || now() >= end {
                return Ok(members);
            }
            sleep(LOOK).await;
        }
    }

    pub(super) fn unreachable(&self, why: LinkError) -> SharedStateError {
        SharedStateError::Unreachable { place: self.link.place().to_owned(), why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_closed_is_remembered() {
        let folder = std::env::temp_dir().join(format!("paceline-closing-{}", std::process::id()));
        let path = folder.join("cluster-shop.json");
        let mut closing = Closing::in_file(Some(path.clone()));
        assert!(closing.remembered().is_none());
        closing.version = Position::new(3, "9f3c");
        closing.sites.turn(Some("shop"), Some(json!({ "page": "<p>" })));
        closing.remember().unwrap();
        let again = Closing::in_file(Some(path.clone())).remembered();
        assert_eq!(again, Some((closing.version.clone(), closing.sites.clone())));
        std::fs::write(path, "{").unwrap();
        assert!(closing.remembered().is_none());
        std::fs::remove_dir_all(folder).unwrap();
        assert!(Closing::in_file(None).remember().is_ok());
        assert_eq!((written(&Position::default()), written(&Position::new(1, "a"))), (String::new(), "1-a".into()));
    }
}
