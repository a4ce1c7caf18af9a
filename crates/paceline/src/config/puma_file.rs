//! The config/puma.rb of an application beside the other sources: which file it is, as whom it is read, and what of it is
//! added to theirs. It never says what a word of the file means (`puma`).

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{
    layer::{Layer, View},
    options,
    paceline_toml::FromToml,
    parts::processes::ProcessConfig,
    puma::{self, Asking, FromPuma, PumaError, RubyProcess},
    resolve,
    surroundings::{plain, Surroundings},
    value::Value,
};
use unix_user::Author;

/// The config/puma.rb of the only application, if there is one alone. `said`: by flags and environment.
pub fn usual_puma(said: &[&Layer], toml: &FromToml, dir: &Path, cores: usize) -> Option<PathBuf> {
    let own = match &toml.sites[..] {
        [] => None,
        [only] => Some(&only.layer),
        _ => return None,
    };
    let layers = said.iter().copied().chain(own).chain([&toml.layer]).collect();
    let view = options::view(layers, cores);
    let is_here = view.path("root").is_none_or(|root| plain(&root) == *dir);
    if view.given("sites").is_some() || view.given("upstream").is_some() || !is_here {
        return None;
    }
    resolve::puma_config(view.given("puma_config"), dir, view.environment())
}

/// What a config/puma.rb says, evaluated with its author's rights, and the process that has read it. `said`: by all that
/// is stronger.
pub fn from_puma(
    path: &Path,
    author: &Author,
    said: &View<'_>,
    user: Option<&str>,
    dir: &Path,
    adopt: Option<i32>,
    around: &Surroundings,
) -> Result<(FromPuma, RubyProcess), PumaError> {
    let mut site = resolve::site(said, dir);
    site.root = dir.to_path_buf();
    let environment = said.given("environment").map(|_| said.environment());
    let shown = |path: &Path| path.strip_prefix(dir).unwrap_or(path).display().to_string();
    let mut process = match adopt.and_then(|fd| around.ruby.adopted(fd)) {
        Some(control) => RubyProcess { control, child: None },
        None => {
            let run_as = author.evaluates_as(user)?;
            around.ruby.start(&site, run_as, environment.is_some()).map_err(|error| {
                let (ruby, file) = (site.ruby.display().to_string(), shown(path));
                match error.kind() {
                    io::ErrorKind::NotFound => PumaError::NoRuby { ruby, file },
                    _ => PumaError::NotRun { ruby, file, error },
                }
            })?
        }
    };
    // By a flag: what the file says is stronger than a variable.
    let flags = options::view(said.layers.iter().take(1).copied().collect(), said.cores);
    let workers = flags.given("workers").map(|_| flags.number("workers").to_string());
    let asking = Asking { path, site: &site, environment, workers };
    Ok((puma::read(&mut process, &asking)?, process))
}

/// A job queue that config/puma.rb has run inside Puma runs beside the other processes, unless one of those is it.
pub fn add_processes(toml: &mut Layer, puma: &Layer) {
    let (Some(given), Some(more)) = (toml.table::<Vec<ProcessConfig>>("process"), puma.table::<Vec<_>>("process"))
    else {
        return;
    };
    let is_queue = |word: &String| word.ends_with("bin/jobs") || word.contains("solid_queue");
    if given.iter().any(|process| process.command.iter().any(is_queue)) {
        return;
    }
    toml.set("process", Value::table([&given[..], more].concat()));
}
