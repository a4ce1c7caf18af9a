//! The routes that are turned off, and why: they stay so when the server is restarted. It decides nothing.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use serde_json::{json, Value};

use crate::support::private_file;

const FORMAT: u64 = 1;
const MAX_FILE: u64 = 1 << 20;
/// Routes, at most. What is turned off beyond them is off until the server is restarted.
const MAX_ROUTES: usize = 1000;

#[derive(Debug, Default)]
pub struct OffRoutes {
    /// None: it is remembered nowhere.
    file: Option<PathBuf>,
    routes: BTreeMap<String, String>,
}

impl OffRoutes {
    /// What stands in the file. One that can't be read is one without routes.
    pub fn load(file: Option<PathBuf>) -> OffRoutes {
        let routes = file.as_deref().and_then(read).unwrap_or_default();
        OffRoutes { file, routes }
    }

    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.routes.iter().map(|(route, why)| (route.as_str(), why.as_str()))
    }

    /// Why: it is off. None: it is not.
    pub fn set(&mut self, route: &str, why: Option<&str>) -> io::Result<()> {
        match why {
            Some(why) if self.routes.len() < MAX_ROUTES || self.routes.contains_key(route) => {
                self.routes.insert(route.to_owned(), why.to_owned());
            }
            Some(_) => return Err(io::Error::other("too many routes are turned off")),
            None => drop(self.routes.remove(route)),
        }
        let Some(file) = &self.file else { return Ok(()) };
        private_file::replace(file, json!({ "format": FORMAT, "off": self.routes }).to_string().as_bytes())
    }
}

fn read(file: &Path) -> Option<BTreeMap<String, String>> {
    let said: Value = serde_json::from_slice(&private_file::read(file, MAX_FILE).ok()?).ok()?;
    let routes = said["off"].as_object().filter(|_| said["format"] == FORMAT)?;
    let text = |(route, why): (&String, &Value)| Some((route.clone(), why.as_str()?.to_owned()));
    routes.iter().map(text).take(MAX_ROUTES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_remembered() {
        let folder = std::env::temp_dir().join(format!("paceline-off-{}", uuid::Uuid::new_v4().simple()));
        let file = folder.join("auto-cache-shop.json");
        let mut off = OffRoutes::load(Some(file.clone()));
        assert_eq!(off.all().count(), 0);
        off.set("GET /a", Some("differed")).unwrap();
        off.set("GET /b", Some("stopped")).unwrap();
        off.set("GET /a", None).unwrap();
        let again = OffRoutes::load(Some(file.clone()));
        assert_eq!(again.all().collect::<Vec<_>>(), [("GET /b", "stopped")]);
        std::fs::write(&file, "{\"format\":2,\"off\":{\"GET /a\":\"\"}}").unwrap();
        assert_eq!(OffRoutes::load(Some(file)).all().count(), 0);
        std::fs::remove_dir_all(folder).unwrap();
        assert!(OffRoutes::default().set("GET /a", Some("stopped")).is_ok(), "without a folder");
    }
}
