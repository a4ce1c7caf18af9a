//! The last result of `paceline doctor`, kept for `paceline doctor apply` and the dashboard: a file of mode 0600 in the
//! application's tmp/paceline, or else in the user's state folder. It has no visitor's cookie in it, and of a page only
//! the places that a change made different.
//! It never follows a link, and acts as the application's account in the application's folder.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use doctor::report::Report;
use serde::{Deserialize, Serialize};
use unix_user::{acting, RunAs};

use crate::support::private_file;

/// Bytes of a result that is read. A usual one has some 100 KB.
const MAX_RESULT: u64 = 4 << 20;
const FILE: &str = "doctor.json";
/// Letters of a folder in the name of a file.
const MAX_NAME: usize = 200;
/// Increased when an older Paceline can't read the result.
const FORMAT: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DoctorResult {
    format: u32,
    pub site: String,
    /// The application's folder.
    pub root: PathBuf,
    /// Its version; empty: not a Rails application.
    pub rails: String,
    /// Unix seconds.
    pub at: f64,
    pub report: Report,
}

/// Why there is no result to read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error("there is no result yet: run paceline doctor first")]
    Missing,
    #[error("{}: {why}", file.display())]
    Broken { file: PathBuf, why: String },
    /// The application itself was not found.
    #[error("{0}")]
    NoApplication(String),
}

impl DoctorResult {
    pub fn new(site: &str, root: &Path, rails: String, report: Report, at: f64) -> DoctorResult {
        DoctorResult { format: FORMAT, site: site.to_owned(), root: root.to_owned(), rails, at, report }
    }

    /// Returns where it is.
    pub fn save(&self, run_as: &RunAs) -> io::Result<PathBuf> {
        let bytes = serde_json::to_vec(self)?;
        let mut failure = io::Error::from(ErrorKind::NotFound);
        for place in places(&self.root, run_as) {
            match place.write(&bytes) {
                Ok(()) => return Ok(place.file),
                Err(error) => failure = io::Error::new(error.kind(), format!("{}: {error}", place.file.display())),
            }
        }
        Err(failure)
    }

    /// The newest result of the application in `root`.
    pub fn load(root: &Path, run_as: &RunAs) -> Result<DoctorResult, LoadError> {
        newest(&places(root, run_as), root)
    }
}

fn newest(places: &[Place], root: &Path) -> Result<DoctorResult, LoadError> {
    let (mut found, mut failure) = (None::<DoctorResult>, None);
    for place in places {
        match place.load() {
            // In the user's folder one of another application may have the same name.
            Ok(result) if place.is_shared && result.root != root => {}
            Ok(result) if found.as_ref().is_none_or(|before| before.at < result.at) => found = Some(result),
            Ok(_) | Err(LoadError::Missing) => {}
            Err(error) => drop(failure.get_or_insert(error)),
        }
    }
    found.ok_or(failure.unwrap_or(LoadError::Missing))
}

/// A place for the result, and who writes there.
struct Place {
    file: PathBuf,
    run_as: RunAs,
    /// With other applications.
    is_shared: bool,
}

fn places(root: &Path, run_as: &RunAs) -> Vec<Place> {
    let tmp = root.join("tmp");
    let of_app = tmp.is_dir().then(|| tmp.join("paceline"));
    let of_app = of_app.map(|folder| Place { file: folder.join(FILE), run_as: run_as.clone(), is_shared: false });
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state"));
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute()).or_else(home);
    let of_user = state.map(|state| {
        let file = state.join("paceline").join(name_of_user(root));
        Place { file, run_as: RunAs::own(), is_shared: true }
    });
    of_app.into_iter().chain(of_user).collect()
}

/// By the application's whole path: several folders may have one name.
fn name_of_user(root: &Path) -> String {
    let safe = |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '_' };
    let folder: Vec<char> = root.to_string_lossy().chars().map(safe).collect();
    format!("doctor-{}.json", folder[folder.len().saturating_sub(MAX_NAME)..].iter().collect::<String>())
}

impl Place {
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        acting(&self.run_as, || private_file::replace(&self.file, bytes))
    }

    fn load(&self) -> Result<DoctorResult, LoadError> {
        let broken = |why: &str| LoadError::Broken { file: self.file.clone(), why: why.into() };
        let bytes = self.read().map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => LoadError::Missing,
            _ => broken(&error.to_string()),
        })?;
        if bytes.len() as u64 > MAX_RESULT {
            return Err(broken("is too large for a result of paceline doctor"));
        }
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        match (serde_json::from_slice::<Head>(&bytes), serde_json::from_slice::<DoctorResult>(&bytes)) {
            (Ok(Head { format: FORMAT }), Ok(result)) => Ok(result),
            (Ok(Head { format }), _) if format != FORMAT => Err(broken("is of another version of Paceline")),
            _ => Err(broken("is no result of paceline doctor")),
        }
    }

    /// One byte more than a result may have shows that there is more.
    fn read(&self) -> io::Result<Vec<u8>> {
        acting(&self.run_as, || private_file::read(&self.file, MAX_RESULT + 1))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::test_folder::Folder;

    const APP: &str = "/srv/shop";

    fn place(folder: &Folder, file: &str, is_shared: bool) -> Place {
        Place { file: folder.0.join(file), run_as: RunAs::own(), is_shared }
    }

    fn result(root: &str, at: f64) -> DoctorResult {
        DoctorResult::new("shop", Path::new(root), "6.1.7".into(), Report::default(), at)
    }

    fn write(place: &Place, result: &DoctorResult) {
        place.write(&serde_json::to_vec(result).unwrap()).unwrap();
    }

    #[test]
    fn the_newest_result_of_the_application_is_loaded() {
        let folder = Folder::with(&[]);
        let (own, shared) = (place(&folder, "app.json", false), place(&folder, "user.json", true));
        let load = || newest(&[place(&folder, "app.json", false), place(&folder, "user.json", true)], Path::new(APP));
        assert_eq!(load(), Err(LoadError::Missing));
        write(&shared, &result("/srv/another", 3.0));
        assert_eq!(load(), Err(LoadError::Missing), "an application of the same name");
        write(&own, &result("/srv/releases/1", 1.0));
        assert_eq!(load().unwrap().at, 1.0, "of a release that was there before");
        write(&shared, &result(APP, 2.0));
        assert_eq!(load().unwrap(), result(APP, 2.0));
    }

    #[test]
    fn folders_of_one_name_have_files_of_their_own() {
        let names = ["/srv/a/shop", "/srv/b/shop"].map(|root| name_of_user(Path::new(root)));
        assert_eq!(names, ["doctor-_srv_a_shop.json", "doctor-_srv_b_shop.json"]);
        assert!(name_of_user(Path::new(&"/deep".repeat(100))).len() < 255);
    }

    #[test]
    fn what_is_no_result_is_said_so() {
        let folder = Folder::with(&[("text.json", "hello"), ("list.json", "[]"), ("a.json/b", "")]);
        let other = serde_json::to_string(&DoctorResult { format: 2, ..result(APP, 1.0) }).unwrap();
        fs::write(folder.0.join("new.json"), other).unwrap();
        fs::write(folder.0.join("newer.json"), "{\"format\":3,\"report\":[]}").unwrap();
        let half = serde_json::to_string(&result(APP, 1.0)).unwrap();
        fs::write(folder.0.join("half.json"), &half[..half.len() / 2]).unwrap();
        fs::write(folder.0.join("large.json"), vec![b' '; MAX_RESULT as usize + 1]).unwrap();
        std::os::unix::fs::symlink(folder.0.join("new.json"), folder.0.join("link.json")).unwrap();
        let no_result = "is no result of paceline doctor";
        for (file, said) in [
            ("text.json", no_result),
            ("list.json", no_result),
            ("half.json", no_result),
            ("new.json", "is of another version of Paceline"),
            ("newer.json", "is of another version of Paceline"),
            ("large.json", "is too large for a result of paceline doctor"),
            ("a.json", "is no regular file"),
            ("link.json", "os error"),
        ] {
            match newest(&[place(&folder, file, false)], Path::new(APP)) {
                Err(LoadError::Broken { file: named, why }) => {
                    assert!(named.ends_with(file) && why.contains(said), "{file}: {why}");
                }
                other => panic!("{file}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_broken_file_hides_no_result() {
        let folder = Folder::with(&[("text.json", "hello")]);
        let shared = place(&folder, "user.json", true);
        write(&shared, &result(APP, 1.0));
        assert_eq!(newest(&[place(&folder, "text.json", false), shared], Path::new(APP)).unwrap().at, 1.0);
    }
}
