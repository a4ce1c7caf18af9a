//! `paceline systemd`: a unit for this directory and these settings, on standard output.
//! It never installs or starts one.

use std::{
    ffi::{OsStr, OsString},
    fmt::Write,
    os::unix::fs::MetadataExt,
    path::Path,
    time::Duration,
};

use crate::config::{Bind, Config, SiteConfig};

/// What systemd waits beyond the server's own times.
const BEYOND: Duration = Duration::from_secs(20);
/// Ports below need a privilege.
const FREE_PORTS: u16 = 1024;

/// What the unit is written from, beside the settings.
pub struct UnitFacts<'a> {
    /// The program, and the arguments of the command line after `systemd`.
    pub program: &'a Path,
    pub arguments: &'a [OsString],
    pub cwd: &'a Path,
    /// Of the environment: what a service would not have.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

/// The service's unit.
pub fn service(config: &Config, given: &UnitFacts<'_>) -> String {
    let first = config.sites.first().unwrap_or(&config.site_defaults);
    let name = name(first);
    let mut unit = format!(
        "# {name}.service, written by `paceline systemd`. To install it, as root:\n\
         #   paceline systemd > /etc/systemd/system/{name}.service && systemctl daemon-reload && systemctl enable --now {name}\n\
         [Unit]\n\
         Description=Paceline serving {}\n\
         After=network-online.target\n\
         Wants=network-online.target\n\n\
         [Service]\n\
         Type=notify\n\
         # A new Paceline that has taken over (paceline upgrade) speaks for the one before it.\n\
         NotifyAccess=all\n",
        plain(&first.root)
    );
    let user = account(config, first);
    if let Some(user) = &user {
        let _ = writeln!(unit, "User={user}");
    }
    let mut words = vec![quoted(given.program.as_os_str())];
    words.extend(kept(given.arguments).iter().map(|argument| quoted(argument)));
    let _ = writeln!(unit, "WorkingDirectory={}\nExecStart={}", plain(given.cwd), words.join(" "));
    unit.push_str(
        "# A phased restart: the new code takes over when it is ready.\nExecReload=/bin/kill -USR1 $MAINPID\n",
    );
    let environment = if first.environment == "development" { "production" } else { &first.environment };
    let _ = writeln!(unit, "Environment=RACK_ENV={environment} RAILS_ENV={environment} LANG=C.UTF-8");
    for name in ["PATH", "PACELINE_GEM_DIR", "PACELINE_USER", "PACELINE_GROUP"] {
        if let Some(value) = (given.variable)(name) {
            let _ = writeln!(unit, "Environment={}", quoted(format!("{name}={value}").as_ref()));
        }
    }
    let start = config.sites.iter().map(|site| site.start_timeout).max().unwrap_or(first.start_timeout);
    let stop = config.shutdown_delay + config.shutdown_timeout;
    let _ = write!(
        unit,
        "Restart=always\n\
         RestartSec=1\n\
         TimeoutStartSec={}\n\
         # More than shutdown_delay and shutdown_timeout together.\n\
         TimeoutStopSec={}\n\
         # The front is told to stop, and tells its processes; what is left then is killed.\n\
         KillMode=mixed\n\
         WatchdogSec=30\n\
         LimitNOFILE=65536\n\
         RuntimeDirectory={name}\n\
         StateDirectory={name}\n\
         # Programs, /boot and /etc can't be written. More (NoNewPrivileges=, PrivateTmp= ...) keeps some applications from sending mail or\n\
         # from reaching their database.\n\
         ProtectSystem=full\n\
         ProtectControlGroups=yes\n",
        (start + BEYOND).as_secs(),
        (stop + BEYOND).as_secs(),
    );
    let low = config
        .binds
        .iter()
        .any(|given| matches!(given.bind, Bind::Tcp(address) if (1..FREE_PORTS).contains(&address.port())));
    if low && user.is_some_and(|user| user != "root") {
        unit.push_str(
            "# For ports below 1024; with `paceline systemd --socket` systemd opens them, and this is not needed.\n\
             AmbientCapabilities=CAP_NET_BIND_SERVICE\n",
        );
    }
    unit.push_str("\n[Install]\nWantedBy=multi-user.target\n");
    unit
}

/// Why systemd can't open the sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoSocketUnit {
    #[error("a systemd socket needs a port number: set bind or port")]
    NoPort,
    #[error("these sockets come from systemd already (LISTEN_FDS): run the command outside the service")]
    FromSystemd,
}

/// The unit of the sockets that systemd opens for the service.
pub fn sockets(config: &Config) -> Result<String, NoSocketUnit> {
    let name = name(config.sites.first().unwrap_or(&config.site_defaults));
    let mut unit = format!(
        "# {name}.socket, written by `paceline systemd --socket`. It goes beside {name}.service:\n\
         #   paceline systemd --socket > /etc/systemd/system/{name}.socket && systemctl daemon-reload && systemctl enable --now {name}.socket\n\
         [Unit]\n\
         Description=Sockets of {name}\n\n\
         [Socket]\n"
    );
    for given in &config.binds {
        match &given.bind {
            Bind::Tcp(address) if address.port() == 0 => {
                return Err(NoSocketUnit::NoPort);
            }
            Bind::Tcp(address) => {
                let _ = writeln!(unit, "ListenStream={address}");
            }
            Bind::Unix { path, umask } => {
                let mode = umask.map_or(0o600, |umask| 0o777 & !umask);
                let _ = writeln!(unit, "ListenStream={}\nSocketMode={mode:04o}", plain(path));
            }
            Bind::Fd(_) => return Err(NoSocketUnit::FromSystemd),
        }
    }
    unit.push_str("Backlog=4096\nNoDelay=yes\nBindIPv6Only=ipv6-only\n\n[Install]\nWantedBy=sockets.target\n");
    Ok(unit)
}

/// The unit's name: that of the site, without what can't be in one.
fn name(site: &SiteConfig) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    site.name.chars().map(allowed).collect()
}

/// Who all applications run as. None: root has to start them, since they are of several accounts or of root's own.
fn account(config: &Config, first: &SiteConfig) -> Option<String> {
    let of = |site: &SiteConfig| site.user.clone().or_else(|| owner(site));
    let user = of(first)?;
    config.sites.iter().all(|site| of(site).as_ref() == Some(&user)).then_some(user)
}

/// Who the application belongs to, unless that is root.
fn owner(site: &SiteConfig) -> Option<String> {
    let uid = std::fs::metadata(&site.root).ok()?.uid();
    if uid == 0 {
        return None;
    }
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let of = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
    };
    Some(passwd.lines().find_map(of).unwrap_or_else(|| uid.to_string()))
}

/// The command line's arguments, without those that are for the unit alone.
fn kept(arguments: &[OsString]) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--user") => drop(arguments.next()),
            Some("--socket" | "systemd") => {}
            Some(text) if text.starts_with("--user=") => {}
            _ => kept.push(argument.clone()),
        }
    }
    kept
}

/// A path in a setting that takes one.
fn plain(path: &Path) -> String {
    path.display().to_string().replace('%', "%%")
}

/// A word of a command line or of an assignment, as systemd.syntax(7) has it.
fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy().replace('%', "%%").replace('$', "$$");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+%$".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word
    } else {
        format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_the_unit_stay_out_of_the_command() {
        let given = ["systemd", "-p", "3000", "--user", "deploy", "--socket", "--user=x", "my app"].map(OsString::from);
        assert_eq!(kept(&given), ["-p", "3000", "my app"]);
    }

    #[test]
    fn words_are_quoted_as_systemd_reads_them() {
        for (word, shown) in [
            ("/usr/bin/paceline", "/usr/bin/paceline"),
            ("my app", "\"my app\""),
            ("50%", "50%%"),
            ("$HOME", "$$HOME"),
            ("say \"hi\"", "\"say \\\"hi\\\"\""),
            ("", "\"\""),
        ] {
            assert_eq!(quoted(word.as_ref()), shown);
        }
    }
}
