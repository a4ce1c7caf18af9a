//! `paceline check`: tells what would be served, and whether each application starts, without serving.
//! It never starts an application itself: that is the hook's work.

use std::{io::Write, process::ExitCode};

use crate::{
    config::{self, database_pool, AppKind, Bind, Config, DetectError, Listening, SiteConfig},
    edge::tls,
    request::rules,
    server,
    support::explanation::Explanation,
};

/// Starts a site's application once and stops it.
pub type Boot<'a> = &'a dyn Fn(&SiteConfig) -> Result<(), Explanation>;

pub fn run(config: &Config, out: &mut dyn Write, boot: Boot) -> ExitCode {
    let mut report = Report::default();
    report.listeners(config);
    let discovered = report.folder_of_sites(config);
    for site in config.sites.iter().chain(&discovered.sites) {
        report.site(site, boot);
    }
    for site in config.sites.iter().chain(&discovered.sites) {
        if let Err(why) = rules::check(std::slice::from_ref(site)) {
            report.problem(&format!("site {}: rule: {why}", site.name));
        }
    }
    for (site, why) in &discovered.broken {
        report.problem(&format!("site {}: {why}", site.name));
    }
    report.warnings(config, &discovered.sites);
    let _ = out.write_all(report.finish().as_bytes());
    if report.problems == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    }
}

/// The lines of one check.
#[derive(Default)]
struct Report {
    text: String,
    problems: usize,
}

impl Report {
    fn problem(&mut self, what: &str) {
        self.problems += 1;
        self.text.push_str(&format!("WRONG   {what}\n"));
    }

    fn listeners(&mut self, config: &Config) {
        for listening in &config.binds {
            self.text.push_str(&format!("listen  {}\n", shown(listening)));
        }
        for pair in config.binds.iter().chain(&config.instead_of).flat_map(|listening| listening.tls.iter().flatten()) {
            if let Err(why) = tls::certificate::load(pair, &rustls::crypto::ring::default_provider()) {
                self.problem(&why.to_string());
            }
        }
        if let Some(automatic) = &config.tls.automatic {
            let (hosts, dir) = (automatic.hosts.join(" "), automatic.dir.display());
            self.text.push_str(&format!("tls     auto for {hosts}, from {}, stored in {dir}\n", automatic.directory));
        }
    }

    /// The sites that the folder `sites` has; none if it can't be read.
    fn folder_of_sites(&mut self, config: &Config) -> config::Discovered {
        let Some(dir) = &config.sites_dir else { return Default::default() };
        config::sites_in(dir, &config.inherited, &config.site_defaults).unwrap_or_else(|why| {
            self.problem(&format!("{}: {why}", dir.display()));
            Default::default()
        })
    }

    fn site(&mut self, site: &SiteConfig, boot: Boot) {
        let why = match line(site) {
            Err(why) => why.to_string(),
            Ok((line, kind)) => {
                let is_app = kind.is_some_and(|kind| kind != AppKind::Files);
                let started = if is_app { boot(site) } else { Ok(()) };
                match started {
                    Ok(()) => return self.text.push_str(&line),
                    Err(why) => why.to_string(),
                }
            }
        };
        let several = if why.contains('\n') { "\n" } else { " " };
        self.problem(&format!("site {}:{several}{why}", site.name));
    }

    fn warnings(&mut self, config: &Config, discovered: &[SiteConfig]) {
        let sites = || config.sites.iter().chain(discovered);
        for site in sites() {
            for warning in server::warnings(config, site) {
                self.text.push_str(&format!("warning site {}: {warning}\n", site.name));
            }
        }
        let runs = |site: &&SiteConfig| site.upstream.is_none() && site.kind != Some(AppKind::Files);
        self.text.extend(sites().filter(runs).filter_map(database_pool::advice));
        for (site, notice) in sites().filter_map(|site| Some((site, site.parts.notice()?))) {
            self.text.push_str(&format!("notice  site {}: {notice}\n", site.name));
        }
        for notice in &config.notices {
            self.text.push_str(&format!("notice  {notice}\n"));
        }
    }

    fn finish(&mut self) -> &str {
        self.text.push_str(&match self.problems {
            0 => "no problems found\n".to_string(),
            1 => "1 problem\n".to_string(),
            more => format!("{more} problems\n"),
        });
        &self.text
    }
}

/// None: no application, but an upstream.
fn line(site: &SiteConfig) -> Result<(String, Option<AppKind>), DetectError> {
    let hosts = if site.hosts.is_empty() { "every host".into() } else { site.hosts.join(" ") };
    if let Some(upstream) = &site.upstream {
        let public = site.root.join(&site.public);
        let files = if site.static_files && public.is_dir() {
            format!(", files in {}", public.display())
        } else {
            String::new()
        };
        return Ok((format!("site    {}: {upstream}{files}, for {hosts}\n", site.name), None));
    }
    let kind = config::detect_site(site, &site.root)?.kind;
    let ruby = match kind {
        AppKind::Files => String::new(),
        _ => format!(", {}, {} x {} threads", site.environment, workers(site), site.threads),
    };
    Ok((format!("site    {}: {kind:?} in {}{ruby}, for {hosts}\n", site.name, site.root.display()), Some(kind)))
}

fn shown(listening: &Listening) -> String {
    match &listening.bind {
        Bind::Tcp(address) if listening.tls.is_some() => format!("https://{address}"),
        Bind::Tcp(address) => format!("http://{address}"),
        Bind::Unix { path, .. } => format!("unix://{}", path.display()),
        Bind::Fd(fd) => format!("from file descriptor {fd}"),
    }
}

/// As many as there are to be: 2, or 1 to 4.
fn workers(site: &SiteConfig) -> String {
    if site.workers_max > site.workers {
        format!("{} to {}", site.workers, site.workers_max)
    } else {
        site.workers.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{
        load,
        test_folder::{around, Folder},
        Flags,
    };

    fn checked(folder: &Folder, boot: Boot) -> String {
        let config = around(&folder.0, &[], |around| load(Flags::default(), around)).expect("fine");
        let mut out = Vec::new();
        run(&config, &mut out, boot);
        String::from_utf8_lossy(&out).replace(&folder.0.display().to_string(), "DIR")
    }

    #[test]
    fn tells_what_would_be_served() {
        let toml = "sites = \"more\"\n[[site]]\nroot = \"shop\"\nhost = \"shop.test\"\n[[site]]\nroot = \"none\"\n";
        let folder = Folder::with(&[
            ("paceline.toml", toml),
            ("shop/config.ru", ""),
            ("more/blog/config.ru", ""),
            ("more/manual/index.html", ""),
            ("more/wrong/paceline.toml", "x = 1"),
        ]);
        let told = checked(&folder, &|site| {
            if site.name == "shop.test" {
                Ok(())
            } else {
                Err(Explanation::new(format!("{} does not start", site.name)))
            }
        });
        let lines = [
            "listen  http://127.0.0.1:3000",
            "site    shop.test: Rack in DIR/shop, development, 1 x 3 threads, for shop.test",
            "WRONG   site none: DIR/none: cannot be read: No such file or directory (os error 2)",
            "WRONG   site blog: blog does not start",
            "site    manual: Files in DIR/more/manual, for manual manual.localhost manual.test",
            "WRONG   site wrong: DIR/more/wrong/paceline.toml:1:1: unknown key \"x\"",
            "3 problems",
        ];
        assert_eq!(told.lines().collect::<Vec<_>>(), lines);
        let serving = ("paceline.toml", "[auto_cache]\nmode = \"serve\"\nmax_ttl = \"10m\"\n");
        let told = checked(&Folder::with(&[("config.ru", ""), serving]), &|_| Ok(()));
        assert!(
            told.contains("not seen, unless it is a file of SQLite: a page may show what was there before for up to max_ttl = \"10m\"\n"),
            "{told}"
        );
        let database = ("config/database.yml", "development:\n  pool: <%= ENV.fetch(\"DB_POOL\") { 5 } %>\n");
        // As Rails writes them: enough for the threads. Whether streams use it only a running worker knows.
        assert!(!checked(&Folder::with(&[("config.ru", ""), database]), &|_| Ok(())).contains("pool"));
        for (streams, wanted) in [("0", "Set it to 8\n"), ("50", "Set it to 8; to 58 if streams use the database\n")] {
            let few = format!("threads = 8\nstream_threads = {streams}\n");
            let told = checked(&Folder::with(&[("config.ru", ""), database, ("paceline.toml", &few)]), &|_| Ok(()));
            assert!(
                told.contains(": each worker has 8 threads, and config/database.yml a pool of 5: requests wait")
                    && told.contains(wanted),
                "{told}"
            );
        }
        let folder = Folder::with(&[("config.ru", "")]);
        assert!(checked(&folder, &|_| Ok(())).ends_with("no problems found\n"));
    }
}
