//! What the suggestions may ask about this machine: files, their owners, programs, who holds a port.
//! It only looks; every question has an answer on a machine that refuses to tell.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::super::StartupReport;
use unix_user::{self, RunAs};

/// Bytes of a small file, at most.
const SMALL: u64 = 4096;

pub trait Surroundings {
    fn exists(&self, path: &Path) -> bool;
    /// Name (or number) of the file's owner.
    fn owner(&self, path: &Path) -> Option<String>;
    /// Who the app runs as.
    fn user(&self) -> String;
    /// Is there such a program on the PATH?
    fn program(&self, name: &str) -> bool;
    /// The process that listens on a TCP port: `puma (pid 4711)`.
    fn port_holder(&self, port: u16) -> Option<String>;
    /// A small file's first line.
    fn first_line(&self, path: &Path) -> Option<String>;
}

/// This machine.
pub struct Here {
    root: PathBuf,
    read_as: Option<RunAs>,
}

impl Here {
    /// For the application of a report.
    pub fn of(report: &StartupReport) -> Here {
        Here { root: report.root.clone(), read_as: report.read_as.clone() }
    }
}

impl Surroundings for Here {
    fn exists(&self, path: &Path) -> bool {
        self.root.join(path).exists()
    }

    fn owner(&self, path: &Path) -> Option<String> {
        Some(user_name(fs::metadata(self.root.join(path)).ok()?.uid()))
    }

    fn user(&self) -> String {
        match self.read_as.as_ref().and_then(RunAs::account) {
            Some(account) => account.name.clone().unwrap_or_else(|| user_name(account.uid)),
            None => user_name(rustix::process::geteuid().as_raw()),
        }
    }

    fn program(&self, name: &str) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
        found
    }

    fn port_holder(&self, port: u16) -> Option<String> {
        port_holder(port)
    }

    fn first_line(&self, path: &Path) -> Option<String> {
        let path = self.root.join(path);
        let text = unix_user::read(self.read_as.as_ref()?, &path, SMALL).ok()?;
        Some(String::from_utf8(text).ok()?.lines().next()?.trim().to_string())
    }
}

fn user_name(uid: u32) -> String {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid.to_string()).then(|| name.to_string())
    });
    name.unwrap_or_else(|| format!("user {uid}"))
}

/// The process that listens on a TCP port, as `puma 5.6 (tcp://...) (pid 4711)`, if /proc tells us.
pub fn port_holder(port: u16) -> Option<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let inodes: Vec<String> =
        tables.iter().flat_map(|table| table.lines().filter_map(|row| listening_inode(row, port))).collect();
    if inodes.is_empty() {
        return None;
    }
    let wanted: Vec<PathBuf> = inodes.iter().map(|inode| PathBuf::from(format!("socket:[{inode}]"))).collect();
    let pid = fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let mut open = fs::read_dir(entry.path().join("fd")).ok()?.flatten();
        open.any(|fd| fs::read_link(fd.path()).is_ok_and(|target| wanted.contains(&target))).then_some(pid)
    })?;
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    let name = match command.trim() {
        "" => fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default(),
        command => command.chars().take(80).collect(),
    };
    Some(format!("{} (pid {pid})", crate::phrases::plain(&name).trim()))
}

/// The inode of a row of /proc/net/tcp that listens (state 0A) on the port.
fn listening_inode(row: &str, port: u16) -> Option<String> {
    let fields: Vec<&str> = row.split_whitespace().collect();
    let local = fields.get(1)?.rsplit_once(':')?.1;
    let listens = *fields.get(3)? == "0A" && u16::from_str_radix(local, 16).ok()? == port;
    listens.then(|| fields.get(9).map(|inode| (*inode).to_string())).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_port_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let holder = port_holder(port).unwrap();
        assert!(holder.ends_with(&format!("(pid {})", std::process::id())), "{holder}");
        drop(listener);
        assert_eq!(port_holder(port), None);
    }

    #[test]
    fn rows_of_the_socket_table_are_read() {
        let row = "   0: 0100007F:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0000 100 0 0 10 0";
        assert_eq!(listening_inode(row, 3000).as_deref(), Some("4242"));
        assert_eq!(listening_inode(row, 3001), None);
        assert_eq!(listening_inode(&row.replace(" 0A ", " 01 "), 3000), None);
        assert_eq!(listening_inode("  sl  local_address rem_address", 3000), None);
    }

    #[test]
    fn files_and_users_have_names() {
        let here = Here { root: "/etc".into(), read_as: None };
        assert!(here.exists("passwd".as_ref()) && !here.exists("nonexistent".as_ref()));
        assert_eq!(here.owner("passwd".as_ref()).as_deref(), Some("root"));
        assert!(here.program("sh") && !here.program("no-such-program"));
        assert_eq!(user_name(4_000_000_000), "user 4000000000");
    }
}
