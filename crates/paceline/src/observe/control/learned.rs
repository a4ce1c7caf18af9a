//! What was learned of the sites' cookies, for who looks from outside: of the running server, or else of what it has
//! left. It never learns anything itself.

use std::{collections::BTreeMap, path::Path, time::Duration};

use cache::cookies::CookieKnowledge;

use super::client::{ask_patiently, Failed};
use crate::caching::{cookies_from_json, CookieFile, CookieFileError};

pub use crate::caching::warnings;

/// How long a server is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why it is not known what was learned.
#[derive(Debug, thiserror::Error)]
pub enum LearnedError {
    #[error("the running server is not to be asked by this account")]
    Forbidden,
    #[error(transparent)]
    File(#[from] CookieFileError),
}

/// By site. `socket`: of the server; `folder`: where it keeps what it has learned.
pub fn learned(
    socket: Option<&Path>,
    folder: Option<&Path>,
) -> Result<BTreeMap<String, CookieKnowledge>, LearnedError> {
    let answer = socket.map(|socket| ask_patiently(socket, "GET", "/cache/stats", None, PATIENCE));
    match answer {
        Some(Ok(stats)) => {
            let sites = stats["sites"].as_object().into_iter().flatten();
            Ok(sites.filter_map(|(name, site)| Some((name.clone(), cookies_from_json(&site["cookies"])?))).collect())
        }
        Some(Err(Failed::Forbidden)) => Err(LearnedError::Forbidden),
        _ => folder.map_or(Ok(BTreeMap::new()), |folder| Ok(CookieFile::new(folder).read()?)),
    }
}
