//! Which files of a site matter for live reload: what a change of one means for open pages, and whether the application has
//! to be restarted for it. It decides by names, and by what Rails' own settings say; it never looks into any other file.

use std::{fs, path::Path};

use crate::{
    config::{AppKind, SiteConfig},
    content::live_reload::Change,
};

/// Folders that hold no source, at the top of a site.
const TOP: [&str; 12] =
    ["tmp", "log", "logs", "storage", "coverage", "test", "spec", "features", "bin", "doc", "docs", "backups"];
/// Folders that hold no source anywhere: packages.
const ANYWHERE: [&str; 2] = ["node_modules", "bower_components"];
/// What visitors upload, and gems.
const BELOW: [&str; 5] = ["public/uploads", "public/system", "vendor/bundle", "vendor/cache", "vendor/ruby"];

const STYLES: [&str; 6] = ["css", "scss", "sass", "less", "styl", "pcss"];
const SCRIPTS: [&str; 10] = ["js", "mjs", "cjs", "ts", "mts", "jsx", "tsx", "coffee", "vue", "svelte"];
const PAGES: [&str; 39] = [
    "rb", "ru", "erb", "haml", "slim", "builder", "jbuilder", "rabl", "ruby", "arb", "liquid", "mustache", "hbs", "md",
    "markdown", "html", "htm", "yml", "yaml", "toml", "po", "sql", "svg", "png", "jpg", "jpeg", "gif", "webp", "avif",
    "ico", "bmp", "woff", "woff2", "ttf", "otf", "mp4", "webm", "mp3", "pdf",
];
/// Files of other endings by which an application is set up.
const SETUP: [&str; 3] = ["Gemfile.lock", "gems.locked", "config.ru"];
/// What settings are written in.
const SETTINGS: [&str; 4] = ["rb", "yml", "yaml", "json"];

/// Whether a folder below the root is watched, or a file in it is of interest.
pub fn is_of_interest(path: &Path, is_folder: bool) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    if !is_folder {
        return change(path).is_some();
    }
    let is_left_out_at_top = path.components().count() == 1 && TOP.contains(&name);
    let is_left_out = ANYWHERE.contains(&name) || BELOW.iter().any(|below| path == Path::new(below));
    !name.starts_with('.') && !is_left_out && !is_left_out_at_top
}

/// What the change of a file means for a page that is open. None: nothing.
pub fn change(path: &Path) -> Option<Change> {
    let name = path.file_name()?.to_str()?;
    if is_setup(path, name) {
        return Some(Change::Page);
    }
    // Editors' own files, and those of tools.
    if name.starts_with(['.', '#']) || name.ends_with('~') || name.ends_with(".config.js") {
        return None;
    }
    let is_asset = path.iter().any(|part| part == "assets" || part == "javascript");
    let stem = name.strip_suffix(".erb").filter(|_| is_asset).unwrap_or(name);
    let ending = stem.rsplit_once('.')?.1;
    let is_text = ending == "json" && ["config", "app"].iter().any(|top| path.starts_with(top));
    match ending {
        _ if STYLES.contains(&ending) => Some(Change::Styles),
        _ if SCRIPTS.contains(&ending) => Some(Change::Scripts),
        _ if PAGES.contains(&ending) || is_text => Some(Change::Page),
        _ => None,
    }
}

fn is_setup(path: &Path, name: &str) -> bool {
    let is_top = path.components().count() == 1;
    is_top && (SETUP.contains(&name) || name == ".env" || name.starts_with(".env."))
}

/// How an application takes up changes of its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reloading {
    kind: AppKind,
    /// Rails loads the code of `app/` again where it has changed.
    app: bool,
    /// And that of `lib/`.
    lib: bool,
    /// A bundler writes scripts into app/assets/builds; what it writes is what changes for a page.
    bundles: bool,
}

impl Reloading {
    /// As the files of the site say now.
    pub fn of(site: &SiteConfig, kind: AppKind) -> Reloading {
        let lines = |file: &str| fs::read_to_string(site.root.join(file)).unwrap_or_default();
        let says = |text: &str, is: &dyn Fn(&str) -> bool| {
            text.lines().map(str::trim).filter(|line| !line.starts_with('#')).any(is)
        };
        let is_rails = kind == AppKind::Rails;
        let development = if is_rails { lines("config/environments/development.rb") } else { String::new() };
        let is_fixed = says(&development, &|line| {
            let is = |setting: &str, value: &str| line.contains(setting) && line.ends_with(value);
            is("cache_classes", "true") || is("enable_reloading", "false")
        });
        let application = if is_rails { lines("config/application.rb") } else { String::new() };
        let loads_lib = says(&application, &|line| {
            let adds_path = line.contains("autoload_paths") || line.contains("eager_load_paths");
            line.contains("autoload_lib") || adds_path && line.contains("lib")
        });
        let app = is_rails && site.environment == "development" && !is_fixed;
        let builds = fs::read_dir(site.root.join("app/assets/builds")).into_iter().flatten().flatten();
        let mut bundled = builds.filter(|built| built.path().extension().is_some_and(|ending| ending == "js"));
        Reloading { kind, app, lib: app && loads_lib, bundles: bundled.next().is_some() }
    }

    /// Whether a change of the file is one for pages only after a bundler has run.
    pub fn is_bundled(&self, path: &Path) -> bool {
        self.bundles && path.starts_with("app/javascript")
    }

    /// Whether the application has to be started again: for a file that has changed, or for a folder that was moved
    /// away, which may have had code in it.
    pub fn restarts_for(&self, path: &Path) -> bool {
        match change(path) {
            Some(_) => self.needs_restart(path),
            None => self.needs_restart(&path.join("any.rb")),
        }
    }

    /// Whether the application has to be started again to take it up.
    fn needs_restart(&self, path: &Path) -> bool {
        let (Some(name), ending) = (path.file_name().and_then(|name| name.to_str()), path.extension()) else {
            return false;
        };
        let ending = ending.and_then(|ending| ending.to_str()).unwrap_or_default();
        if self.kind == AppKind::Files {
            return false;
        }
        if is_setup(path, name) {
            return true;
        }
        let is_config = path.iter().any(|part| part == "config") && SETTINGS.contains(&ending);
        let is_code = ending == "rb" || ending == "ru";
        if self.kind != AppKind::Rails {
            return is_code || is_config;
        }
        let is_in = |folder: &str| path.iter().rev().skip(1).any(|part| part == folder);
        if path.starts_with("public") || path.starts_with("db") {
            return false;
        }
        if is_config {
            let inside = path.iter().skip_while(|part| *part != "config").nth(1);
            let reloads = ["routes.rb", "routes", "locales", "importmap.rb"];
            return !(self.app && reloads.iter().any(|own| inside.is_some_and(|part| part == *own)));
        }
        // Engines and packs have an `app` of their own.
        if is_in("app") {
            // Without reloading, Rails keeps templates, too.
            return !self.app && change(path) == Some(Change::Page);
        }
        is_code && !(self.lib && path.starts_with("lib"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_watched() {
        for folder in
            ["app", "app/views/tmp", "config", "lib", "public", "engines/shop/app", "views", "app/assets/builds"]
        {
            assert!(is_of_interest(Path::new(folder), true), "{folder}");
        }
        for folder in
            ["tmp", "log", "storage", ".git", "app/.cache", "node_modules", "app/x/node_modules", "vendor/bundle"]
        {
            assert!(!is_of_interest(Path::new(folder), true), "{folder}");
        }
    }

    #[test]
    fn what_a_change_means() {
        let (styles, page, scripts) = (Some(Change::Styles), Some(Change::Page), Some(Change::Scripts));
        for (file, expected) in [
            ("app/assets/stylesheets/a.css", styles),
            ("app/assets/stylesheets/a.scss.erb", styles),
            ("public/site.css", styles),
            ("app/javascript/controllers/a_controller.js", scripts),
            ("app/assets/javascripts/a.js.erb", scripts),
            ("app/views/a.js.erb", page),
            ("app/views/a.html.erb", page),
            ("app/models/a.rb", page),
            ("config/locales/de.yml", page),
            ("config/locales/de.json", page),
            ("app/assets/images/a.png", page),
            ("Gemfile.lock", page),
            (".env", page),
            (".env.development", page),
            ("db/schema.rb", page),
            ("app/.env", None),
            ("db/development.sqlite3", None),
            ("db/development.sqlite3-journal", None),
            ("app/views/.a.html.erb.swp", None),
            ("app/views/a.html.erb~", None),
            ("app/views/#a.html.erb#", None),
            ("app/views/4913", None),
            ("tailwind.config.js", None),
            ("data.json", None),
            ("store.pstore", None),
        ] {
            assert_eq!(change(Path::new(file)), expected, "{file}");
        }
    }

    fn restarts(reloading: Reloading, files: &[(&str, bool)]) {
        for (file, expected) in files {
            assert_eq!(reloading.needs_restart(Path::new(file)), *expected, "{file} of {reloading:?}");
        }
    }

    #[test]
    fn what_needs_a_restart() {
        let rails = Reloading { kind: AppKind::Rails, app: true, lib: false, bundles: false };
        restarts(
            rails,
            &[
                ("app/models/a.rb", false),
                ("app/views/a.erb", false),
                ("config/routes.rb", false),
                ("config/routes/admin.rb", false),
                ("config/locales/de.yml", false),
                ("config/initializers/a.rb", true),
                ("config/database.yml", true),
                ("lib/a.rb", true),
                ("lib/tasks/a.rake", false),
                ("Gemfile.lock", true),
                ("config.ru", true),
                (".env", true),
                ("public/a.html", false),
                ("db/schema.rb", false),
                ("engines/shop/app/models/a.rb", false),
                ("engines/shop/lib/shop.rb", true),
                ("engines/shop/config/routes.rb", false),
                ("plugins/a/init.rb", true),
            ],
        );
        for (folder, expected) in
            [("lib/a", true), ("app/views/a", false), ("public/a", false), ("config/routes", false)]
        {
            assert_eq!(rails.restarts_for(Path::new(folder)), expected, "{folder}");
        }
        restarts(Reloading { lib: true, ..rails }, &[("lib/a.rb", false), ("vendor/a.rb", true)]);
        let fixed = Reloading { app: false, ..rails };
        restarts(fixed, &[("app/models/a.rb", true), ("app/views/a.erb", true), ("app/assets/a.css", false)]);
        let rack = Reloading { kind: AppKind::Rack, ..fixed };
        restarts(rack, &[("app.rb", true), ("config.ru", true), ("views/a.erb", false), ("config/a.yml", true)]);
        restarts(Reloading { kind: AppKind::Files, ..fixed }, &[("config.ru", false), ("a.rb", false)]);
    }

    #[test]
    fn the_settings_of_rails_decide() {
        let root = std::env::temp_dir().join(format!("paceline-reloading-{}", std::process::id()));
        fs::create_dir_all(root.join("config/environments")).unwrap();
        fs::create_dir_all(root.join("app/assets/builds")).unwrap();
        let (development, application) =
            (root.join("config/environments/development.rb"), root.join("config/application.rb"));
        fs::write(&development, "  # config.cache_classes = true\n  config.enable_reloading = true\n").unwrap();
        fs::write(&application, "config.load_defaults 7.1\n# config.autoload_lib\n").unwrap();
        let of = |environment: &str| Reloading::of(&SiteConfig::with_defaults(&root, environment), AppKind::Rails);
        let now = of("development");
        assert_eq!((now.app, now.lib, now.bundles), (true, false, false));
        assert!(!of("staging").app);
        fs::write(&application, "config.autoload_lib(ignore: %w[assets tasks])\n").unwrap();
        fs::write(root.join("app/assets/builds/application.js"), "").unwrap();
        let now = of("development");
        assert!(
            now.lib
                && now.is_bundled(Path::new("app/javascript/a.js"))
                && !now.is_bundled(Path::new("app/assets/a.js"))
        );
        fs::write(&development, "  config.cache_classes = true\n").unwrap();
        assert!(!of("development").app);
        fs::remove_dir_all(root).unwrap();
    }
}
