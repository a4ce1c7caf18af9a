//! What self-tuning remembers of a site, in the state folder of the server's account: a file of mode 0600 with figures of
//! routes and settings of Ruby. It never lies in the application's folder, and never follows a link.

use std::{
    env, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{fingerprint::digest, rules::TuneState};
use crate::{config::SiteConfig, support::private_file};

/// Bytes of a file that is read.
const MAX: u64 = 1 << 20;
/// Increased when an older Paceline can't read the file.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct StateFile {
    format: u32,
    state: TuneState,
}

/// Where the file is: in the folder that systemd keeps for the service, or that of the account. None: there is neither.
pub fn path(site: &SiteConfig) -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let service = || {
        let folders = env::var("STATE_DIRECTORY").ok()?;
        folders.split(':').next().map(PathBuf::from).filter(|folder| folder.is_absolute())
    };
    let account =
        || Some(absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?.join("paceline"));
    let safe = |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '_' };
    let name: String = site.name.chars().map(safe).collect();
    let root = digest(site.root.as_os_str().as_encoded_bytes());
    Some(service().or_else(account)?.join(format!("tune-{name}-{root}.json")))
}

/// What is remembered of the site; nothing where there is no file, or none of ours.
pub fn load(path: &Path, root: &Path) -> TuneState {
    let found = private_file::read(path, MAX).ok().and_then(|bytes| serde_json::from_slice::<StateFile>(&bytes).ok());
    let found = found.filter(|file| file.format == FORMAT && file.state.root == root).map(|file| file.state);
    let is_tuning = |state: &TuneState| state.kept.as_ref().is_none_or(|kept| kept.change.environment.is_tuning());
    found.filter(is_tuning).unwrap_or_else(|| TuneState::new(root))
}

pub fn save(path: &Path, state: &TuneState) -> io::Result<()> {
    let bytes = serde_json::to_vec(&StateFile { format: FORMAT, state: state.clone() })?;
    private_file::replace(path, &bytes)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            hours::{figures, Hours},
            rules::{Change, Fingerprint, KeptChange},
        },
        *,
    };
    use crate::{apps::environment::Environment, config::test_folder::Folder};
    use doctor::candidate::Kind;

    fn state(option: &str) -> TuneState {
        let environment = Environment { ruby_options: vec![option.into()], ..Environment::default() };
        let change = Change { kind: Kind::Yjit, short: "YJIT".into(), environment, gains: Vec::new() };
        let mut before = Hours::default();
        before.keep(9, figures(vec![("GET /a".into(), vec![7; 30])]));
        let kept = KeptChange {
            change,
            fingerprint: Fingerprint::default(),
            since: 1.0,
            live: String::new(),
            before,
            compared: 0,
            slower: 0,
            is_proven: false,
        };
        TuneState { kept: Some(kept), ..TuneState::new(Path::new("/srv/shop")) }
    }

    #[test]
    fn what_is_remembered_is_for_the_server_alone() {
        use std::{fs, os::unix::fs::PermissionsExt};
        let folder = Folder::with(&[]);
        let file = folder.0.join("state/tune-shop.json");
        let load = |root: &str| load(&file, Path::new(root));
        assert_eq!(load("/srv/shop"), TuneState::new(Path::new("/srv/shop")));
        save(&file, &state("--yjit")).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(load("/srv/shop"), state("--yjit"));
        assert_eq!(load("/srv/other").kept, None, "another application of the same name");
        save(&file, &state("-r/tmp/x")).unwrap();
        assert_eq!(load("/srv/shop").kept, None, "a file may not name code");
        fs::write(&file, "{\"format\":2}").unwrap();
        assert_eq!(load("/srv/shop").kept, None);
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }
}
