//! The sites of a directory of applications: each folder is one, named by its folder.
//! It never watches the directory; whoever does calls it again.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    account_bounds,
    layer::Layer,
    options,
    paceline_toml::{self, Role},
    parts::rules,
    resolve,
    sources::Inherited,
    toml_file::toml_text,
    SiteConfig,
};
use unix_user::{self, Provenance};

#[derive(Debug, Default)]
pub struct Discovered {
    /// In the order of their names.
    pub sites: Vec<SiteConfig>,
    /// Sites whose own paceline.toml is wrong, as they would be without it, and what is wrong.
    pub broken: Vec<(SiteConfig, String)>,
}

impl Inherited {
    /// A folder's site: its own settings stand above all others, and what none of them says follows from its
    /// environment.
    fn site(&self, folder: &Path, name: &str, own: &Layer, defaults: &SiteConfig) -> SiteConfig {
        let layers = std::iter::once(own).chain(&self.layers).collect();
        let view = options::view(layers, self.cores);
        let mut site = resolve::site(&view, &root_in(folder));
        site.name = name.into();
        site.hosts = hosts(name);
        // Not all of a directory is started with the server, unless somebody wants that.
        site.on_demand = view.given("on_demand").is_none() || site.on_demand;
        for (variable, text) in &defaults.env {
            site.env.entry(variable.clone()).or_insert_with(|| text.clone());
        }
        site.provenance = Provenance { only: false, discovered: true, ..defaults.provenance };
        site
    }
}

/// `defaults`: a site of which nothing is said, with the variables that the server adds for its applications.
pub fn sites_in(dir: &Path, inherited: &Inherited, defaults: &SiteConfig) -> io::Result<Discovered> {
    let mut found = Discovered::default();
    for name in folders_in(dir)? {
        match site_in(dir, &name, inherited, defaults) {
            Ok(site) => found.sites.push(*site),
            Err(broken) => found.broken.push(*broken),
        }
    }
    Ok(found)
}

/// The names of the sites of a directory, in order.
pub fn folders_in(dir: &Path) -> io::Result<Vec<String>> {
    let mut names: Vec<String> =
        fs::read_dir(dir)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.retain(|name| !name.starts_with('.') && may_be_folder(&dir.join(name)));
    names.sort();
    Ok(names)
}

/// One of the sites. Err: its own paceline.toml is wrong; the site as it would be without it, and what is wrong.
pub fn site_in(
    dir: &Path,
    name: &str,
    inherited: &Inherited,
    defaults: &SiteConfig,
) -> Result<Box<SiteConfig>, Box<(SiteConfig, String)>> {
    let folder = dir.join(name);
    let base = inherited.site(&folder, name, &Layer::default(), defaults);
    match own_settings(&base) {
        Ok((own, written_by)) => {
            let mut site = inherited.site(&folder, name, &own, defaults);
            site.provenance.written_by = written_by.or(site.provenance.written_by);
            match rules::check(std::slice::from_ref(&site)) {
                problems if problems.is_empty() => Ok(Box::new(site)),
                problems => Err(Box::new((base, problems.join("\n")))),
            }
        }
        Err(problems) => Err(Box::new((base, problems.join("\n")))),
    }
}

/// A folder, or one that can't be seen at the moment, as on a file system that does not answer.
fn may_be_folder(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(found) => found.is_dir(),
        Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    }
}

/// Where an application lies in its site's folder: in `current`, where a deployment makes that lead to the newest of
/// its releases, also while the link is away or leads nowhere. The folder itself would publish all releases as files.
fn root_in(folder: &Path) -> PathBuf {
    let current = folder.join("current");
    if current.is_dir() || current.is_symlink() || folder.join("releases").is_dir() {
        current
    } else {
        folder.to_path_buf()
    }
}

/// `shop` answers shop, shop.localhost and shop.test; a name with a dot is a domain already.
fn hosts(name: &str) -> Vec<String> {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c.to_ascii_lowercase() } else { '-' };
    let host: String = name.chars().map(allowed).collect();
    let mut hosts = vec![host.clone(), format!("{host}.localhost")];
    if !host.contains('.') {
        hosts.push(format!("{host}.test"));
    }
    hosts
}

/// The folder's own settings, read with the rights of who may have written them, and that account. None: root alone.
fn own_settings(site: &SiteConfig) -> Result<(Layer, Option<u32>), Vec<String>> {
    let path = site.root.join("paceline.toml");
    if fs::symlink_metadata(&path).is_err() {
        return Ok(Default::default());
    }
    let shown = path.display().to_string();
    let author = unix_user::author(&path, site.user.as_deref()).map_err(|why| vec![format!("{shown}: {why}")])?;
    let text = toml_text(&path, &shown, &author.run_as()).map_err(|why| vec![why.to_string()])?;
    let read = paceline_toml::read(&text, &shown, &site.root, Role::Folder)?;
    let roots_own = options::roots_own().find(|key| read.layer.has(key));
    if let Some((owner, key)) = author.account().zip(roots_own) {
        // Root would open the files that it names.
        let owner = owner.shown();
        return Err(vec![format!(
            "{shown}: \"{key}\" can't be set here: the file belongs to {owner}, and this server runs as root"
        )]);
    }
    if let Some(owner) = author.account().filter(|_| rules::have_passwords(&read.layer)) {
        let owner = owner.shown();
        return Err(vec![format!(
            "{shown}: \"rule\" with basic_auth can't be set here: the file belongs to {owner}, and this server runs as root"
        )]);
    }
    if author.account().is_some() {
        let own = resolve::site(&options::view(vec![&read.layer], 1), &site.root);
        if let Some(problem) = account_bounds::problem(&text, &own) {
            return Err(vec![format!("{shown}: {problem}")]);
        }
    }
    Ok((read.layer, author.account().map(|account| account.uid)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::{
        load,
        option::{Opt, Preset, Scope},
        options::all,
        test_folder::{around, Folder},
        value::{Kind, Value},
        ConfigFile, Flags,
    };

    #[test]
    fn each_folder_is_a_site() {
        let folder = Folder::with(&[
            ("Shop/config.ru", ""),
            ("blog.example.org/current/config.ru", ""),
            ("blog.example.org/current/config/puma.rb", ""),
            (
                "own/paceline.toml",
                "threads = 9\nenvironment = \"production\"\non_demand = false\nenv.A = \"own\"\nrackup = \"x.ru\"",
            ),
            ("wrong/paceline.toml", "port = 1"),
            (".git/x", ""),
            ("file", ""),
        ]);
        std::os::unix::fs::symlink(folder.0.join("Shop"), folder.0.join("linked")).expect("symlink");
        let mut defaults = SiteConfig::with_defaults(Path::new("/elsewhere"), "development");
        defaults.env = [("A", "all"), ("B", "all")].map(|(key, text)| (key.to_string(), text.to_string())).into();
        let found = sites_in(&folder.0, &Inherited { layers: Vec::new(), cores: 8 }, &defaults).expect("readable");
        let names: Vec<_> = found.sites.iter().map(|site| site.name.as_str()).collect();
        assert_eq!(names, ["Shop", "blog.example.org", "linked", "own"]);
        let [shop, blog, linked, own] = &found.sites[..] else { panic!("four sites") };
        assert_eq!(shop.hosts, ["shop", "shop.localhost", "shop.test"]);
        assert!(shop.on_demand && shop.threads == 3 && shop.puma_config.is_none());
        assert_eq!(blog.hosts, ["blog.example.org", "blog.example.org.localhost"]);
        assert_eq!(blog.root, folder.0.join("blog.example.org/current"));
        assert_eq!(blog.puma_config, Some(blog.root.join("config/puma.rb")));
        assert_eq!(linked.root, folder.0.join("linked"));
        assert_eq!((own.threads, own.environment.as_str(), own.on_demand), (9, "production", false));
        assert_eq!(own.app_hard_timeout, Some(Duration::from_secs(60)));
        assert_eq!(own.rackup, Some(own.root.join("x.ru")));
        assert_eq!((own.env["A"].as_str(), own.env["B"].as_str()), ("own", "all"));
        assert_eq!(found.broken.len(), 1);
        assert!(found.broken[0].1.contains("wrong/paceline.toml:1:1: \"port\" cannot be set"), "{:?}", found.broken);
    }

    /// A value of the option that is none of its defaults.
    fn sample(option: &Opt) -> String {
        let default = match option.preset {
            Preset::Unset(_) => "",
            Preset::Fixed(text) | Preset::ByEnvironment { development: text, .. } => text,
            Preset::CoresUpTo(_) => "1",
        };
        match (option.key, option.kind) {
            ("ready_path" | "warm_up" | "log_skip", _) => "\"/health\"".into(),
            ("esi_hosts", _) => "[\"cart.test\"]".into(),
            ("egress_guard_allow", _) => "[\"10.0.0.0/8\"]".into(),
            ("egress_allow" | "egress_deny", _) => "[\"api.test\"]".into(),
            ("puma_config", _) => "\"config/other.rb\"".into(),
            // On where the server runs in development.
            ("live_reload", _) => "false".into(),
            (_, Kind::Bool) => (default != "true").to_string(),
            (_, Kind::Int { min, max } | Kind::Bytes { min, max, .. }) => (min + (max - min).min(4321)).to_string(),
            (_, Kind::Count { .. }) => "7".into(),
            (_, Kind::Workers { .. } | Kind::Threads { .. }) => "\"3:7\"".into(),
            (_, Kind::Duration { min, .. }) => format!("\"{}ms\"", min.as_millis() + 777),
            (_, Kind::Enum(words)) => {
                let other = words.iter().find(|word| **word != default).expect("two words");
                format!("\"{other}\"")
            }
            (_, Kind::Path { .. } | Kind::Text { .. } | Kind::List { .. }) => "\"sample\"".into(),
            (_, Kind::Map) => "{ A = \"1\" }".into(),
            (_, Kind::Table(table)) => table.example.into(),
        }
    }

    #[test]
    fn a_folder_s_own_settings_are_those_of_a_site_table() {
        let may_be_set = |option: &&Opt| option.scope == Scope::Site && option.key != "tls";
        let mut without_effect = Vec::new();
        for option in all().filter(may_be_set) {
            let setting = format!("{} = {}\n", option.key, sample(option));
            let folder = Folder::with(&[("apps/shop/paceline.toml", setting.as_str()), ("apps/plain/", "")]);
            let root = folder.0.join("apps/shop");
            folder.write("server/paceline.toml", &format!("[[site]]\nroot = {root:?}\n{setting}"));
            let server = folder.0.join("server");
            let table = around(&server, &[], |around| load(Flags::default(), around)).expect(&setting).sites.remove(0);
            let inherited = Inherited { layers: Vec::new(), cores: 8 };
            let defaults = SiteConfig::with_defaults(&folder.0, "development");
            let found = sites_in(&folder.0.join("apps"), &inherited, &defaults).expect("readable");
            let [plain, shop] = &found.sites[..] else { panic!("{setting}{:?}", found.broken) };
            // What differs between the two whatever the setting.
            let as_one = |site: &SiteConfig| {
                let provenance = Provenance::default();
                SiteConfig { name: "".into(), hosts: vec![], root: "".into(), provenance, ..site.clone() }
            };
            let table = SiteConfig { on_demand: option.key != "on_demand" || table.on_demand, ..as_one(&table) };
            assert_eq!(as_one(shop), table, "{setting}");
            if as_one(plain) == table {
                without_effect.push(option.key);
            }
        }
        // They count together with another setting, or are the same in a folder.
        let together = ["on_demand", "purge_on_restart", "crawlers_pages", "crawlers_verified", "crawlers_stale"];
        assert_eq!(without_effect, together);
    }

    #[test]
    fn a_folder_s_own_settings_win_and_the_rest_is_inherited() {
        let folder = Folder::with(&[
            ("paceline.toml", "sites = \"apps\"\ncompress = true\negress_guard = false\nqueue_max = 9\nenvironment = \"production\"\n"),
            ("apps/shop/paceline.toml", "compress = false\negress_guard = true\nyjit = \"on\"\n"),
        ]);
        let mut flags = Flags::default();
        flags.layer.set("threads", Value::Int(4));
        let config = around(&folder.0, &[], |around| load(flags, around)).expect("fine");
        let found = sites_in(&folder.0.join("apps"), &config.inherited, &config.site_defaults).expect("readable");
        let shop = &found.sites[0];
        assert!(shop.compress.is_none() && shop.parts.egress.as_ref().expect("on").guard);
        assert_eq!((shop.tuning.yjit.as_str(), shop.queue_max, shop.threads), ("on", 9, 4));
        assert_eq!(shop.environment, "production");
    }

    #[test]
    fn defaults_follow_the_environment_that_a_folder_chooses() {
        let folder = Folder::with(&[
            ("paceline.toml", "sites = \"apps\"\nqueue_max = 7\nyjit = \"off\""),
            ("apps/shop/paceline.toml", "environment = \"production\""),
        ]);
        let config = around(&folder.0, &[], |around| load(Flags::default(), around)).expect("fine");
        let found = sites_in(&folder.0.join("apps"), &config.inherited, &config.site_defaults).expect("readable");
        let shop = &found.sites[0];
        assert_eq!((shop.workers, shop.app_hard_timeout), (4, Some(Duration::from_secs(60))));
        assert!(shop.tuning.oob_gc && !shop.ready_paths.is_empty());
        assert_eq!((shop.queue_max, &*shop.tuning.yjit), (7, "off"), "what the server's file sets stays");
    }

    #[test]
    fn hooks_of_the_server_s_own_puma_rb_are_not_a_folder_s() {
        let folder = Folder::with(&[("server.rb", "threads 7"), ("apps/shop/config/puma.rb", ""), ("apps/blog/", "")]);
        let hooks = |config_file| {
            let mut flags = Flags { config_file, ..Flags::default() };
            flags.layer.set("sites", Value::Path("apps".into()));
            let config = around(&folder.0, &[], |around| load(flags, around)).expect("fine");
            let found = sites_in(&folder.0.join("apps"), &config.inherited, &config.site_defaults).expect("readable");
            found.sites.into_iter().map(|site| (site.threads, site.puma_config)).collect::<Vec<_>>()
        };
        let own = folder.0.join("apps/shop/config/puma.rb");
        assert_eq!(hooks(ConfigFile::Puma("server.rb".into())), [(7, None), (7, Some(own.clone()))]);
        assert_eq!(hooks(ConfigFile::None), [(3, None), (3, Some(own))]);
    }
}
