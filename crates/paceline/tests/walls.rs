//! The rooms of the front form a directed acyclic graph: each uses only rooms below it in `walls/table.rs`. So do the
//! crates. It reads the syntax tree, so a grouped, nested, relative or inline path counts as much as a `use` of its
//! own. Unit tests may use anything.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::{
    parse::Parser,
    punctuated::Punctuated,
    visit::{self, Visit},
    Token, UseTree,
};

#[path = "walls/table.rs"]
mod table;

/// By which room which one is used, and where.
type Uses = BTreeMap<(String, String), Vec<String>>;

/// What stands for the root itself, as in `use crate::*`: nobody can tell from it which rooms are used.
const EVERYTHING: &str = "*";

/// The room that a path from the root leads to: the longest one of the table, or a name that is not there. None: the
/// root itself.
fn room_of(path: &[String]) -> Option<String> {
    let depth = if path.len() > 1 && table::GROUPS.contains(&path[0].as_str()) { 2 } else { 1 };
    let nested = path.get(..2).map(|two| two.join("::")).filter(|two| table::NESTED.contains(&two.as_str()));
    nested.or_else(|| Some(path.get(..depth)?.join("::")))
}

/// Reads one module, and notes which rooms its paths lead to.
struct Reader<'a> {
    /// From the root: `caching`, `disk`.
    module: Vec<String>,
    /// What leads to the root beside `crate`: the library's name, in the program.
    library: Option<&'a str>,
    found: BTreeSet<(String, usize)>,
    /// Modules that are in files of their own, and whether they are tests.
    children: Vec<(Vec<String>, bool)>,
}

impl Reader<'_> {
    /// The path from the root. None: it does not lead there, or only into another crate.
    fn resolve(&self, path: &[String]) -> Option<Vec<String>> {
        let mut resolved = match path.first()?.as_str() {
            "crate" => Vec::new(),
            first if Some(first) == self.library => Vec::new(),
            "self" => self.module.clone(),
            "super" => self.module[..self.module.len().checked_sub(1)?].to_vec(),
            _ => return None,
        };
        for segment in &path[1..] {
            match segment.as_str() {
                "super" => drop(resolved.pop()),
                "self" => {}
                name => resolved.push(name.to_owned()),
            }
        }
        Some(resolved)
    }

    fn note(&mut self, path: &[String], span: Span) {
        let Some(room) = self.resolve(path).and_then(|path| room_of(&path)) else { return };
        if Some(&room) != room_of(&self.module).as_ref() {
            self.found.insert((room, span.start().line));
        }
    }

    fn follow(&mut self, tree: &UseTree, before: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.follow(&path.tree, before);
                before.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.follow(tree, before)),
            UseTree::Glob(star) => self.end_at(before, EVERYTHING, star.star_token.spans[0]),
            UseTree::Name(name) => self.end_at(before, &name.ident.to_string(), name.ident.span()),
            UseTree::Rename(rename) => self.end_at(before, &rename.ident.to_string(), rename.ident.span()),
        }
    }

    fn end_at(&mut self, before: &[String], last: &str, span: Span) {
        let path: Vec<String> = before.iter().cloned().chain([last.to_owned()]).collect();
        match self.resolve(&path) {
            // `use crate as root` and `use crate::{self as root}`.
            Some(resolved) if resolved.is_empty() => drop(self.found.insert((EVERYTHING.into(), span.start().line))),
            _ => self.note(&path, span),
        }
    }

    /// Paths within a macro, whose tokens are no syntax tree yet.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is_colon = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => self.read_tokens(group.stream()),
                TokenTree::Ident(first) => {
                    let mut path = vec![first.to_string()];
                    while is_colon(at + 1) && is_colon(at + 2) {
                        match tokens.get(at + 3) {
                            Some(TokenTree::Ident(next)) => path.push(next.to_string()),
                            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                                let trees = Punctuated::<UseTree, Token![,]>::parse_terminated.parse2(group.stream());
                                trees.iter().flatten().for_each(|tree| self.follow(tree, &mut path.clone()));
                                path.clear();
                            }
                            _ => break,
                        }
                        at += 3;
                    }
                    self.note(&path, first.span());
                }
                _ => {}
            }
            at += 1;
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Const(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Macro(item) => &item.attrs,
            syn::Item::Static(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module.push(item.ident.to_string());
        match &item.content {
            None => self.children.push((self.module.clone(), is_test(&item.attrs))),
            Some(_) if is_test(&item.attrs) => {}
            Some(_) => visit::visit_item_mod(self, item),
        }
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.follow(&item.tree, &mut Vec::new());
    }

    fn visit_item_extern_crate(&mut self, item: &'ast syn::ItemExternCrate) {
        self.end_at(&["crate".into()], &item.ident.to_string(), item.ident.span());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.note(&names, path.segments[0].ident.span());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.read_tokens(called.tokens.clone());
        visit::visit_macro(self, called);
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

/// Which rooms a text uses that is the module `module`.
fn uses_of(text: &str, module: &[&str], library: Option<&str>) -> BTreeSet<(String, usize)> {
    read(text, module.iter().map(|&name| name.to_owned()).collect(), library).found
}

fn read<'a>(text: &str, module: Vec<String>, library: Option<&'a str>) -> Reader<'a> {
    let mut reader = Reader { module, library, found: BTreeSet::new(), children: Vec::new() };
    reader.visit_file(&syn::parse_file(text).expect("sources that the compiler takes"));
    reader
}

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The file of a module: `a/b.rs`, or `a/b/mod.rs`.
fn file_of(module: &[String]) -> PathBuf {
    let stem = src().join(module.iter().collect::<PathBuf>());
    [stem.with_extension("rs"), stem.join("mod.rs")].into_iter().find(|file| file.is_file()).expect("the module's file")
}

/// All uses of rooms by rooms, outside of unit tests. `lib` and `main` count as rooms.
fn uses_between_rooms() -> Uses {
    let mut uses = Uses::new();
    let mut waiting = vec![(vec!["lib".to_owned()], None), (vec!["main".to_owned()], Some("paceline"))];
    while let Some((module, library)) = waiting.pop() {
        let file = file_of(&module);
        let text = fs::read_to_string(&file).unwrap();
        let root = ["lib", "main"].contains(&module[0].as_str());
        let reader = read(&text, if root { Vec::new() } else { module.clone() }, library);
        waiting.extend(reader.children.into_iter().filter(|(_, test)| !test).map(|(child, _)| (child, None)));
        for (room, line) in reader.found {
            let place = format!("{}:{line}", file.strip_prefix(src()).unwrap().display());
            uses.entry((room_of(&module).expect("a module below the root"), room)).or_default().push(place);
        }
    }
    uses
}

#[test]
fn rooms_use_only_rooms_below_them() {
    let uses = uses_between_rooms();
    assert!(uses.len() > 200, "the sources are not where this test looks");
    let rooms: Vec<&str> = table::ROOMS.iter().flat_map(|layer| layer.split_whitespace()).collect();
    let height = |room: &str| rooms.iter().position(|&name| name == room);
    let mut complaints = Vec::new();
    for ((room, used), places) in &uses {
        let places = places.join(", ");
        match (height(room), height(used)) {
            (Some(user), Some(used)) if used < user => {}
            (Some(_), Some(_)) => complaints.push(format!(
                "`{room}` uses `{used}`, which is above it ({places}): hand it what it needs, or move what both need below"
            )),
            (Some(_), None) => complaints.push(format!("`{room}` uses `{used}`, which is no room of the table ({places})")),
            (None, _) => complaints.push(format!("`{room}` is no room of tests/walls/table.rs ({places})")),
        }
    }
    let used = |room: &str| uses.keys().any(|(user, used)| user == room || used == room);
    let gone = rooms.iter().filter(|room| !used(room));
    complaints.extend(gone.map(|room| format!("`{room}` is in tests/walls/table.rs, and no module uses it or is it")));
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
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
        let found = uses_of(text, &["caching"], None);
        assert!(found.iter().any(|(room, _)| room == "dispatch"), "{text}: {found:?}");
    }
    for text in ["use crate::*;", "use crate as root;", "use crate::{self as root};", "extern crate self as root;"] {
        let found = uses_of(text, &["caching"], None);
        assert!(found.iter().any(|(room, _)| room == EVERYTHING), "{text}: {found:?}");
    }
    assert_eq!(uses_of("fn main() {\n paceline::cli::main() }", &[], Some("paceline")), [("cli".into(), 2)].into());
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
        assert_eq!(uses_of(text, &["caching", "disk"], None), BTreeSet::new(), "{text}");
    }
}

#[test]
fn crates_use_only_the_crates_that_the_table_allows() {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = fs::read_dir(checkout.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let mut found = Vec::new();
    for folder in folders.chain([checkout.join("fuzz")]) {
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        let manifest: toml_edit::DocumentMut = manifest.parse().unwrap();
        let mut used = BTreeSet::new();
        let targets = manifest.get("target").and_then(|all| all.as_table_like());
        let targets = targets.into_iter().flat_map(|all| all.iter()).filter_map(|(_, item)| item.as_table_like());
        for table in targets.chain([manifest.as_table() as &dyn toml_edit::TableLike]) {
            for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
                let own = table.get(kind).and_then(|all| all.as_table_like()).into_iter().flat_map(|all| all.iter());
                used.extend(own.filter(|(_, item)| item.get("path").is_some()).map(|(name, _)| name.to_owned()));
            }
        }
        let name = manifest["package"]["name"].as_str().unwrap().to_owned();
        found.push((name, used.into_iter().collect::<Vec<_>>().join(" ")));
    }
    found.sort();
    let allowed: Vec<_> = table::CRATES.iter().map(|&(name, used)| (name.to_owned(), used.to_owned())).collect();
    assert_eq!(
        found, allowed,
        "the crates of the workspace that each crate uses, and what tests/walls/table.rs allows"
    );
}
