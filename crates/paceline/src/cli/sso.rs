//! The command line of `paceline sso check`, and how its answers are printed. It asks nothing itself: `crate::server::sso_check`
//! does.

use std::{io::Write, net::IpAddr, path::PathBuf, process::ExitCode};

use clap::{Arg, ArgAction, ArgMatches, Command};
use http::Uri;

use super::{asking, config_file::config_file, expected::Expected, CliExit};
use crate::{
    config::{self, Config, Flags, Surroundings},
    server::sso_check::{check, Area, Level, Visit, Wish},
};

pub const NAME: &str = "sso";
pub const ABOUT: &str = "`sso check`: find out why people can't sign in by [[sso]], and what browsers have to be told";

const AFTER: &str = "\
It looks at the keytab, the KDC's clock, the DNS, the directory and the issuer, and visits the site as a browser does. With a ticket
of your own (kinit) it also signs you in. Nothing is changed, and nobody's password is sent.

  paceline sso check                     every [[sso]] of this directory's paceline.toml
  paceline sso check web.example.com     as browsers know the site
  sudo paceline sso check --user deploy  whether that account can read the keytab

Exit status: 0; 1 if something is wrong; 2 if the settings can't be read.";

pub fn command() -> Command {
    let option = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    let check = asking::where_it_is(Command::new("check"))
        .about("Check each [[sso]]: keytab, KDC, DNS, directory, issuer, and a visit with your own ticket")
        .after_help(AFTER)
        .arg(Arg::new("host").value_name("HOST").num_args(0..).value_parser(host).help(
            "The site's name as browsers know it; several for several names [default: the site's hosts, else those of the keytab]",
        ))
        .arg(option("site", "NAME").help("Of several sites this one"))
        .arg(option("user", "NAME").help("The account that the server runs as [default: that of the running server]"))
        .arg(option("url", "URL").value_parser(url).help("The page to visit [default: https://HOST/]"))
        .arg(option("connect", "ADDRESS").value_parser(clap::value_parser!(IpAddr)).help("Visit this address, whatever the DNS says"))
        .arg(option("ca-file", "FILE").help("Certificates in PEM that the visit trusts, in place of the system's"))
        .arg(
            Arg::new("no-visit")
                .long("no-visit")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["url", "connect", "ca-file"])
                .help("Do not visit the site"),
        );
    Command::new(NAME)
        .bin_name("paceline sso")
        .about(ABOUT)
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(check)
}

fn host(text: &str) -> Result<String, Expected> {
    let is_host = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    is_host.then(|| text.to_ascii_lowercase()).ok_or(Expected("a name like web.example.com"))
}

fn url(text: &str) -> Result<Uri, Expected> {
    let url = text.parse::<Uri>().ok().filter(|url| matches!(url.scheme_str(), Some("https" | "http")));
    url.ok_or(Expected("an address like https://web.example.com/"))
}

/// What `args`, which begin with the program's name, ask for.
pub fn understood(matches: &ArgMatches, around: &Surroundings) -> Result<(Config, Wish), CliExit> {
    let own = matches.subcommand().map_or(matches, |(_, own)| own);
    let file = config_file(own.get_one::<String>("config").map(String::as_str), &around.cwd);
    let file = file.map_err(|error| CliExit::Wrong(vec![error.to_string()]))?;
    let flags = Flags { dir: own.get_one::<String>("dir").map(PathBuf::from), config_file: file, ..Flags::default() };
    let mut config = config::load(flags, around).map_err(|error| {
        let mut problems = error.problems;
        if rustix::process::geteuid().is_root()
            && problems.iter().any(|problem| problem.contains("this server runs as root"))
        {
            problems.push("run it as the account that the server runs as: sudo -u NAME paceline sso check".into());
        }
        CliExit::Wrong(problems)
    })?;
    config.control.path = match own.get_one::<String>("control") {
        Some(path) => Some(around.cwd.join(path)),
        None => asking::socket_of(&config),
    };
    let visit = Visit {
        url: own.get_one::<Uri>("url").cloned(),
        address: own.get_one::<IpAddr>("connect").copied(),
        ca_file: own.get_one::<String>("ca-file").map(|file| around.cwd.join(file)),
    };
    let wish = Wish {
        hosts: own.get_many::<String>("host").into_iter().flatten().cloned().collect(),
        site: own.get_one::<String>("site").cloned(),
        visit: (!own.get_flag("no-visit")).then_some(visit),
        user: own.get_one::<String>("user").cloned(),
    };
    Ok((config, wish))
}

pub fn run(config: &Config, wish: &Wish, out: &mut dyn Write) -> ExitCode {
    let discovered = match &config.sites_dir {
        None => config::Discovered::default(),
        Some(dir) => match config::sites_in(dir, &config.inherited, &config.site_defaults) {
            Ok(discovered) => discovered,
            Err(why) => {
                eprintln!("paceline: {}: {why}", dir.display());
                return ExitCode::from(2);
            }
        },
    };
    let sites = || config.sites.iter().chain(&discovered.sites);
    if let Some(name) = wish.site.as_ref().filter(|name| !sites().any(|site| site.name == **name)) {
        let known = sites().map(|site| site.name.as_str()).collect::<Vec<_>>().join(", ");
        eprintln!("paceline: no site {name:?}; there are: {known}");
        return ExitCode::from(2);
    }
    let areas = check(config, sites(), wish);
    if areas.is_empty() {
        eprintln!(
            "paceline: no [[sso]] in these settings: add one to paceline.toml; docs/single-sign-on.md has examples"
        );
        return ExitCode::from(2);
    }
    let (text, problems) = rendered(&areas);
    // A reader that went away is no failure.
    let _ = out.write_all(text.as_bytes());
    if problems == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The text, and how many things are wrong.
fn rendered(areas: &[Area]) -> (String, usize) {
    let mut text = String::new();
    let mut problems = 0;
    for area in areas {
        text.push_str(&format!("site    {}: {}\n", area.site, area.shown));
        for line in &area.lines {
            let word = match line.level {
                Level::Good => "ok",
                Level::Warning => "warning",
                Level::Wrong => "WRONG",
            };
            problems += usize::from(line.level == Level::Wrong);
            text.push_str(&format!("{word:<8}{}: {}\n", line.subject, line.text));
            line.advice
                .iter()
                .filter(|advice| !advice.is_empty())
                .for_each(|advice| text.push_str(&format!("        -> {advice}\n")));
        }
        for browser in &area.browsers {
            text.push_str(&format!("browser {}: {}\n        {}\n", browser.name, browser.place, browser.value));
        }
    }
    text.push_str(&match problems {
        0 => "no problems found\n".to_owned(),
        1 => "1 problem\n".to_owned(),
        more => format!("{more} problems\n"),
    });
    (text, problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cli::{self, parse},
        config::test_folder::{around, Folder},
        server::sso_check::Line,
    };

    const TOML: &str = "[[sso]]\nkerberos = { keytab = \"/nonexistent/http.keytab\" }\n";

    fn asked(folder: &Folder, line: &str) -> Result<Wish, CliExit> {
        let args: Vec<&str> = std::iter::once("paceline").chain(line.split_whitespace()).collect();
        match around(&folder.0, &[], |around| parse(args, around)) {
            Ok(cli::Command::SignOn(_, wish)) => Ok(wish),
            Ok(other) => panic!("{line}: {other:?}"),
            Err(end) => Err(end),
        }
    }

    #[test]
    fn what_is_asked() {
        let folder = Folder::with(&[("config.ru", ""), ("paceline.toml", TOML)]);
        let wish =
            asked(&folder, "sso check Web.Example.com --user deploy --connect 127.0.0.1 --url https://a.test:8443/x")
                .unwrap();
        assert_eq!((wish.hosts, wish.user), (vec!["web.example.com".to_owned()], Some("deploy".into())));
        let visit = wish.visit.unwrap();
        assert_eq!((visit.origin().as_deref(), visit.address), (Some("https://a.test:8443"), "127.0.0.1".parse().ok()));
        assert_eq!(asked(&folder, "sso check --no-visit").unwrap().visit, None);
        for (line, told) in [
            ("sso", "subcommand"),
            ("sso chek", "chek"),
            ("sso check https://web.example.com/", "a name like web.example.com"),
            ("sso check --url web.example.com", "an address like https://"),
            ("sso check --no-visit --connect ::1", "cannot be used with"),
            ("-p 1 sso check", "put sso first"),
        ] {
            match asked(&folder, line) {
                Err(CliExit::Wrong(lines)) => assert!(lines[0].contains(told), "{line}: {lines:?}"),
                other => panic!("{line}: {other:?}"),
            }
        }
        assert!(
            matches!(asked(&folder, "sso check --help"), Err(CliExit::Print(text)) if text.contains("Exit status"))
        );
    }

    #[test]
    fn what_is_wrong_is_counted_and_has_its_advice_below_it() {
        let lines = vec![
            Line::good("clock", "agrees"),
            Line::warning("name", "an alias", "Know it."),
            Line::wrong("keytab", "is empty", "Export it."),
        ];
        let area = Area { site: "shop".into(), shown: "[[sso]] path = \"/*\"".into(), lines, browsers: Vec::new() };
        let told =
            "site    shop: [[sso]] path = \"/*\"\nok      clock: agrees\nwarning name: an alias\n        -> Know it.\n\
                    WRONG   keytab: is empty\n        -> Export it.\n1 problem\n";
        assert_eq!(rendered(&[area]), (told.to_owned(), 1));
    }
}
