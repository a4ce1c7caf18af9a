//! The memory of one process, as /proc tells it. RSS counts each page that forked processes share once for each of
//! them; what a process really costs is what it has for itself.
//! It never keeps a reading.

use std::{fs, iter::Sum, ops::Add, path::Path};

/// One reading; all in bytes. Fields are the kernel's own (proc(5), smaps_rollup) added up as said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Addresses in use, most of which are no memory.
    pub virt: u64,
    /// Pages in memory, shared ones included.
    pub rss: u64,
    /// Pages in memory, each shared one divided by those who share it.
    pub pss: u64,
    /// What the process alone has and would be free without it: Private_Dirty and Private_Hugetlb.
    pub private_dirty: u64,
    /// Pages that nobody else uses and that are on disk as well.
    pub private_clean: u64,
    /// Pages that others use, too: of a forked worker above all what it still shares with its preloader.
    pub shared: u64,
    pub swap: u64,
    /// Pages in swap, each shared one divided by those who share it.
    pub swap_pss: u64,
}

impl Memory {
    /// Of a process at this moment. None: there is none, or it is not ours to look at.
    pub fn of(pid: i32) -> Option<Memory> {
        Memory::at(Path::new(&format!("/proc/{pid}")))
    }

    fn at(folder: &Path) -> Option<Memory> {
        let read = |name: &str| fs::read_to_string(folder.join(name)).ok().filter(|text| !text.is_empty());
        // Kernels before 4.14, and some containers, have no sum: then every mapping is added up here.
        let mut memory = Memory::parse(&read("smaps_rollup").or_else(|| read("smaps"))?);
        let status = read("status")?;
        memory.virt = status.lines().find_map(|line| kilobytes(line.strip_prefix("VmSize:")?))?;
        Some(memory)
    }

    /// Adds up the lines of smaps or of smaps_rollup.
    fn parse(text: &str) -> Memory {
        let mut memory = Memory::default();
        for line in text.lines() {
            let Some((name, rest)) = line.split_once(':') else { continue };
            let Some(bytes) = kilobytes(rest) else { continue };
            let field = match name {
                "Rss" => &mut memory.rss,
                "Pss" => &mut memory.pss,
                "Private_Dirty" | "Private_Hugetlb" => &mut memory.private_dirty,
                "Private_Clean" => &mut memory.private_clean,
                "Shared_Clean" | "Shared_Dirty" | "Shared_Hugetlb" => &mut memory.shared,
                "Swap" => &mut memory.swap,
                "SwapPss" => &mut memory.swap_pss,
                _ => continue,
            };
            *field = field.saturating_add(bytes);
        }
        memory
    }

    /// What goes when the process goes: its private pages, in memory or swapped out.
    pub fn own(&self) -> u64 {
        self.private_dirty + self.swap_pss
    }
}

/// Pages of a process in memory, shared ones included, in bytes: what can be had without the kernel looking at each
/// page.
pub fn resident(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| kilobytes(line.strip_prefix("VmRSS:")?))
}

/// "  12 kB" in bytes.
fn kilobytes(text: &str) -> Option<u64> {
    text.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

impl Add for Memory {
    type Output = Memory;

    fn add(self, other: Memory) -> Memory {
        Memory {
            virt: self.virt + other.virt,
            rss: self.rss + other.rss,
            pss: self.pss + other.pss,
            private_dirty: self.private_dirty + other.private_dirty,
            private_clean: self.private_clean + other.private_clean,
            shared: self.shared + other.shared,
            swap: self.swap + other.swap,
            swap_pss: self.swap_pss + other.swap_pss,
        }
    }
}

impl Sum for Memory {
    fn sum<I: Iterator<Item = Memory>>(all: I) -> Memory {
        all.fold(Memory::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLLUP: &str = "\
55d3c0a00000-7ffd3c5f9000 ---p 00000000 00:00 0                          [rollup]
Rss:               90000 kB
Pss:               41000 kB
Pss_Dirty:         40500 kB
Shared_Clean:       6000 kB
Shared_Dirty:      44000 kB
Private_Clean:      1000 kB
Private_Dirty:     39000 kB
Swap:                300 kB
SwapPss:             100 kB
Private_Hugetlb:    2048 kB
Locked:                0 kB
";

    #[test]
    fn a_sum_of_the_kernel_s() {
        let kilobytes = |number: u64| number << 10;
        let memory = Memory::parse(ROLLUP);
        let told = Memory {
            virt: 0,
            rss: kilobytes(90_000),
            pss: kilobytes(41_000),
            private_dirty: kilobytes(41_048),
            private_clean: kilobytes(1_000),
            shared: kilobytes(50_000),
            swap: kilobytes(300),
            swap_pss: kilobytes(100),
        };
        assert_eq!(memory, told);
        assert_eq!([memory, memory].into_iter().sum::<Memory>().own(), 2 * kilobytes(41_148));
    }

    #[test]
    fn a_kernel_without_the_sum_has_every_mapping() {
        let folder = std::env::temp_dir().join(format!("paceline-accounting-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("status"), "Name:\truby\nVmSize:\t    4000 kB\n").unwrap();
        assert_eq!(Memory::at(&folder), None);
        let mapping = "00400000-00500000 r-xp 00000000 fe:00 1 /usr/bin/ruby: 3 kB\nRss: 8 kB\nPrivate_Dirty: 4 kB\nVmFlags: rd\n";
        fs::write(folder.join("smaps"), mapping.repeat(3)).unwrap();
        let memory = Memory::at(&folder).unwrap();
        assert_eq!((memory.rss, memory.private_dirty), (24 << 10, 12 << 10));
        assert_eq!(memory.virt, 4000 << 10);
        fs::write(folder.join("smaps_rollup"), ROLLUP).unwrap();
        assert_eq!(Memory::at(&folder).unwrap().rss, 90_000 << 10);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn this_process_has_some_and_one_that_is_gone_none() {
        let held = std::hint::black_box(vec![7_u8; 32 << 20]);
        let memory = Memory::of(std::process::id() as i32).unwrap();
        assert!(memory.private_dirty >= held.len() as u64 && memory.virt > memory.rss, "{memory:?}");
        assert!(memory.private_dirty <= memory.rss && memory.pss <= memory.rss, "{memory:?}");
        assert_eq!(Memory::of(0), None);
    }
}
