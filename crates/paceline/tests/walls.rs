//! The folders of the front are rooms, and form a directed acyclic graph: each uses only rooms below it, and within each
//! folder its modules use each other in no circle. A folder's `mod.rs` belongs to the folder, not to what is in it. Unit
//! tests may use anything.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

#[path = "walls/parts.rs"]
mod parts;
#[path = "walls/reader.rs"]
mod reader;

use parts::{words, Part, PARTS};
use reader::{read, EVERYTHING};

/// The rooms, from the bottom to the top: each may use those before it.
const ROOMS: [&str; 14] = [
    "support", "observe", "content", "exchange", "caching", "cluster", "origins", "config", "apps", "request", "edge",
    "server", "doctor", "cli",
];

/// The text of each source file, by its path below `src`.
type Sources = BTreeMap<String, String>;

/// A path that a module names.
struct Use {
    user: Vec<String>,
    /// From the root.
    path: Vec<String>,
    /// File and line.
    place: String,
}

impl Use {
    fn shown(&self) -> String {
        format!("{}: `use crate::{}`", self.place, self.path.join("::"))
    }
}

fn sources(folder: &Path, below: &str, all: &mut Sources) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{below}{}", path.file_name().unwrap().to_string_lossy());
        if path.is_dir() {
            sources(&path, &format!("{name}/"), all);
        } else if name.ends_with(".rs") {
            all.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
}

/// The modules in files of their own, and the paths that they name, outside of unit tests.
fn uses_in(sources: &Sources) -> (BTreeSet<Vec<String>>, Vec<Use>) {
    let (mut modules, mut uses) = (BTreeSet::new(), Vec::new());
    let mut waiting =
        vec![("lib.rs".to_owned(), Vec::new(), None), ("main.rs".to_owned(), Vec::new(), Some("paceline"))];
    while let Some((file, module, library)) = waiting.pop() {
        let Some(text) = sources.get(&file) else { continue };
        let reader = read(text, module.clone(), library);
        for (child, _) in reader.children.into_iter().filter(|(_, is_test)| !is_test) {
            let path = child.join("/");
            let files = [format!("{path}.rs"), format!("{path}/mod.rs")];
            let file = files.into_iter().find(|file| sources.contains_key(file)).expect("the module's file");
            modules.insert(child.clone());
            waiting.push((file, child, None));
        }
        let found = reader.found.into_iter();
        uses.extend(found.map(|(path, line)| Use { user: module.clone(), path, place: format!("{file}:{line}") }));
    }
    (modules, uses)
}

/// Uses of rooms that are not below.
fn uses_upwards(uses: &[Use], rooms: &[&str]) -> Vec<String> {
    let height = |room: &str| rooms.iter().position(|&name| name == room);
    let mut complaints = Vec::new();
    for one in uses {
        // `lib.rs` and `main.rs` are above all rooms.
        let Some(user) = one.user.first().filter(|user| **user != one.path[0]) else { continue };
        let used = &one.path[0];
        match (height(user), height(used)) {
            (Some(above), Some(below)) if below < above => {}
            (Some(_), Some(_)) => complaints.push(format!("{} - {used} stands above {user}", one.shown())),
            (Some(_), None) => complaints.push(format!("{} - {used} is no room", one.shown())),
            (None, _) => complaints.push(format!("{} - {user} is no room", one.shown())),
        }
    }
    complaints
}

/// Uses by which modules of one folder use each other in a circle.
fn circles(modules: &BTreeSet<Vec<String>>, uses: &[Use]) -> Vec<String> {
    let folders: BTreeSet<&[String]> = modules.iter().map(|module| &module[..module.len() - 1]).collect();
    let mut complaints = Vec::new();
    for folder in folders.into_iter().filter(|folder| !folder.is_empty()) {
        let depth = folder.len();
        let within = |one: &&Use| {
            let (user, used) = (one.user.get(..=depth), one.path.get(..=depth));
            user != used
                && user.is_some_and(|user| user.starts_with(folder))
                && used.is_some_and(|used| modules.contains(used))
        };
        let within: Vec<&Use> = uses.iter().filter(within).filter(|one| one.path.starts_with(folder)).collect();
        let mut below: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for one in &within {
            below.entry(&one.user[depth]).or_default().insert(&one.path[depth]);
        }
        let circle = within.iter().filter(|one| leads_to(&below, &one.path[depth], &one.user[depth]));
        complaints.extend(circle.map(|one| in_circle(one, depth)));
    }
    complaints
}

fn in_circle(one: &Use, depth: usize) -> String {
    let (user, used, folder) = (&one.user[depth], &one.path[depth], one.user[..depth].join("/"));
    format!("{} - in {folder}, {used} uses {user}, too, itself or by others", one.shown())
}

fn leads_to(below: &BTreeMap<&str, BTreeSet<&str>>, from: &str, to: &str) -> bool {
    let (mut seen, mut waiting) = (BTreeSet::new(), vec![from]);
    while let Some(one) = waiting.pop() {
        if one == to {
            return true;
        }
        if seen.insert(one) {
            waiting.extend(below.get(one).into_iter().flatten());
        }
    }
    false
}

fn complaints(sources: &Sources, rooms: &[&str]) -> Vec<String> {
    let (modules, uses) = uses_in(sources);
    let top = modules.iter().filter(|module| module.len() == 1);
    let homeless = top.filter(|module| !rooms.contains(&module[0].as_str()));
    let homeless = homeless.map(|module| format!("src/{} is not in the order of tests/walls.rs", module[0]));
    let gone = rooms.iter().filter(|room| !modules.contains(&vec![room.to_string()]));
    let gone = gone.map(|room| format!("src/{room} is in the order of tests/walls.rs, but it is not there"));
    homeless.chain(gone).chain(uses_upwards(&uses, rooms)).chain(circles(&modules, &uses)).collect()
}

#[test]
fn rooms_use_only_rooms_below_them_and_modules_no_circles() {
    let mut all = Sources::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut all);
    assert!(uses_in(&all).1.len() > 2000, "the sources are not where this test looks");
    let complaints = complaints(&all, &ROOMS);
    assert!(
        complaints.is_empty(),
        "{}\nHand over what is needed, or move what both need below.",
        complaints.join("\n")
    );
}

/// The product's source files that name a part outside of its home, apart from unit tests.
fn files_that_name(part: &Part, sources: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let named = sources.iter().filter(|(file, words)| part.is_named(file, words));
    named.map(|(file, _)| file.clone()).collect()
}

#[test]
fn few_files_name_a_part_outside_of_its_home() {
    let mut all = Sources::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), "", &mut all);
    let is_product = |file: &str| {
        let is_of_tests = file.contains("/tests/") || file.ends_with("tests.rs") || file.ends_with("test_folder.rs");
        file.contains("/src/") && !is_of_tests && !file.starts_with("damage/") && !file.starts_with("bench/")
    };
    let product = all.into_iter().filter(|(file, _)| is_product(file));
    let product: BTreeMap<_, _> = product.map(|(file, text)| (file, words(&text))).collect();
    assert!(product.len() > 500, "the sources are not where this test looks");
    let mut complaints = Vec::new();
    for part in PARTS {
        let files = files_that_name(part, &product);
        println!("{}: {}\n  {}", part.name, files.len(), files.join("\n  "));
        if files.len() > part.most {
            let (name, most, count) = (part.name, part.most, files.len());
            complaints.push(format!("{name}: {count} files name it, {most} may:\n  {}", files.join("\n  ")));
        }
    }
    assert!(
        complaints.is_empty(),
        "{}\nMove what concerns a part into its home (tests/walls/parts.rs).",
        complaints.join("\n")
    );
}

#[test]
fn a_part_is_named_by_identifiers_and_texts_but_not_by_comments_and_tests() {
    let part = PARTS.iter().find(|part| part.name == "automatic page cache").unwrap();
    let named = |file: &str, text: &str| part.is_named(file, &words(text));
    for text in [
        "use crate::caching::auto_cache;",
        "struct S { auto: Option<AutoCache> }",
        "const HELP: &str = \"see [auto_cache]\";",
        "fn f() { log!(\"auto-cache: {why}\") }",
        "#[cfg(test)] use other::Thing; fn f() { auto_cache::run() }",
    ] {
        assert!(named("paceline/src/server/sites.rs", text), "{text}");
        assert!(!named("paceline/src/caching/auto/mod.rs", text), "{text}");
    }
    for text in [
        "/// See `auto_cache`.\nfn f() {} // auto_cache",
        "//! Of auto_cache.",
        "#[cfg(test)] mod tests { use crate::auto_cache; }",
        "#[cfg(test)] #[allow(dead_code)] fn f() -> [u8; 2] { auto_cache::run() }",
        "fn auto_cached_twice() {}",
    ] {
        assert!(!named("paceline/src/server/sites.rs", text), "{text}");
    }
}

/// A made-up front.
fn front(files: &[(&str, &str)]) -> Sources {
    files.iter().map(|&(file, text)| (file.to_owned(), text.to_owned())).collect()
}

/// What is complained of in a made-up front, whose rooms are `low` and `high`.
fn complaints_of(files: &[(&str, &str)]) -> Vec<String> {
    complaints(&front(files), &["low", "high"])
}

#[test]
fn a_made_up_front_without_circles_is_let_pass() {
    let files = [
        ("lib.rs", "pub mod high; pub mod low;"),
        ("main.rs", "fn main() { paceline::high::main() }"),
        ("low.rs", "pub struct Low; #[cfg(test)] mod tests { use crate::high::first::First; }"),
        ("high/mod.rs", "mod first; mod second; #[cfg(test)] mod tests; pub fn main() { second::run() }"),
        ("high/first.rs", "use crate::low::Low; pub struct First(Low);"),
        ("high/second.rs", "use super::first::First; pub fn run() { super::main() }"),
        ("high/tests.rs", "use super::second;"),
    ];
    assert_eq!(complaints_of(&files), Vec::<String>::new());
}

#[test]
fn a_use_of_a_room_above_is_refused() {
    let files = [
        ("lib.rs", "pub mod high; pub mod low;"),
        ("low.rs", "\nuse crate::high::High;"),
        ("high.rs", "pub struct High;"),
    ];
    assert_eq!(complaints_of(&files), ["low.rs:2: `use crate::high::High` - high stands above low"]);
    let files = [("lib.rs", "pub mod high; pub mod low;"), ("low.rs", "use crate::*;"), ("high.rs", "")];
    assert_eq!(complaints_of(&files), ["low.rs:1: `use crate::*` - * is no room"]);
}

#[test]
fn a_room_that_is_not_in_the_order_is_refused() {
    let files = [("lib.rs", "pub mod high; mod other;"), ("high.rs", "use crate::other::run;"), ("other.rs", "")];
    assert_eq!(
        complaints_of(&files),
        [
            "src/other is not in the order of tests/walls.rs",
            "src/low is in the order of tests/walls.rs, but it is not there",
            "high.rs:1: `use crate::other::run` - other is no room"
        ]
    );
}

#[test]
fn a_circle_within_a_folder_is_refused() {
    let files = [
        ("lib.rs", "pub mod high; pub mod low;"),
        ("low.rs", ""),
        ("high/mod.rs", "mod first; mod second; mod third; mod apart;"),
        ("high/first.rs", "use super::second::Second;"),
        ("high/second.rs", "fn f() { crate::high::third::run() }"),
        ("high/third/mod.rs", "mod deep;"),
        ("high/third/deep.rs", "use super::super::{apart::Apart, first};"),
        ("high/apart.rs", "pub struct Apart;"),
    ];
    assert_eq!(
        complaints_of(&files),
        [
            "high/third/deep.rs:1: `use crate::high::first` - in high, first uses third, too, itself or by others",
            "high/second.rs:1: `use crate::high::third::run` - in high, third uses second, too, itself or by others",
            "high/first.rs:1: `use crate::high::second::Second` - in high, second uses first, too, itself or by others",
        ]
    );
}

/// The rooms that a text uses which is the module `module` in `caching`, or `caching` itself.
fn rooms_used_by(module: &[&str], text: &str) -> BTreeSet<String> {
    let found = read(text, module.iter().map(|name| name.to_string()).collect(), None).found;
    found.into_iter().map(|(path, _)| path[0].clone()).filter(|room| room != "caching").collect()
}

#[test]
fn no_way_of_writing_a_path_passes_a_wall() {
    for text in [
        "use crate::dispatch::Lease;",
        "use crate::{clock, dispatch::Lease};",
        "use crate::{clock::{self, now}, exchange::{Client}, dispatch::{queue::{Queue, Line}}};",
        "use crate::dispatch as other;",
        "pub use crate::{dispatch};",
        "use super::dispatch::Lease;",
        "use self::super::dispatch::Lease;",
        "mod inner { use super::super::dispatch::Lease; }",
        "fn f() { crate::dispatch::run(); }",
        "fn f() { use crate::dispatch::run; }",
        "fn f(lease: &[Option<crate::dispatch::Lease>]) {}",
        "impl crate::dispatch::Lease {}",
        "fn f() { let _ = <crate::dispatch::Lease as Default>::default(); }",
        "fn f() { log!(\"{}\", [crate::dispatch::count()]); }",
        "fn f() { select! { _ = async { use crate::{clock, dispatch::{run}}; } => {} } }",
        "macro_rules! lease { () => { $crate::dispatch::Lease } }",
        "#[derive(Debug)] struct S { lease: crate::dispatch::Lease }",
        "pub(in crate::dispatch) fn f() {}",
    ] {
        let found = rooms_used_by(&["caching"], text);
        assert!(found.contains("dispatch"), "{text}: {found:?}");
    }
    for text in ["use crate::*;", "use crate as root;", "use crate::{self as root};", "extern crate self as root;"] {
        let found = rooms_used_by(&["caching"], text);
        assert!(found.contains(EVERYTHING), "{text}: {found:?}");
    }
    let program = read("fn main() {\n paceline::cli::main() }", Vec::new(), Some("paceline"));
    assert_eq!(program.found, [(["cli", "main"].map(String::from).into(), 2)].into());
}

#[test]
fn what_stays_within_a_room_or_a_test_passes_no_wall() {
    for text in [
        "use crate::caching::lookup;",
        "use super::Lookup;",
        "use dispatch::Lease;",
        "fn f() { let dispatch = other::dispatch::Lease; }",
        "/// See [`crate::dispatch`].\npub(crate) fn f() {}",
        "// crate::dispatch::run\nconst TEXT: &str = \"crate::dispatch::run\";",
        "#[cfg(test)] mod tests { use crate::dispatch::Lease; }",
        "#[cfg(test)] use crate::dispatch::Lease;",
        "#[cfg(test)] fn f() { crate::dispatch::run(); }",
    ] {
        assert_eq!(rooms_used_by(&["caching", "disk"], text), BTreeSet::new(), "{text}");
    }
}
