//! Reads every source and returns the settings, or all that is wrong with them.
//! It starts no process but the one Ruby that reads config/puma.rb.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::{
    automatic, control_web,
    environment::{self, FromEnvironment},
    layer::{Layer, View},
    listening, options,
    paceline_toml::{self, FromToml, Role},
    parts::{self, rules},
    proxied,
    puma::{FromPuma, PumaReader, RubyProcess},
    puma_file::{add_processes, from_puma, usual_puma},
    resolve,
    sources::{as_puma, Sources},
    surroundings::{plain, Surroundings},
    toml_file::toml_text,
    value::Value,
    AppKind, Bind, CacheDisk, Config, Listening, ProxyProtocol, SiteConfig,
};
use crate::{cluster, support::explanation::Explanation};
use unix_user::{self, Author, Provenance, Refused, RunAs};

/// What the command line said.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    pub layer: Layer,
    /// `--dir`: the directory to serve, instead of the current one.
    pub dir: Option<PathBuf>,
    pub config_file: ConfigFile,
    pub adopt_control_fd: Option<i32>,
    /// Nothing is served: only where the control socket of a running server is counts, for which config/puma.rb is read if
    /// nothing else says it.
    pub asks: bool,
    pub notices: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ConfigFile {
    /// paceline.toml, or else config/puma.rb, where they exist.
    #[default]
    Usual,
    Toml(PathBuf),
    Puma(PathBuf),
    None,
}

/// Everything that is wrong, one line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    pub problems: Vec<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.problems.join("\n"))
    }
}

impl std::error::Error for ConfigError {}

impl From<Vec<String>> for ConfigError {
    fn from(problems: Vec<String>) -> ConfigError {
        ConfigError { problems }
    }
}

pub fn load(flags: Flags, around: &Surroundings) -> Result<Config, ConfigError> {
    let dir = flags.dir.as_ref().map_or_else(|| around.cwd.clone(), |dir| plain(&around.cwd.join(dir)));
    if !dir.is_dir() {
        return Err(vec![format!("{}: no such directory", dir.display())].into());
    }
    let (is_dir_given, adopt_control_fd) = (flags.dir.is_some(), flags.adopt_control_fd);
    let mut read = read(flags, &dir, around)?;
    let root = read.puma.directory.take().filter(|_| !is_dir_given).unwrap_or(dir);
    settle(read, &root, adopt_control_fd, around)
}

/// What each source says.
struct Read {
    flags: Layer,
    environment: Layer,
    handed_over: Vec<Bind>,
    toml: FromToml,
    puma: FromPuma,
    /// config/puma.rb, as messages name it, and the process that has read it.
    puma_file: String,
    reader: Option<RubyProcess>,
    /// The account that may have written the files, if that is not the server's own.
    written_by: Option<u32>,
    notices: Vec<String>,
}

/// A settings file, and who may have written it.
struct SettingsFile {
    path: PathBuf,
    author: Author,
}

impl SettingsFile {
    /// The file's owner as messages name it, if root reads it for somebody else.
    fn owner(&self) -> Option<String> {
        Some(self.author.account()?.shown())
    }
}

/// Reads flags, environment and files. `dir`: the directory to serve.
fn read(flags: Flags, dir: &Path, around: &Surroundings) -> Result<Read, ConfigError> {
    let mut environment = environment::read(around);
    let mut flag_layer = flags.layer;
    options::anchor(&mut flag_layer, dir);
    options::anchor(&mut environment.layer, dir);
    let mut notices = flags.notices;
    notices.append(&mut environment.notices);
    let mut problems = environment.problems;
    let is_none = flags.config_file == ConfigFile::None;

    let said = options::view(vec![&flag_layer, &environment.layer], around.cores);
    let user = said.text("user");
    let settings_file = |path: Option<PathBuf>, problems: &mut Vec<String>| {
        let author = or_problem(author(path.as_deref(), dir, user.as_deref()), problems);
        path.zip(author).map(|(path, author)| SettingsFile { path, author })
    };
    let toml_file = settings_file(usual_toml(&flags.config_file, dir, around), &mut problems);
    let mut toml = toml_file.as_ref().map_or_else(Default::default, |file| {
        from_toml(&file.path, &around.cwd, &file.author.run_as()).unwrap_or_else(|mut wrong| {
            problems.append(&mut wrong);
            FromToml::default()
        })
    });
    problems.extend(toml_file.iter().flat_map(|file| refuse_roots_own(file, &toml)));
    let puma_path = match flags.config_file {
        ConfigFile::Puma(path) => Some(around.cwd.join(path)),
        ConfigFile::None => None,
        _ if flags.asks && (toml_file.is_some() || dir.join("tmp/paceline.sock").exists()) => None,
        _ => usual_puma(&[&flag_layer, &environment.layer], &toml, dir, around.cores),
    };
    let puma_file = settings_file(puma_path, &mut problems);
    let (mut puma, mut reader) = (FromPuma::default(), None);
    if let (Some(file), true) = (&puma_file, problems.is_empty()) {
        let layers = toml.sites.iter().map(|own| &own.layer).chain([&toml.layer]);
        let said = options::view([&flag_layer, &environment.layer].into_iter().chain(layers).collect(), around.cores);
        let read = from_puma(&file.path, &file.author, &said, user.as_deref(), dir, flags.adopt_control_fd, around);
        if let Some((read, process)) = or_problem(read.map(Some), &mut problems) {
            (puma, reader) = (read, Some(process));
        }
    } else if let Some(control) = flags.adopt_control_fd.and_then(|fd| around.ruby.adopted(fd)) {
        reader = Some(RubyProcess { control, child: None });
    }
    notices.extend(puma_file.iter().flat_map(|file| ignore_roots_own(file, &mut puma.layer)));
    if !problems.is_empty() {
        return Err(problems.into());
    }
    notices.append(&mut puma.notices);
    add_processes(&mut toml.layer, &puma.layer);
    let written_by =
        [&toml_file, &puma_file].into_iter().flatten().find_map(|file| file.author.account()).map(|own| own.uid);
    let shown = |file: &SettingsFile| file.path.strip_prefix(dir).unwrap_or(&file.path).display().to_string();
    let puma_shown = puma_file.as_ref().map(shown).unwrap_or_default();
    if let (Some(file), false) = (puma_file, flag_layer.has("puma_config")) {
        puma.layer.set("puma_config", Value::Path(file.path));
    }
    if is_none {
        puma.layer.set("puma_config", Value::Off);
    }
    let FromEnvironment { layer: environment, handed_over, .. } = environment;
    Ok(Read {
        flags: flag_layer,
        environment,
        handed_over,
        toml,
        puma,
        puma_file: puma_shown,
        reader,
        written_by,
        notices,
    })
}

/// The result, or nothing and one problem more.
fn or_problem<T: Default, E: fmt::Display>(result: Result<T, E>, problems: &mut Vec<String>) -> T {
    result.unwrap_or_else(|why| {
        problems.push(why.to_string());
        T::default()
    })
}

/// The paceline.toml to read.
fn usual_toml(config_file: &ConfigFile, dir: &Path, around: &Surroundings) -> Option<PathBuf> {
    match config_file {
        ConfigFile::Usual => Some(dir.join("paceline.toml")).filter(|path| path.is_file()),
        ConfigFile::Toml(path) => Some(around.cwd.join(path)),
        ConfigFile::Puma(_) | ConfigFile::None => None,
    }
}

/// Problems: settings that are root's own in a paceline.toml that belongs to somebody else.
fn refuse_roots_own(file: &SettingsFile, toml: &FromToml) -> Vec<String> {
    let Some(owner) = file.owner() else { return Vec::new() };
    let has = |key: &str| toml.layer.has(key) || toml.sites.iter().any(|site| site.layer.has(key));
    let path = file.path.display();
    let problem = |key: &str| {
        format!("{path}: \"{key}\" can't be set here: the file belongs to {owner}, and this server runs as root")
    };
    let has_passwords =
        rules::have_passwords(&toml.layer) || toml.sites.iter().any(|site| rules::have_passwords(&site.layer));
    let passwords = has_passwords.then(|| problem("rule\" with \"basic_auth"));
    options::roots_own().filter(|key| has(key)).map(problem).chain(passwords).collect()
}

/// Takes settings that are root's own out of what a config/puma.rb says that belongs to somebody else. Notices of it.
fn ignore_roots_own(file: &SettingsFile, puma: &mut Layer) -> Vec<String> {
    let Some(owner) = file.owner() else { return Vec::new() };
    let path = file.path.display();
    let mut notices = Vec::new();
    for key in options::roots_own().filter(|key| puma.has(key)).collect::<Vec<_>>() {
        puma.remove(key);
        notices.push(format!("{path}: {key} is ignored: the file belongs to {owner}, and this server runs as root"));
    }
    notices
}

/// Puts together what was read, or says what does not fit. `root`: of a site that names none.
fn settle(
    mut read: Read,
    root: &Path,
    adopt_control_fd: Option<i32>,
    around: &Surroundings,
) -> Result<Config, ConfigError> {
    let mut notices = std::mem::take(&mut read.notices);
    let handed_over = std::mem::take(&mut read.handed_over);
    let as_puma = as_puma(&read.puma.layer, &read.toml.layer, &read.toml.sites);
    let sources = Sources {
        flags: &read.flags,
        as_puma: &as_puma,
        environment: &read.environment,
        toml: &read.toml.layer,
        puma: &read.puma.layer,
        puma_file: &read.puma_file,
        cores: around.cores,
        in_container: around.in_container,
    };
    notices.extend(sources.overruled());
    let server = sources.server();
    let mut problems = Vec::new();
    let sites_dir = server.path("sites");
    let whole = Layer::default();
    let layers = read.toml.sites.iter().map(|site| &site.layer).chain([&whole]);
    notices.extend(parts::notices(layers.map(|own| sources.site(own))));
    let (sites, site_defaults) = sites(&read, &sources, root, adopt_control_fd.is_some(), &mut problems);
    if server.path("control").is_some_and(|path| path.to_string_lossy().contains(":/")) {
        problems.push("control: must be the path of a Unix socket, like tmp/paceline.sock, or \"off\"".into());
    }
    let has_certificates = !read.toml.tls.is_empty();
    let mut given = or_problem(sources.binds(root, has_certificates, &mut notices), &mut problems);
    if read.puma.proxy_protocol {
        let plain = given.iter_mut().filter(|one| one.proxy_protocol == ProxyProtocol::Off);
        plain.for_each(|one| one.proxy_protocol = ProxyProtocol::Optional);
    }
    let automatic = automatic::settings(&sources, &read.toml.sites, &sites, around.env).unwrap_or_else(|mut wrong| {
        problems.append(&mut wrong);
        None
    });
    let own = server.bool("https").then(|| listening::own_certificate(&mut given, &sites)).transpose();
    let own = or_problem(own, &mut problems);
    let (tables, is_automatic) = (&read.toml.tls, automatic.is_some());
    problems.append(&mut listening::share_certificates(&mut given, tables, is_automatic, own.is_some(), &mut notices));
    let own = own.filter(|own| listening::share_own(&mut given, own));
    let cache_disk = or_problem(cache_disk(&server, &sites, sites_dir.is_some()), &mut problems);
    let control_web = or_problem(control_web::settings(&server), &mut problems);
    let cluster: Option<cluster::Settings> = server.table("cluster");
    problems.extend(cluster.as_ref().and(parts::conflict_with_cluster(sites.iter().chain([&site_defaults]))));
    if !problems.is_empty() {
        return Err(problems.into());
    }
    let (binds, instead_of) = if handed_over.is_empty() {
        (given, Vec::new())
    } else {
        (handed_over.into_iter().map(Listening::from).collect(), given)
    };
    Ok(Config {
        binds,
        instead_of,
        tls: sources.tls(automatic, own),
        http2: sources.http2(),
        trusted_proxies: sources.trusted_proxies(),
        proxy_protocol_timeout: server.time("proxy_protocol_timeout"),
        pidfile: server.path("pidfile"),
        control: resolve::control(&server, &sites, sites_dir.as_deref(), root),
        control_web,
        incidents_dir: resolve::incidents_dir(&server, &sites, sites_dir.is_some()),
        tag: server.text("tag").or_else(|| Some(resolve::folder_name(root))),
        front_threads: server.count("front_threads"),
        cache_size: server.number("cache_size"),
        cache_disk,
        cluster,
        buffer_memory: server.count("buffer_memory"),
        shutdown_timeout: server.time("shutdown_timeout"),
        upgrade_timeout: server.time("upgrade_timeout"),
        shutdown_delay: server.time("shutdown_delay"),
        traces: resolve::traces(&server),
        log: sources.log(&sites),
        client: resolve::client(&server),
        sites,
        sites_dir,
        inherited: sources.inherited(),
        site_defaults,
        notices,
        adopt_control_fd,
        reader: PumaReader::new(read.reader.take()),
    })
}

/// The sites of the settings, and what sites of a folder start from.
fn sites(
    read: &Read,
    sources: &Sources<'_>,
    root: &Path,
    is_adopted: bool,
    problems: &mut Vec<String>,
) -> (Vec<SiteConfig>, SiteConfig) {
    let tables = &read.toml.sites;
    let mut site_defaults = resolve::site(&sources.site(&Layer::default()), root);
    let sites_dir = sources.server().path("sites");
    let mut sites: Vec<_> = tables.iter().map(|own| resolve::site(&sources.site(&own.layer), root)).collect();
    if read.flags.has("rackup") && (!sites.is_empty() || sites_dir.is_some()) {
        problems.push(
            "a rackup file on the command line works for one application only; \
             with several sites write rackup = ... in its [[site]]"
                .into(),
        );
    }
    if sites.is_empty() && sites_dir.is_none() {
        sites.push(site_defaults.clone());
    }
    problems.append(&mut proxied::settle(sources, tables, &mut sites, sites_dir.is_some()));
    // The process that started us has loaded the app as itself; what follows it runs as the same.
    if is_adopted {
        sites.iter_mut().for_each(adopt);
    }
    let only = sites.len() == 1 && sites_dir.is_none();
    for site in sites.iter_mut().chain([&mut site_defaults]) {
        site.provenance = Provenance { only, discovered: false, written_by: read.written_by };
    }
    problems.append(&mut resolve::check_sites(&mut sites, tables));
    problems.append(&mut parts::check(&sites));
    if sites_dir.is_none() {
        problems.append(&mut rules::check_answered(&sites));
    }
    if let Some(dir) = sites_dir.filter(|dir| !dir.is_dir()) {
        problems.push(format!("sites: {} is not a directory", dir.display()));
    }
    (sites, site_defaults)
}

/// Settles what the process that started us has decided already: that there is an application, whatever lies in its
/// folder, and as whom it runs.
fn adopt(site: &mut SiteConfig) {
    let detected = super::detect_site(site, &site.root).map_or(AppKind::Rack, |detected| detected.kind);
    site.kind = Some(if detected == AppKind::Files { AppKind::Rack } else { detected });
    if rustix::process::geteuid().is_root() {
        site.user = Some("root".into());
    }
}

/// Bytes and folder of what the page cache keeps on disk.
fn cache_disk(server: &View<'_>, sites: &[SiteConfig], has_sites_dir: bool) -> Result<Option<CacheDisk>, Explanation> {
    let Some(size) = server.number_or_off("cache_disk") else { return Ok(None) };
    let dir = match (server.path("cache_dir"), sites) {
        (Some(dir), _) => dir,
        (None, [only]) if !has_sites_dir => only.root.join(CACHE_DIR),
        _ => {
            let why = "cache_disk: with several sites it needs a cache_dir: set the folder for all their files";
            return Err(Explanation::new(why));
        }
    };
    Ok(Some(CacheDisk { size, dir }))
}

/// The folder of the page cache below a root.
const CACHE_DIR: &str = "tmp/cache/paceline";

/// Who may have written a settings file, or anything in the directory that it is evaluated in. None: there is no such
/// file.
fn author(file: Option<&Path>, dir: &Path, user: Option<&str>) -> Result<Option<Author>, Refused> {
    let Some(file) = file else { return Ok(None) };
    let of = |path: &Path| unix_user::author(path, user);
    match of(file)? {
        Author::Trusted => of(dir).map(Some),
        author => Ok(Some(author)),
    }
}

/// Messages name the file as somebody in `cwd` would.
fn from_toml(path: &Path, cwd: &Path, run_as: &RunAs) -> Result<FromToml, Vec<String>> {
    let shown = path.strip_prefix(cwd).unwrap_or(path).display().to_string();
    let text = toml_text(path, &shown, run_as).map_err(|why| vec![why.to_string()])?;
    let base = path.parent().unwrap_or(cwd);
    paceline_toml::read(&text, &shown, base, Role::Server)
}

impl super::SiteConfig {
    /// A site of which nothing is said but its root and environment.
    pub fn with_defaults(root: &Path, environment: &str) -> super::SiteConfig {
        let mut layer = Layer::default();
        layer.set("environment", Value::Text(environment.into()));
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        resolve::site(&options::view(vec![&layer], cores), root)
    }
}
