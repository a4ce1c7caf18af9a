//! The routes that have proved to be right with one load of the code: with the same code they need fewer comparisons after a
//! restart. It keeps no page, and decides nothing.

use std::{collections::BTreeSet, io, path::PathBuf};

use serde_json::{json, Value};
use unix_user::RunAs;

use crate::support::private_file;

const FORMAT: u64 = 1;
const MAX_FILE: u64 = 1 << 20;
const MAX_ROUTES: usize = 1000;

/// Where they are remembered.
pub struct Memory {
    pub file: PathBuf,
    /// With whose rights its files are read.
    pub run_as: RunAs,
}

#[derive(Default)]
pub struct ProvenRoutes {
    /// None: they are remembered nowhere.
    pub memory: Option<Memory>,
    /// The digest of the code that answers. None: it is not known.
    code: Option<String>,
    /// The load of the code for which it was asked.
    pub release: Option<String>,
    /// It is being asked.
    pub is_asked: bool,
    routes: BTreeSet<String>,
}

impl ProvenRoutes {
    pub fn new(memory: Option<Memory>) -> ProvenRoutes {
        ProvenRoutes { memory, ..ProvenRoutes::default() }
    }

    /// Another load of the code answers, and nobody knows which.
    pub fn forget_code(&mut self) {
        self.code = None;
        self.release = None;
        self.routes.clear();
    }

    /// This code answers. Those that were proven with it.
    pub fn begin(&mut self, code: String) -> BTreeSet<String> {
        self.routes = self.memory.as_ref().and_then(|memory| read(memory, &code)).unwrap_or_default();
        self.code = Some(code);
        self.routes.clone()
    }

    pub fn add(&mut self, route: &str) -> io::Result<()> {
        if self.code.is_some() && self.routes.len() < MAX_ROUTES && self.routes.insert(route.to_owned()) {
            self.write()
        } else {
            Ok(())
        }
    }

    /// It was wrong, or is turned off or on by hand.
    pub fn remove(&mut self, route: &str) -> io::Result<()> {
        if self.code.is_none() {
            return self.remove_kept(route);
        }
        if self.routes.remove(route) {
            self.write()
        } else {
            Ok(())
        }
    }

    /// Nobody knows with which code it was wrong: with the one that is kept, too.
    fn remove_kept(&self, route: &str) -> io::Result<()> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let Some((code, mut routes)) = kept(memory) else { return Ok(()) };
        if routes.remove(route) {
            write(memory, &code, &routes)
        } else {
            Ok(())
        }
    }

    fn write(&self) -> io::Result<()> {
        let (Some(memory), Some(code)) = (&self.memory, &self.code) else { return Ok(()) };
        write(memory, code, &self.routes)
    }
}

fn write(memory: &Memory, code: &str, routes: &BTreeSet<String>) -> io::Result<()> {
    let text = json!({ "format": FORMAT, "code": code, "routes": routes }).to_string();
    private_file::replace_or_remove(&memory.file, text.as_bytes())
}

/// None: there are none of this code.
fn read(memory: &Memory, code: &str) -> Option<BTreeSet<String>> {
    kept(memory).filter(|(own, _)| own == code).map(|(_, routes)| routes)
}

/// The code and its routes. None: nothing is kept.
fn kept(memory: &Memory) -> Option<(String, BTreeSet<String>)> {
    let said: Value = serde_json::from_slice(&private_file::read(&memory.file, MAX_FILE).ok()?).ok()?;
    let code = said["code"].as_str().filter(|_| said["format"] == FORMAT)?;
    let routes = said["routes"].as_array()?;
    let routes = routes.iter().filter_map(|route| Some(route.as_str()?.to_owned())).take(MAX_ROUTES).collect();
    Some((code.to_owned(), routes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_that_was_wrong_is_not_remembered_by_a_disk_that_is_full() {
        let folder = std::env::temp_dir().join(format!("paceline-proven-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir(&folder).unwrap();
        let file = private_file::on_a_full_disk(&folder);
        std::fs::write(&file, json!({ "format": FORMAT, "code": "a", "routes": ["GET /a", "GET /b"] }).to_string())
            .unwrap();
        let proven = || ProvenRoutes::new(Some(Memory { file: file.clone(), run_as: RunAs::own() }));
        let mut first = proven();
        assert_eq!(first.begin("a".into()).len(), 2);
        assert!(first.remove("GET /a").is_err());
        assert!(proven().begin("a".into()).is_empty());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn they_belong_to_their_code() {
        let folder = std::env::temp_dir().join(format!("paceline-proven-{}", uuid::Uuid::new_v4().simple()));
        let proven = || {
            let file = folder.join("auto-cache-shop-proven.json");
            ProvenRoutes::new(Some(Memory { file, run_as: RunAs::own() }))
        };
        let names = |routes: BTreeSet<String>| routes.into_iter().collect::<Vec<_>>().join(" ");
        let mut first = proven();
        first.add("GET /too-early").unwrap();
        assert_eq!(names(first.begin("a".into())), "");
        for route in ["GET /a", "GET /b", "GET /c"] {
            first.add(route).unwrap();
        }
        first.remove("GET /b").unwrap();
        assert_eq!(names(proven().begin("a".into())), "GET /a GET /c");
        first.forget_code();
        first.add("GET /b").unwrap();
        assert_eq!(names(proven().begin("a".into())), "GET /a GET /c", "it is not known with which code");
        first.remove("GET /c").unwrap();
        assert_eq!(names(proven().begin("a".into())), "GET /a", "it was wrong, with whatever code");
        let mut other = proven();
        assert_eq!(names(other.begin("b".into())), "");
        other.add("GET /d").unwrap();
        assert_eq!(
            (names(proven().begin("a".into())), names(proven().begin("b".into()))),
            (String::new(), "GET /d".into())
        );
        std::fs::remove_dir_all(folder).unwrap();
        let mut nowhere = ProvenRoutes::default();
        nowhere.begin("a".into());
        assert!(nowhere.add("GET /a").is_ok());
    }
}
