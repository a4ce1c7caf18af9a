//! Which paths of its own crate a module names. It reads the syntax tree, so a grouped, nested, relative or inline path
//! counts as much as a `use` of its own. Unit tests are passed over.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::{
    parse::Parser,
    punctuated::Punctuated,
    visit::{self, Visit},
    Token, UseTree,
};

/// What stands for all that a module has, as in `use crate::*`.
pub const EVERYTHING: &str = "*";

/// Reads one module.
pub struct Reader<'a> {
    /// From the root: `caching`, `disk`.
    module: Vec<String>,
    /// What leads to the root beside `crate`: the library's name, in the program.
    library: Option<&'a str>,
    /// The paths from the root that it names, and in which lines.
    pub found: BTreeSet<(Vec<String>, usize)>,
    /// Modules that are in files of their own, and whether they are tests.
    pub children: Vec<(Vec<String>, bool)>,
}

/// Reads the text of a module.
pub fn read<'a>(text: &str, module: Vec<String>, library: Option<&'a str>) -> Reader<'a> {
    let mut reader = Reader { module, library, found: BTreeSet::new(), children: Vec::new() };
    reader.visit_file(&syn::parse_file(text).expect("sources that the compiler takes"));
    reader
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
        if let Some(path) = self.resolve(path).filter(|path| !path.is_empty()) {
            self.found.insert((path, span.start().line));
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
            Some(resolved) if resolved.is_empty() => {
                self.found.insert((vec![EVERYTHING.into()], span.start().line));
            }
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
