//! Which program a new front is, and how it is started: what was started at first, looked up anew.
//! It never starts it.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use crate::request::front::UpgradeError;

/// How this program was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Where it was found. It is not resolved: what a link leads to may be another file by now.
    path: PathBuf,
    arguments: Vec<OsString>,
    /// As the shell knows it: `current` and not the release that it leads to at this moment.
    folder: PathBuf,
}

impl Program {
    /// This one. To be called before anything changes the current directory or replaces the program's file.
    pub fn own() -> io::Result<Program> {
        let mut arguments = env::args_os();
        let name = arguments.next().unwrap_or_default();
        let cwd = env::current_dir()?;
        let folder = env::var_os("PWD").map(PathBuf::from).filter(|shell| shell.is_absolute() && same(shell, &cwd));
        let folder = folder.unwrap_or(cwd);
        let own = env::current_exe()?;
        let found = places(&name, &folder, env::var_os("PATH").as_deref()).into_iter().find(|path| same(path, &own));
        Ok(Program { path: found.unwrap_or(own), arguments: arguments.collect(), folder })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A command that starts what is there now.
    pub fn command(&self) -> Result<Command, UpgradeError> {
        let missing = |error| UpgradeError::NotStarted { path: self.path.clone(), error: Arc::new(error) };
        let found = fs::metadata(&self.path).map_err(missing)?;
        if !found.is_file() || found.mode() & 0o111 == 0 {
            return Err(UpgradeError::NotAProgram(self.path.clone()));
        }
        let mut command = Command::new(&self.path);
        command.args(&self.arguments);
        // Where it leads nowhere by now, ours is as good.
        if self.folder.is_dir() {
            command.current_dir(&self.folder).env("PWD", &self.folder);
        }
        Ok(command)
    }
}

/// Where a program of this name may be.
fn places(name: &OsStr, folder: &Path, search: Option<&OsStr>) -> Vec<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return vec![folder.join(name)];
    }
    search.map(|search| env::split_paths(search).map(|dir| folder.join(dir).join(name)).collect()).unwrap_or_default()
}

fn same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    identity(one).is_some_and(|one| Some(one) == identity(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_for_as_a_shell_does() {
        let folder = Path::new("/srv/shop/current");
        let found = |name: &str| places(name.as_ref(), folder, Some("/usr/bin:bin".as_ref()));
        assert_eq!(found("../bin/paceline"), [Path::new("/srv/shop/current/../bin/paceline")]);
        assert_eq!(found("/opt/paceline"), [Path::new("/opt/paceline")]);
        assert_eq!(found("paceline"), [Path::new("/usr/bin/paceline"), Path::new("/srv/shop/current/bin/paceline")]);
        assert!(places("paceline".as_ref(), folder, None).is_empty());
    }

    #[test]
    fn what_is_started_is_what_is_there_now() {
        let own = Program::own().unwrap();
        assert!(same(own.path(), &env::current_exe().unwrap()) && own.command().is_ok());
        let gone = Program { path: "/nowhere/paceline".into(), ..own.clone() };
        assert!(gone.command().unwrap_err().to_string().starts_with("/nowhere/paceline: No such file"));
        let text = Program { path: "/etc/passwd".into(), ..own };
        assert_eq!(text.command().unwrap_err().to_string(), "/etc/passwd is no program");
    }
}
