//! What a site's root holds, looked at anew for each start: what to run, and as whom.
//! It never runs it.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{
    caching::code::{self, FolderId},
    config::{self, AppKind, DetectError, SiteConfig},
};
use unix_user::{self, AccountRequest, Refused, RunAs};

/// Why a site has no application that can be started.
#[derive(Debug, thiserror::Error)]
pub enum NoApplication {
    /// Its root, or the release that is meant, is not there.
    #[error(transparent)]
    Root(#[from] io::Error),
    #[error(transparent)]
    Unrecognised(#[from] DetectError),
    /// There are only files, as in a release that is not unpacked yet.
    #[error("{}: has no config.ru, no config/environment.rb and no file that requires Sinatra", .0.display())]
    Files(PathBuf),
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// An application that can be started.
pub struct StartableApp {
    /// The real path of the root (Capistrano's `current` is a symlink).
    pub root: PathBuf,
    /// Which folder is there.
    pub folder: Option<FolderId>,
    /// The root as it is named.
    named: PathBuf,
    pub kind: AppKind,
    /// Its rackup or Sinatra file.
    pub rackup: Option<PathBuf>,
    /// Whose hooks its processes run.
    pub puma_config: Option<PathBuf>,
}

impl StartableApp {
    pub fn at(site: &SiteConfig) -> Result<StartableApp, NoApplication> {
        StartableApp::in_release(site, &site.root)
    }

    /// What is found in another release of the site than its root leads to now.
    pub fn in_release(site: &SiteConfig, release: &Path) -> Result<StartableApp, NoApplication> {
        let root = release.canonicalize()?;
        let inside = |path: &PathBuf| match path.strip_prefix(&site.root) {
            Ok(below) => root.join(below),
            Err(_) => path.clone(),
        };
        let settings = SiteConfig { rackup: site.rackup.as_ref().map(inside), ..site.clone() };
        let detected = config::detect_site(&settings, &root)?;
        let kind = detected.kind;
        let rackup = settings.rackup.or_else(|| Some(detected.entry).filter(|path| path.is_file()));
        let puma_config = site.puma_config.as_ref().map(inside);
        let folder = code::folder_id(&root);
        Ok(StartableApp { root, folder, named: release.to_path_buf(), kind, rackup, puma_config })
    }

    /// Err: nothing in it starts an application.
    pub fn that_starts(self) -> Result<StartableApp, NoApplication> {
        match self.kind {
            AppKind::Files => Err(NoApplication::Files(self.root)),
            _ => Ok(self),
        }
    }

    /// Who its processes run as.
    pub fn run_as(&self, site: &SiteConfig) -> Result<RunAs, Refused> {
        let wanted =
            AccountRequest { user: site.user.as_deref(), group: site.group.as_deref(), provenance: site.provenance };
        let files = self.first_files(site);
        let by_name = unix_user::of_app(&wanted, &self.named, &files)?;
        // What the name leads to by now may be another directory.
        match unix_user::of_app(&wanted, &self.root, &files)? {
            same if same == by_name => {
                let ruby = Some(site.ruby.clone()).filter(|ruby| ruby.is_absolute() && site.user.is_none());
                if let (RunAs::Root(_), Some(ruby)) = (&same, ruby) {
                    unix_user::root_alone(&[ruby])?;
                }
                Ok(same)
            }
            _ => Err(Refused::Other(format!("{} has just been given to somebody else", self.named.display()))),
        }
    }

    /// What its processes run before anything else.
    fn first_files(&self, site: &SiteConfig) -> Vec<PathBuf> {
        // What an account puts into its own environment does no harm to others.
        let gemfile = self.gemfile(site).filter(|_| site.provenance.written_by.is_none());
        let given = [self.rackup.clone(), self.puma_config.clone(), gemfile];
        let usual = ["config.ru", "config", "config/environment.rb", "config/application.rb", "config/boot.rb"];
        given.into_iter().flatten().chain(usual.map(|file| self.root.join(file))).collect()
    }

    /// The app's own Gemfile; one named by the environment if it belongs to the app, as one of several in `gemfiles/`.
    pub fn gemfile(&self, site: &SiteConfig) -> Option<PathBuf> {
        let root: &Path = &self.root;
        let of_site = site.env.get("BUNDLE_GEMFILE").map(|path| root.join(path));
        let ambient = || std::env::var_os("BUNDLE_GEMFILE").map(PathBuf::from);
        let ambient = || ambient().filter(|path| path.canonicalize().is_ok_and(|path| path.starts_with(root)));
        of_site.or_else(ambient).or_else(|| Some(root.join("Gemfile"))).filter(|gemfile| gemfile.is_file())
    }
}
