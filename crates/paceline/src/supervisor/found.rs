//! What a site's root holds, looked at anew for each start: what to run, and as whom.
//! It never runs it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    account::{self, Account, Refused},
    config::{self, AppKind, SiteConfig},
};

/// An application that can be started.
pub struct Found {
    /// The real path of the root (Capistrano's `current` is a symlink).
    pub root: PathBuf,
    pub kind: AppKind,
    /// Its rackup or Sinatra file.
    pub rackup: Option<PathBuf>,
    /// Whose hooks its processes run.
    pub puma_config: Option<PathBuf>,
}

impl Found {
    pub fn at(site: &SiteConfig) -> Result<Found, String> {
        Found::in_release(site, &site.root)
    }

    /// The same of another release of the site than its root leads to now.
    pub fn in_release(site: &SiteConfig, release: &Path) -> Result<Found, String> {
        let root = release.canonicalize().map_err(|error| error.to_string())?;
        let inside = |path: &PathBuf| match path.strip_prefix(&site.root) {
            Ok(below) if release != site.root => root.join(below),
            _ => path.clone(),
        };
        let settings = SiteConfig { rackup: site.rackup.as_ref().map(inside), ..site.clone() };
        let detected = config::detect_site(&settings, &root).map_err(|error| error.to_string())?;
        let kind = detected.kind;
        let rackup = settings.rackup.or_else(|| Some(detected.entry).filter(|path| path.is_file()));
        let puma_config = site.puma_config.as_ref().map(inside);
        Ok(Found { root, kind, rackup, puma_config })
    }

    /// Err: nothing in it starts an application, as in a release that is not unpacked yet.
    pub fn that_starts(self) -> Result<Found, String> {
        match self.kind {
            AppKind::Files => Err(format!(
                "{}: has no config.ru, no config/environment.rb and no file that requires Sinatra",
                self.root.display()
            )),
            _ => Ok(self),
        }
    }

    /// Who its processes run as; None: as we do.
    pub fn account(&self, site: &SiteConfig) -> Result<Option<Arc<Account>>, Refused> {
        account::of_app(site.user.as_deref(), site.group.as_deref(), &self.main_file())
    }

    /// The file whose owner it is run as.
    fn main_file(&self) -> PathBuf {
        let environment = (self.kind == AppKind::Rails).then(|| self.root.join("config/environment.rb"));
        let candidates = [environment, self.rackup.clone(), Some(self.root.join("config.ru"))];
        candidates.into_iter().flatten().find(|path| path.is_file()).unwrap_or_else(|| self.root.clone())
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
