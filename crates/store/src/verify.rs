//! Reads LMDB's file from end to end before LMDB maps it, since LMDB believes what it reads: a page number that points
//! nowhere, or a file that was cut off, would end the process. Every page that is in use has to be where it belongs,
//! hold what its kind holds, in order, and belong to one place only. It never writes, and skips the large values: those
//! have checksums of their own.

use std::{fs::File, os::unix::fs::FileExt};

/// What is wrong with the file, in words.
pub type Damage = &'static str;

const HEADER: usize = 16;
const NODE: usize = 8;
const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const OVERFLOW: u16 = 0x04;
const META: u16 = 0x08;
/// A node whose value lies on pages of its own.
const BIG: u16 = 0x01;
const MAGIC: u32 = 0xBEEF_C0DE;
const DATA_VERSION: u32 = 1;
const INTEGER_KEY: u16 = 0x08;
/// How the environment was opened, which LMDB keeps in the same place: as a file instead of a folder.
const ONE_FILE: u16 = 0x4000;
const NO_PAGE: u64 = u64::MAX;
const MAX_DEPTH: u16 = 32;

/// Gets a key, and its value if that lies beside it.
pub type Entry<'a> = dyn FnMut(&[u8], Option<&[u8]>) + 'a;

/// Shows each entry to `entry`, its value if it lies beside the key. `limit`: bytes that the file has at most, if it is
/// ours.
pub fn verify(file: &File, limit: u64, entry: &mut Entry<'_>) -> Result<(), Damage> {
    let length = file.metadata().map_err(|_| "it cannot be read")?.len();
    let first = Meta::read(file, 0)?;
    let second = Meta::read(file, first.page)?;
    if first.page != second.page {
        return Err("its heads differ");
    }
    // A fresh one has two heads of number 0; each commit writes the other head.
    let (older, newer) = if first.txn < second.txn { (&first, &second) } else { (&second, &first) };
    let successive = newer.txn == older.txn + 1 && newer.txn % 2 == u64::from(newer.txn == second.txn);
    if !(successive || newer.txn == 0) {
        return Err("its heads do not follow each other");
    }
    let pages = newer.last.checked_add(1).ok_or("its head counts too many pages")?;
    if pages > limit.max(length) / newer.page {
        return Err("its head counts too many pages");
    }
    let size = newer.page as usize;
    let mut walk = Walk { file, size, length, pages, used: vec![0; (pages / 64 + 1) as usize], entry, free: false };
    walk.mark(0)?;
    walk.mark(1)?;
    let [free, main] = newer.trees;
    if free.flags & !ONE_FILE != INTEGER_KEY || main.flags != 0 {
        return Err("its trees are of another kind");
    }
    walk.tree(&main)?;
    walk.free = true;
    walk.tree(&free)
}

/// Whether the file is LMDB's at all, sound or not.
pub fn is_lmdb(file: &File) -> bool {
    let mut bytes = [0; 24];
    file.read_exact_at(&mut bytes, 0).is_ok() && u32_at(&bytes, 16) == Some(MAGIC)
}

/// Looks only at the heads, and whether the file is as long as they say: what can be done for a large file each time.
pub fn heads(file: &File) -> Result<(), Damage> {
    let length = file.metadata().map_err(|_| "it cannot be read")?.len();
    let first = Meta::read(file, 0)?;
    let second = Meta::read(file, first.page)?;
    let last = if first.txn < second.txn { second.last } else { first.last };
    let needed =
        last.checked_add(1).and_then(|pages| pages.checked_mul(first.page)).ok_or("its head counts too many pages")?;
    if first.page == second.page && needed <= length {
        Ok(())
    } else {
        Err("it is cut off")
    }
}

struct Meta {
    page: u64,
    trees: [Tree; 2],
    last: u64,
    txn: u64,
}

#[derive(Clone, Copy)]
struct Tree {
    flags: u16,
    depth: u16,
    root: u64,
    counts: Counts,
}

#[derive(Clone, Copy, Default, PartialEq)]
struct Counts {
    branches: u64,
    leaves: u64,
    overflow: u64,
    entries: u64,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

impl Meta {
    fn read(file: &File, at: u64) -> Result<Meta, Damage> {
        let mut bytes = [0; 152];
        file.read_exact_at(&mut bytes, at).map_err(|_| "it is cut off")?;
        Meta::parse(&bytes).ok_or("its head is none of LMDB's")
    }

    fn parse(bytes: &[u8]) -> Option<Meta> {
        let ours = u16_at(bytes, 10)? == META && u32_at(bytes, 16)? == MAGIC && u32_at(bytes, 20)? == DATA_VERSION;
        let page = u64::from(u32_at(bytes, 40)?);
        let sound = page.is_power_of_two() && (512..=65_536).contains(&page);
        let trees = [Tree::parse(bytes, 40)?, Tree::parse(bytes, 88)?];
        (ours && sound).then_some(Meta { page, trees, last: u64_at(bytes, 136)?, txn: u64_at(bytes, 144)? })
    }
}

impl Tree {
    fn parse(bytes: &[u8], at: usize) -> Option<Tree> {
        Some(Tree {
            flags: u16_at(bytes, at + 4)?,
            depth: u16_at(bytes, at + 6)?,
            counts: Counts {
                branches: u64_at(bytes, at + 8)?,
                leaves: u64_at(bytes, at + 16)?,
                overflow: u64_at(bytes, at + 24)?,
                entries: u64_at(bytes, at + 32)?,
            },
            root: u64_at(bytes, at + 40)?,
        })
    }
}

struct Walk<'a> {
    file: &'a File,
    size: usize,
    length: u64,
    pages: u64,
    /// A bit for each page that has been seen somewhere.
    used: Vec<u64>,
    entry: &'a mut Entry<'a>,
    /// This is the tree of free pages.
    free: bool,
}

/// Keys between which a page's keys lie: from the first on, before the second.
type Bounds<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

impl Walk<'_> {
    fn mark(&mut self, number: u64) -> Result<(), Damage> {
        if number >= self.pages {
            return Err("it names a page that is not there");
        }
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if self.used[word] & bit != 0 {
            return Err("a page is in two places");
        }
        self.used[word] |= bit;
        Ok(())
    }

    fn read(&mut self, number: u64, bytes: &mut [u8]) -> Result<(), Damage> {
        self.mark(number)?;
        self.file.read_exact_at(bytes, number * self.size as u64).map_err(|_| "it is cut off")
    }

    fn tree(&mut self, tree: &Tree) -> Result<(), Damage> {
        let mut counts = Counts::default();
        if tree.root != NO_PAGE {
            if !(1..=MAX_DEPTH).contains(&tree.depth) {
                return Err("a tree is too deep");
            }
            self.page(tree.root, tree.depth, (None, None), &mut counts)?;
        }
        if counts != tree.counts {
            return Err("its head counts wrongly");
        }
        Ok(())
    }

    fn page(&mut self, number: u64, depth: u16, bounds: Bounds<'_>, counts: &mut Counts) -> Result<(), Damage> {
        const BAD: Damage = "a page is no page of a tree";
        let mut page = vec![0; self.size];
        self.read(number, &mut page)?;
        let flags = if depth == 1 { LEAF } else { BRANCH };
        let (lower, upper) = (u16_at(&page, 12).ok_or(BAD)? as usize, u16_at(&page, 14).ok_or(BAD)? as usize);
        let in_order = HEADER <= lower && lower <= upper && upper <= self.size && lower % 2 == 0;
        if u64_at(&page, 0) != Some(number) || u16_at(&page, 10) != Some(flags) || !in_order {
            return Err(BAD);
        }
        let nodes: Vec<Node<'_>> = (HEADER..lower)
            .step_by(2)
            .map(|at| {
                let at = u16_at(&page, at)? as usize;
                Node::parse(&page, at, flags).filter(|_| at >= upper && at % 2 == 0)
            })
            .collect::<Option<_>>()
            .ok_or(BAD)?;
        let room: usize = nodes.iter().map(|node| node.room).sum();
        let least = if depth == 1 { 1 } else { 2 };
        if room != self.size - upper || nodes.len() < least {
            return Err(BAD);
        }
        // The first key of a branch stands for everything before the second.
        let keys = || nodes.iter().skip(if depth == 1 { 0 } else { 1 }).map(|node| node.key);
        let ascending = keys().zip(keys().skip(1)).all(|(one, next)| self.before(one, next));
        let within = keys().all(|key| {
            bounds.0.is_none_or(|from| !self.before(key, from)) && bounds.1.is_none_or(|to| self.before(key, to))
        });
        let sized = !self.free || keys().all(|key| key.len() == 8);
        if !(ascending && within && sized) {
            return Err("its keys are out of order");
        }
        if depth == 1 {
            counts.leaves += 1;
            counts.entries += nodes.len() as u64;
            return nodes.iter().try_for_each(|node| self.leaf(node, counts));
        }
        counts.branches += 1;
        for (index, node) in nodes.iter().enumerate() {
            let from = if index == 0 { bounds.0 } else { Some(node.key) };
            let to = nodes.get(index + 1).map(|next| next.key).or(bounds.1);
            self.page(node.child, depth - 1, (from, to), counts)?;
        }
        Ok(())
    }

    fn before(&self, one: &[u8], other: &[u8]) -> bool {
        match (self.free, u64_at(one, 0), u64_at(other, 0)) {
            (true, Some(one), Some(other)) => one < other,
            _ => one < other,
        }
    }

    fn leaf(&mut self, node: &Node<'_>, counts: &mut Counts) -> Result<(), Damage> {
        if let Some((first, length)) = node.big {
            self.large(first, length, counts)?;
            if self.free {
                let mut value = vec![0; length];
                let at = first * self.size as u64 + HEADER as u64;
                self.file.read_exact_at(&mut value, at).map_err(|_| "it is cut off")?;
                return self.free_pages(&value);
            }
            (self.entry)(node.key, None);
            return Ok(());
        }
        if self.free {
            self.free_pages(node.value)
        } else {
            (self.entry)(node.key, Some(node.value));
            Ok(())
        }
    }

    /// A value on pages of its own.
    fn large(&mut self, first: u64, length: usize, counts: &mut Counts) -> Result<(), Damage> {
        let mut head = [0; HEADER];
        self.read(first, &mut head)?;
        let needed = ((HEADER - 1 + length) / self.size + 1) as u64;
        // One that was written twice in a transaction may have more pages than it needs.
        let pages = u32_at(&head, 12).map_or(0, u64::from);
        if u64_at(&head, 0) != Some(first) || u16_at(&head, 10) != Some(OVERFLOW) || pages < needed {
            return Err("a value is not where it should be");
        }
        (first + 1..first.saturating_add(pages)).try_for_each(|number| self.mark(number))?;
        if (first + pages) * self.size as u64 > self.length {
            return Err("it is cut off");
        }
        counts.overflow += pages;
        Ok(())
    }

    /// A list of free pages: its length, and their numbers from the last to the first.
    fn free_pages(&mut self, list: &[u8]) -> Result<(), Damage> {
        const BAD: Damage = "its list of free pages makes no sense";
        let count = u64_at(list, 0).ok_or(BAD)?;
        if count > (list.len() as u64 / 8).saturating_sub(1) {
            return Err(BAD);
        }
        let mut last = NO_PAGE;
        for index in 1..=count as usize {
            let number = u64_at(list, index * 8).ok_or(BAD)?;
            if number >= last {
                return Err(BAD);
            }
            last = number;
            self.mark(number)?;
        }
        Ok(())
    }
}

struct Node<'a> {
    key: &'a [u8],
    value: &'a [u8],
    /// First page and bytes of a value that lies elsewhere.
    big: Option<(u64, usize)>,
    child: u64,
    /// Bytes that it takes within its page.
    room: usize,
}

impl<'a> Node<'a> {
    fn parse(page: &'a [u8], at: usize, kind: u16) -> Option<Node<'a>> {
        let low = u64::from(u16_at(page, at)?) | u64::from(u16_at(page, at + 2)?) << 16;
        let flags = u16_at(page, at + 4)?;
        let key_length = u16_at(page, at + 6)? as usize;
        let key = page.get(at + NODE..at + NODE + key_length)?;
        let after = at + NODE + key_length;
        if kind == BRANCH {
            let child = low | u64::from(flags) << 32;
            return Some(Node { key, value: &[], big: None, child, room: even(NODE + key_length) });
        }
        let length = usize::try_from(low).ok()?;
        let (value, big) = match flags {
            0 => (page.get(after..after.checked_add(length)?)?, None),
            BIG => (page.get(after..after + 8)?, Some((u64_at(page, after)?, length))),
            _ => return None,
        };
        Some(Node { key, value, big, child: 0, room: even(NODE + key_length + value.len()) })
    }
}

fn even(length: usize) -> usize {
    length + length % 2
}
