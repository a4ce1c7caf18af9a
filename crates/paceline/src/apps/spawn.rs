//! Starts a preloader process: the app's Ruby with the shim, a control socket and pipes for what it prints.
//! It never waits for it.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io::{self, Write},
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    process::Stdio,
};

use ring::digest::{Context, SHA256};
use rustix::io::{fcntl_setfd, FdFlags};

use super::{startable_app::StartableApp, tuning};
use crate::{
    config::{RubyChild, RubyProcess, SiteConfig, StartRuby},
    origins::workers::protocol::{
        fields,
        frame::{encode, kind},
    },
};
use unix_user::{self, RunAs};

/// A preloader that was started.
pub struct PreloaderProcess {
    pub pid: i32,
    pub control: UnixStream,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    pub run_as: RunAs,
    /// What was asked for and could not be done.
    pub notice: Option<String>,
}

/// The folder with `lib/paceline/server/preloader.rb`: `$PACELINE_GEM_DIR`, or where the program is: the gem it is in
/// (libexec/), the files installed with it (/usr/bin and /usr/lib/paceline), or `gem/` of the checkout it was built in.
pub fn gem_dir() -> io::Result<PathBuf> {
    let here = |dir: &Path| dir.join("lib/paceline/server/preloader.rb").is_file();
    if let Some(dir) = std::env::var_os("PACELINE_GEM_DIR").map(PathBuf::from) {
        if here(&dir) {
            return Ok(dir);
        }
    }
    let program = std::env::current_exe()?;
    let found = gem_dirs_near(&program).find(|dir| here(dir));
    found.ok_or_else(|| {
        // Of another kind than a Ruby that is not found.
        io::Error::other("the gem's files are missing: set PACELINE_GEM_DIR to the folder that holds lib/paceline")
    })
}

fn gem_dirs_near(program: &Path) -> impl Iterator<Item = PathBuf> + '_ {
    let prefix = program.ancestors().nth(2);
    let installed = prefix.into_iter().flat_map(|prefix| [prefix.to_owned(), prefix.join("lib/paceline")]);
    installed.chain(program.ancestors().map(|dir| dir.join("gem")))
}

/// What a service manager, or a front before this one, has told the front.
const MANAGERS: [&str; 8] = [
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_PIDFDID",
    "LISTEN_FDNAMES",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "PACELINE_HANDOVER_FD",
];

/// Starts the preloader of `site` in `root` (the real path of its root), as `run_as` says. `change` sees the environment that
/// it would have. Must be called on the main thread: the kernel ties PDEATHSIG to the thread that started the child.
pub fn preloader_with(
    site: &SiteConfig,
    root: &Path,
    run_as: RunAs,
    change: impl FnOnce(&mut BTreeMap<OsString, OsString>),
) -> io::Result<PreloaderProcess> {
    let script = gem_dir()?.join("lib/paceline/server/preloader.rb");
    let (ours, theirs) = UnixStream::pair()?;
    fcntl_setfd(theirs.as_fd(), FdFlags::empty())?;
    let mut env = environment(site, &run_as);
    env.insert("PACELINE_CONTROL_FD".into(), theirs.as_raw_fd().to_string().into());
    let notice = tuning::apply(&site.tuning, &mut env);
    change(&mut env);
    let mut command = unix_user::command(&run_as, &site.ruby, root, env);
    command.arg(script);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        command.spawn().map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", site.ruby.display())))?;
    let missing = || io::Error::other("no pipe to the preloader");
    let stdout = child.stdout.take().ok_or_else(missing)?;
    let stderr = child.stderr.take().ok_or_else(missing)?;
    if let Some(account) = run_as.account() {
        // So that the app may open its /dev/stdout.
        std::os::unix::fs::fchown(&stdout, Some(account.uid), None)?;
        std::os::unix::fs::fchown(&stderr, Some(account.uid), None)?;
    }
    Ok(PreloaderProcess {
        pid: child.id() as i32,
        control: ours,
        stdout: stdout.into(),
        stderr: stderr.into(),
        run_as,
        notice,
    })
}

/// Starts the process that reads config/puma.rb, as the one that loads the application: it may become that.
pub struct Readers;

impl StartRuby for Readers {
    fn start(&self, site: &SiteConfig, run_as: RunAs, names_environment: bool) -> io::Result<RubyProcess> {
        let gemfile = match StartableApp::at(site) {
            Ok(found) => found.gemfile(site),
            Err(_) => Some(site.root.join("Gemfile")).filter(|path| path.is_file()),
        };
        let mut given = BTreeMap::new();
        let spawned = preloader_with(site, &site.root, run_as, |env| {
            if !names_environment {
                let ambient = |name: &OsString| {
                    std::env::var_os(name).is_some() || site.env.contains_key(&*name.to_string_lossy())
                };
                env.retain(|name, _| !ENVIRONMENTS.iter().any(|one| name == *one) || ambient(name));
            }
            given.clone_from(env);
        })?;
        for pipe in [&spawned.stdout, &spawned.stderr] {
            // Nobody reads what the file prints before it is read.
            let _ = rustix::pipe::fcntl_setpipe_size(pipe, READER_OUTPUT);
        }
        let child = RubyChild {
            pid: spawned.pid,
            stdout: spawned.stdout,
            stderr: spawned.stderr,
            run_as: spawned.run_as,
            ruby: site.ruby.clone(),
            root: site.root.canonicalize()?,
            gemfile,
            env: given,
        };
        Ok(RubyProcess { control: spawned.control, child: Some(child) })
    }

    #[allow(unsafe_code)]
    fn adopted(&self, fd: i32) -> Option<UnixStream> {
        if fd < 3 || !Path::new(&format!("/proc/self/fd/{fd}")).exists() {
            return None;
        }
        // SAFETY: our parent opened this descriptor for us and named it on the command line; it was just seen to be open,
        // and settings are loaded once by a server that is started so, so nothing else owns it.
        let socket = unsafe { UnixStream::from_raw_fd(fd) };
        fcntl_setfd(&socket, FdFlags::CLOEXEC).ok()?;
        Some(socket)
    }
}

const ENVIRONMENTS: [&str; 3] = ["RACK_ENV", "RAILS_ENV", "APP_ENV"];
/// Bytes that a config/puma.rb may print.
const READER_OUTPUT: usize = 1 << 20;
/// What counts when a program begins, and can't be changed in it.
const AT_BEGINNING: [&str; 6] = ["RUBY", "MALLOC", "LD_", "GLIBC", "GEM_", "BUNDLE"];

/// The process that has read config/puma.rb, as the one that loads `found`. None: it was started otherwise than that
/// would be, or is gone; then it ends.
pub fn reader(
    process: RubyProcess,
    site: &SiteConfig,
    found: &StartableApp,
    run_as: &RunAs,
) -> Option<PreloaderProcess> {
    let RubyProcess { mut control, child } = process;
    let child = child?;
    let mut env = environment(site, run_as);
    let notice = tuning::apply(&site.tuning, &mut env);
    let at_beginning = |name: &OsStr| {
        let text = name.to_string_lossy();
        AT_BEGINNING.iter().any(|begin| text.starts_with(begin))
    };
    let of = |env: &BTreeMap<OsString, OsString>| -> BTreeMap<OsString, OsString> {
        env.iter().filter(|(name, _)| at_beginning(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let is_alive = {
        let mut byte = [0; 1];
        let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
        matches!(rustix::net::recv(&control, &mut byte, flags), Err(rustix::io::Errno::AGAIN))
    };
    let is_same = child.run_as == *run_as
        && child.ruby == site.ruby
        && child.root == found.root
        && child.gemfile == found.gemfile(site)
        && of(&child.env) == of(&env);
    if !is_alive || !is_same {
        return None;
    }
    let frame = encode(kind::ENVIRONMENT, |out| {
        for (name, value) in env.iter().filter(|(name, value)| child.env.get(*name) != Some(*value)) {
            if name != "PACELINE_CONTROL_FD" {
                fields::put_pair(out, name.as_encoded_bytes(), value.as_encoded_bytes());
            }
        }
    });
    control.write_all(&frame).ok()?;
    Some(PreloaderProcess {
        pid: child.pid,
        control,
        stdout: child.stdout,
        stderr: child.stderr,
        run_as: child.run_as,
        notice,
    })
}

/// What the processes of a site find in their environment.
pub fn environment(site: &SiteConfig, run_as: &RunAs) -> BTreeMap<OsString, OsString> {
    let mut env = unix_user::env(run_as);
    // Bundler run for the server itself says nothing about the app's own bundle.
    if env.contains_key(OsStr::new("BUNDLE_BIN_PATH")) {
        for name in ["RUBYOPT", "RUBYLIB"] {
            env.remove(OsStr::new(name));
        }
    }
    // What a service manager told the front is not the app's to answer.
    for name in MANAGERS {
        env.remove(OsStr::new(name));
    }
    for name in ENVIRONMENTS {
        env.insert(name.into(), site.environment.clone().into());
    }
    env.extend(site.env.iter().map(|(name, value)| (name.into(), value.into())));
    env
}

/// Differ with each start of a server, or with who starts it from where, and say nothing about its applications.
const OF_ONE_START: [&str; 39] = [
    "_",
    "BASHOPTS",
    "DBUS_SESSION_BUS_ADDRESS",
    "GPG_AGENT_INFO",
    "GPG_TTY",
    "IFS",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LINENO",
    "LS_COLORS",
    "MAINPID",
    "MANAGERPID",
    "MANAGERPIDFDID",
    "MEMORY_PRESSURE_WATCH",
    "MEMORY_PRESSURE_WRITE",
    "OLDPWD",
    "OPTIND",
    "PPID",
    "PWD",
    "SHELLOPTS",
    "SHLVL",
    "SSH_AGENT_PID",
    "SSH_AUTH_SOCK",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "STY",
    "SUDO_COMMAND",
    "SUDO_GID",
    "SUDO_UID",
    "SUDO_USER",
    "SYSTEMD_EXEC_PID",
    "TERM",
    "TMUX",
    "TMUX_PANE",
    "WINDOWID",
    "XDG_SESSION_CLASS",
    "XDG_SESSION_ID",
    "XDG_SESSION_TYPE",
];

/// How the name of a function begins that bash has exported. Other shells do not pass it on: whether it is there says only how the
/// server was started.
const SHELL_FUNCTION: &str = "BASH_FUNC_";

/// By what the environment of a site's processes is told apart from that of another start. No value can be seen in it.
pub fn environment_digest(site: &SiteConfig, run_as: &RunAs) -> String {
    digest_of(&environment(site, run_as), &site.env)
}

/// `own`: what the settings have for the application counts, whatever its name is.
fn digest_of(env: &BTreeMap<OsString, OsString>, own: &BTreeMap<String, String>) -> String {
    let mut context = Context::new(&SHA256);
    let is_of_application = |name: &OsStr| {
        let begins = |begin: &str| name.as_encoded_bytes().starts_with(begin.as_bytes());
        // Ours, which are among what the settings have for it: sockets with the number of this process.
        if begins("PACELINE_") {
            return false;
        }
        let is_own = name.to_str().is_some_and(|name| own.contains_key(name));
        is_own || !begins(SHELL_FUNCTION) && !OF_ONE_START.iter().any(|one| name == *one)
    };
    for (name, value) in env.iter().filter(|(name, _)| is_of_application(name)) {
        for text in [name, value] {
            context.update(&(text.len() as u64).to_be_bytes());
            context.update(text.as_encoded_bytes());
        }
    }
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_environment_has_another_digest() {
        let digest = |variables: &[(&str, &str)]| {
            digest_of(&variables.iter().map(|(name, value)| (name.into(), value.into())).collect(), &BTreeMap::new())
        };
        let first = digest(&[("SHOP", "a")]);
        for other in [&[("SHOP", "b")], &[("SHOPA", "")], &[("SHO", "Pa")]] {
            assert_ne!(digest(other), first, "{other:?}");
        }
        assert_ne!(digest(&[("SHOP", "a"), ("THEME", "")]), first);
        let of_one_start = [
            ("PACELINE_AUTO_CACHE", "tmp/paceline-journal-7.sock"),
            ("INVOCATION_ID", "7"),
            ("PWD", "/srv"),
            ("SSH_AUTH_SOCK", "/tmp/ssh-XXXX/agent.7"),
            ("BASH_FUNC_module%%", "() {  :\n}"),
            ("SHOP", "a"),
        ];
        assert_eq!(digest(&of_one_start), first);
        let own = ["TERM", "PACELINE_AUTO_CACHE"].map(|name| (name.to_owned(), String::new())).into();
        let with_own = |name: &str, value: &str| digest_of(&BTreeMap::from([(name.into(), value.into())]), &own);
        assert_ne!(with_own("TERM", "autumn"), with_own("TERM", "spring"), "the settings name it");
        let journal = |process: u32| with_own("PACELINE_AUTO_CACHE", &format!("tmp/paceline-journal-{process}.sock"));
        assert_eq!(journal(7), journal(8));
        assert!(!first.contains("SHOP"));
    }

    #[test]
    fn the_ruby_side_is_found_beside_an_installed_program() {
        for (program, dir) in [
            ("/gems/paceline-1.0.0-x86_64-linux/libexec/paceline", "/gems/paceline-1.0.0-x86_64-linux"),
            ("/usr/bin/paceline", "/usr/lib/paceline"),
            ("/src/paceline/target/release/paceline", "/src/paceline/gem"),
        ] {
            assert!(gem_dirs_near(Path::new(program)).any(|near| near == Path::new(dir)), "{program}");
        }
    }
}
