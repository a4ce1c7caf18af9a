//! Follows a path from the top of the file system, name by name, and tells who could put something else in its place.
//! It opens names alone (O_PATH), so that no FIFO or device makes it wait, and never reads a file.

use std::{
    collections::VecDeque,
    ffi::OsString,
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{fstat, getxattr, open, openat, readlinkat, FileType, Mode, OFlags, Stat},
    io::Errno,
};

const NAME: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;
const WRITE_BY_GROUP: u32 = 0o020;
const WRITE_BY_OTHERS: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Where a path leads, and the directories in which each of its names was found.
#[derive(Debug)]
pub struct ResolvedPath {
    /// What it leads to, opened with O_PATH. It is no link.
    pub entry: OwnedFd,
    pub stat: Stat,
    /// The path without links.
    pub path: PathBuf,
    steps: Vec<Step>,
}

/// A directory in which a name was looked up.
#[derive(Debug)]
struct Step {
    dir: PathBuf,
    access: Access,
    /// Owner of what has the name.
    entry_owner: u32,
}

/// Who may change a directory or a file.
#[derive(Debug, Clone, Copy)]
struct Access {
    owner: u32,
    group: u32,
    mode: u32,
    has_acl: bool,
}

/// Follows `path`, which is absolute. The error is that of the first name that can't be looked up.
pub fn walk(path: &Path) -> io::Result<ResolvedPath> {
    let top = open("/", NAME | OFlags::DIRECTORY, Mode::empty())?;
    let mut reached = vec![(fstat(&top)?, top, PathBuf::from("/"))];
    let mut pending: VecDeque<OsString> = names(path).collect();
    let mut steps = Vec::new();
    let mut links = 0;
    while let Some(name) = pending.pop_front() {
        if name == ".." {
            reached.truncate((reached.len() - 1).max(1));
            continue;
        }
        let Some((dir_stat, dir, dir_path)) = reached.last() else { break };
        let entry = openat(dir, &name, NAME, Mode::empty())?;
        let stat = fstat(&entry)?;
        steps.push(Step { dir: dir_path.clone(), access: Access::of(dir_stat, dir), entry_owner: stat.st_uid });
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            let path = dir_path.join(&name);
            reached.push((stat, entry, path));
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        let target = readlinkat(&entry, "", Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            reached.truncate(1);
        }
        for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
            pending.push_front(name);
        }
    }
    let (stat, entry, path) = reached.pop().ok_or(Errno::NOENT)?;
    Ok(ResolvedPath { entry, stat, path, steps })
}

fn names(path: &Path) -> impl Iterator<Item = OsString> + use<'_> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

impl ResolvedPath {
    /// A directory on the way in which somebody else than root and `account` could put another thing in the place of
    /// the next name. None: there is none. What the path leads to is not looked at.
    pub fn others_above(&self, account: u32) -> Option<&Path> {
        let exposed = self.steps.iter().find(|step| {
            let trusted = |uid: u32| uid == 0 || uid == account;
            let protected = step.access.mode & STICKY != 0 && trusted(step.entry_owner);
            !trusted(step.access.owner) || step.access.others_write(account) && !protected
        });
        exposed.map(|step| step.dir.as_path())
    }

    /// The directory on the way, or what the path leads to, that others than root can change. None: root alone can.
    pub fn others_than_root(&self) -> Option<&Path> {
        let own = Access::of(&self.stat, &self.entry);
        let changed = || (own.owner != 0 || own.others_write(0)).then_some(self.path.as_path());
        self.others_above(0).or_else(changed)
    }

    pub fn is_dir(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::Directory
    }
}

impl Access {
    fn of(stat: &Stat, entry: &OwnedFd) -> Access {
        // The group's bits of a file with an access control list stand for everybody who is named in it.
        let has_acl = || {
            let path = format!("/proc/self/fd/{}", entry.as_raw_fd());
            let none: &mut [u8] = &mut [];
            !matches!(
                getxattr(path, "system.posix_acl_access", none),
                Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS)
            )
        };
        let asked = stat.st_mode & WRITE_BY_GROUP != 0 && stat.st_gid == 0;
        Access { owner: stat.st_uid, group: stat.st_gid, mode: stat.st_mode, has_acl: asked && has_acl() }
    }

    /// Beside the owner and `account`. An account's groups are its owner's affair; of root's files only root's own
    /// group may.
    fn others_write(&self, account: u32) -> bool {
        let group = account == 0 && self.mode & WRITE_BY_GROUP != 0 && (self.group != 0 || self.has_acl);
        group || self.mode & WRITE_BY_OTHERS != 0
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{chown, lchown, symlink, PermissionsExt},
    };

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("paceline-walk-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(path.join("in/ner")).unwrap();
            Folder(path.canonicalize().unwrap())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_path_leads_where_the_kernel_says() {
        let folder = Folder::new("leads");
        let base = &folder.0;
        symlink("in", base.join("relative")).unwrap();
        symlink(base.join("relative/ner"), base.join("absolute")).unwrap();
        symlink("loop", base.join("loop")).unwrap();
        for path in ["relative/ner", "absolute", "absolute/../../in/ner", "./in//ner/"] {
            assert_eq!(walk(&base.join(path)).unwrap().path, base.join("in/ner"), "{path}");
        }
        assert_eq!(walk("/../..".as_ref()).unwrap().path, Path::new("/"));
        assert!(walk(&base.join("in/ner")).unwrap().is_dir());
        assert_eq!(walk(&base.join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(Errno::from_io_error(&walk(&base.join("loop")).unwrap_err()), Some(Errno::LOOP));
    }

    #[test]
    fn who_could_put_something_else_there() {
        if !rustix::process::geteuid().is_root() {
            return eprintln!("only root can give files away");
        }
        let folder = Folder::new("others");
        let (base, inner) = (&folder.0, folder.0.join("in/ner"));
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let others = |path: &Path| walk(path).unwrap().others_than_root().map(Path::to_path_buf);
        assert_eq!(others(&inner), None);
        for (open, why) in [(0o757, "others"), (0o1777, "a sticky directory's new names")] {
            mode(&inner, open);
            assert_eq!(others(&inner), Some(inner.clone()), "{why}");
        }
        mode(&inner, 0o775);
        assert_eq!(others(&inner), None, "root's own group");
        chown(&inner, None, Some(65534)).unwrap();
        assert_eq!(others(&inner), Some(inner.clone()), "another group");
        assert_eq!(walk(&inner).unwrap().others_above(0), None);

        chown(base.join("in"), Some(65534), None).unwrap();
        assert_eq!(others(&inner), Some(base.join("in")));
        assert_eq!(walk(&inner).unwrap().others_above(65534), None);
        assert_eq!(walk(&inner).unwrap().others_above(1), Some(base.join("in").as_path()));
        // The way by a link counts as well as the way to what it leads to.
        symlink(base, base.join("in/back")).unwrap();
        lchown(base.join("in/back"), Some(65534), None).unwrap();
        assert_eq!(others(&base.join("in/back")), Some(base.join("in")));
    }
}
