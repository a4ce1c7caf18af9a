//! The control groups (cgroups(7), version 1 and 2) that this process is in, and the tightest memory limit among them.
//! It never changes one.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A version 1 limit beyond this is "none": the kernel rounds its largest number down to a page.
const NO_LIMIT: u64 = 1 << 60;

/// A group with a limit. In bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cgroup {
    /// Its folder below /sys/fs/cgroup.
    pub folder: PathBuf,
    pub limit: u64,
    /// What is in use and would not be given back when it is needed: pages of files are.
    pub used: u64,
}

/// What the files of a version are called.
struct Names {
    limit: &'static str,
    used: &'static str,
    /// Of memory.stat: pages of files, which the kernel can drop.
    files: [&'static str; 2],
}

const V2: Names = Names { limit: "memory.max", used: "memory.current", files: ["inactive_file ", "active_file "] };
const V1: Names = Names {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    files: ["total_inactive_file ", "total_active_file "],
};

impl Cgroup {
    /// `root` stands for `/`. A group's own limit may be wide and that of one above it narrow.
    pub(super) fn tightest(root: &Path) -> Option<Cgroup> {
        let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
        let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
        let found = groups.lines().filter_map(|line| {
            // "4:memory:/path" of version 1, "0::/path" of version 2.
            let mut parts = line.splitn(3, ':');
            let (controllers, path) = (parts.nth(1)?, parts.next()?);
            let names = match controllers {
                "" => &V2,
                _ if controllers.split(',').any(|controller| controller == "memory") => &V1,
                _ => return None,
            };
            let (top, own) = folder(&mounts, root, path, controllers.is_empty())?;
            own.ancestors().take_while(|folder| folder.starts_with(&top)).filter_map(|at| names.read(at)).min_by_key(by)
        });
        found.min_by_key(by)
    }
}

fn by(group: &Cgroup) -> u64 {
    group.limit
}

impl Names {
    fn read(&self, folder: &Path) -> Option<Cgroup> {
        let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
        let limit = read(self.limit)?.trim().parse().ok().filter(|limit| (1..NO_LIMIT).contains(limit))?;
        let used: u64 = read(self.used).and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        let stat = read("memory.stat").unwrap_or_default();
        let number = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        let files = self.files.iter().filter_map(|name| number(name)).sum();
        Some(Cgroup { folder: folder.into(), limit, used: used.saturating_sub(files) })
    }
}

/// Where the hierarchy is mounted, and the folder of this process's group in it. A container sees the paths of its host
/// in /proc/self/cgroup and only its own part of the tree.
fn folder(mounts: &str, root: &Path, path: &str, version_2: bool) -> Option<(PathBuf, PathBuf)> {
    let mount = mounts.lines().find_map(|line| {
        // "36 35 98:0 /root /mount/point options tags - type source options", proc(5).
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        let fits = if version_2 {
            kind == "cgroup2"
        } else {
            kind == "cgroup" && options.split(',').any(|option| option == "memory")
        };
        let mut before = before.split(' ').skip(3);
        fits.then_some((before.next()?, before.next()?))
    });
    let (mounted, point) = mount?;
    let top = root.join(point.trim_start_matches('/'));
    let within = Path::new(path).strip_prefix(mounted).unwrap_or(Path::new(""));
    let own = top.join(within);
    Some((top.clone(), if own.is_dir() { own } else { top }))
}
