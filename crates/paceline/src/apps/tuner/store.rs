//! What self-tuning remembers of a site, in the state folder of the server's account: a file of mode 0600 with figures of
//! routes and settings. It never lies in the application's folder, and never follows a link.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{fingerprint::digest, rules::TuneState};
use crate::{
    config::SiteConfig,
    support::{private_file, state_folder},
};

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
    let root = digest(site.root.as_os_str().as_encoded_bytes());
    Some(state_folder::path()?.join(format!("tune-{}-{root}.json", state_folder::file_name(&site.name))))
}

/// What is remembered of the site; nothing where there is no file, or none of ours.
pub fn load(path: &Path, root: &Path) -> TuneState {
    let found = private_file::read(path, MAX).ok().and_then(|bytes| serde_json::from_slice::<StateFile>(&bytes).ok());
    let found = found.filter(|file| file.format == FORMAT && file.state.root == root).map(|file| file.state);
    let is_tuning = |state: &TuneState| state.kept.as_ref().is_none_or(|kept| kept.change.tuned.is_tuning());
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
    use crate::{
        apps::{environment::Environment, tuned::Tuned},
        config::{test_folder::Folder, TunedSettings},
        workers::dispatch::queue::RouteVisits,
    };
    use doctor::candidate::Kind;

    fn state(option: &str) -> TuneState {
        let environment = Environment { ruby_options: vec![option.into()], ..Environment::default() };
        of(Kind::Yjit, Tuned { environment, ..Tuned::default() })
    }

    fn of(kind: Kind, tuned: Tuned) -> TuneState {
        let change = Change { kind, short: "YJIT".into(), tuned, gains: Vec::new(), memory: None };
        let mut before = Hours::default();
        let visits = RouteVisits { route: "GET /a".into(), app: vec![7; 30], whole: vec![9; 30] };
        before.keep(9, figures(vec![visits]));
        let kept = KeptChange {
            change,
            fingerprint: Fingerprint::default(),
            since: 1.0,
            live: String::new(),
            before,
            memory_before: Some(9),
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

    #[test]
    fn settings_are_remembered_within_their_bounds() {
        let folder = Folder::with(&[]);
        let file = folder.0.join("tune-shop.json");
        let saved = |threads| {
            let settings = TunedSettings { threads: Some(threads), ..TunedSettings::default() };
            save(&file, &of(Kind::TooFewThreads, Tuned { settings, ..Tuned::default() })).unwrap();
            load(&file, Path::new("/srv/shop")).kept.map(|kept| kept.change.tuned.to_string())
        };
        assert_eq!((saved((1, 9)), saved((1, 9_000))), (Some("threads = 9".into()), None));
    }

    /// As Paceline wrote it when it tuned settings of Ruby alone.
    #[test]
    fn a_file_of_an_older_server() {
        let folder = Folder::with(&[(
            "tune-shop.json",
            r#"{"format":1,"state":{"root":"/srv/shop","kept":{"change":{"kind":"yjit","short":"YJIT","environment":
            {"set":{},"unset":[],"ruby_options":["--yjit"]},"gains":[{"route":"GET /a","gain_us":4.0,"low_us":3.0,"high_us":5.0,
            "of_us":9.0}]},"fingerprint":{"ruby":"ruby 3.1.2","lock":"","code":"c"},"since":1.0,"live":"it saves 4 ms","before":
            {"9":[{"route":"GET /a","answers":30,"median_us":7.0,"p95_us":7.0}]},"compared":2,"slower":1,"is_proven":false},
            "rejected":[],"nothing_for":null}}"#,
        )]);
        let kept = load(&folder.0.join("tune-shop.json"), Path::new("/srv/shop")).kept.expect("kept");
        assert_eq!(
            (kept.change.tuned.to_string().as_str(), kept.compared, kept.memory_before),
            ("RUBYOPT=--yjit", 2, None)
        );
    }
}
