//! What memory there is: the machine's, or what a control group (a container, a systemd unit) may have of it.
//! It never decides what that is enough for.

use std::{fs, path::Path};

use super::Cgroup;

/// One reading; all in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// RAM that the kernel manages: MemTotal of /proc/meminfo.
    pub total: u64,
    /// What new processes could have without swapping: MemAvailable, which counts what caches would give back.
    pub available: u64,
    pub swap_total: u64,
    pub swap_free: u64,
    /// The control group that bounds this process most tightly, if one does.
    pub cgroup: Option<Cgroup>,
}

impl Machine {
    /// None: the kernel does not tell.
    pub fn now() -> Option<Machine> {
        Machine::at(Path::new("/"))
    }

    /// The machine as the files below another root say, which stands for `/`.
    fn at(root: &Path) -> Option<Machine> {
        let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
        };
        Some(Machine {
            total: field("MemTotal")?,
            available: field("MemAvailable").or_else(|| field("MemFree"))?,
            swap_total: field("SwapTotal").unwrap_or(0),
            swap_free: field("SwapFree").unwrap_or(0),
            cgroup: Cgroup::tightest(root),
        })
    }

    /// What all processes of the server may have together: the smaller of RAM and the control group's limit.
    pub fn limit(&self) -> u64 {
        self.cgroup.as_ref().map_or(self.total, |cgroup| cgroup.limit.min(self.total))
    }

    /// What is left of it now for more.
    pub fn left(&self) -> u64 {
        let of_cgroup = self.cgroup.as_ref().map_or(u64::MAX, |cgroup| cgroup.limit.saturating_sub(cgroup.used));
        self.available.min(of_cgroup)
    }

    /// Whose limit counts, in words.
    pub fn bound_by(&self) -> &'static str {
        match &self.cgroup {
            Some(cgroup) if cgroup.limit < self.total => "this control group",
            _ => "this machine",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "\
MemTotal:        2048000 kB
MemFree:          100000 kB
MemAvailable:    1024000 kB
SwapTotal:        512000 kB
SwapFree:         511000 kB
";

    fn root(name: &str, files: &[(&str, &str)]) -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("paceline-machine-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn looked(name: &str, files: &[(&str, &str)]) -> Machine {
        let root = root(name, &[files, &[("proc/meminfo", MEMINFO)]].concat());
        let machine = Machine::at(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        machine
    }

    #[test]
    fn without_a_control_group_the_machine_counts() {
        let machine = looked("bare", &[]);
        assert_eq!((machine.limit(), machine.left()), (2_048_000 << 10, 1_024_000 << 10));
        assert_eq!((machine.swap_total, machine.swap_free), (512_000 << 10, 511_000 << 10));
        assert_eq!(machine.bound_by(), "this machine");
        assert_eq!(Machine::at(Path::new("/nowhere")), None);
        assert!(Machine::now().unwrap().limit() > 0);
    }

    #[test]
    fn of_version_2_the_tightest_on_the_way_up() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
        let machine = looked(
            "v2",
            &[
                ("proc/self/mountinfo", mounts),
                ("proc/self/cgroup", "0::/app.slice/shop.service\n"),
                ("sys/fs/cgroup/app.slice/shop.service/memory.max", "max\n"),
                ("sys/fs/cgroup/app.slice/memory.max", "536870912\n"),
                ("sys/fs/cgroup/app.slice/memory.current", "300000000\n"),
                ("sys/fs/cgroup/app.slice/memory.stat", "anon 1\ninactive_file 99999995\nactive_file 5\n"),
            ],
        );
        let cgroup = machine.cgroup.as_ref().unwrap();
        assert_eq!((cgroup.limit, cgroup.used), (512 << 20, 200_000_000));
        assert!(cgroup.folder.ends_with("app.slice"));
        assert_eq!((machine.limit(), machine.left()), (512 << 20, (512 << 20) - 200_000_000));
        assert_eq!(machine.bound_by(), "this control group");
    }

    #[test]
    fn of_version_1_and_of_a_container_that_sees_only_its_own() {
        let mounts = "\
40 30 0:31 /docker/abc /sys/fs/cgroup/memory rw,nosuid master:12 - cgroup cgroup rw,memory
41 30 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
";
        let files = [
            ("proc/self/mountinfo", mounts),
            ("proc/self/cgroup", "7:cpu:/x\n4:memory:/docker/abc\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "90000000\n"),
            ("sys/fs/cgroup/memory/memory.stat", "cache 3\ninactive_file 1\ntotal_inactive_file 40000000\n"),
        ];
        let cgroup = looked("v1", &files).cgroup.unwrap();
        assert_eq!((cgroup.limit, cgroup.used), (256 << 20, 50_000_000));
    }

    #[test]
    fn a_limit_that_is_none() {
        let mounts = "40 30 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let unbound = [
            ("proc/self/mountinfo", mounts),
            ("proc/self/cgroup", "4:memory:/a\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        assert_eq!(looked("unbound", &unbound).cgroup, None);
        let machine =
            Machine { total: 5, cgroup: Some(Cgroup { limit: 9, ..Cgroup::default() }), ..Machine::default() };
        assert_eq!((machine.limit(), machine.bound_by()), (5, "this machine"));
    }
}
