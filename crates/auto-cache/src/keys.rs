//! Finds the page that fits a request. A page is kept under the names that were read when it was made (cookies, headers,
//! parameters, keys of the session), and under their values. A lookup goes from the path to the names that any page of it
//! has read so far, and from the values that this request has of them to the page. It never guesses: a name whose value is
//! not known makes a miss.

use std::collections::HashMap;

/// Where a request has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    Cookie,
    Header,
    /// Of the query.
    Parameter,
    /// The whole query, as it was sent.
    Query,
    Session,
    /// Host, scheme, address of the client.
    Request,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    pub source: Source,
    pub name: String,
}

/// What a request has of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    Absent,
    Present(Vec<u8>),
    /// It can't be told: a session that the front has not seen.
    Unknown,
}

/// Names that one page may depend on.
pub const MAX_NAMES: usize = 32;
/// Different sets of names that the pages of one path may have.
pub const MAX_SETS: usize = 8;
/// Bytes of all values of one page.
pub const MAX_VALUES: usize = 4096;

/// Why a page can't be kept under what it read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    TooManyNames,
    TooManySets,
    ValuesTooLong,
    Unknown(Name),
}

/// The pages of one path.
#[derive(Debug)]
pub struct Variants<E> {
    sets: Vec<Set<E>>,
}

/// Names, and the pages under their values.
type Set<E> = (Vec<Name>, HashMap<Vec<u8>, E>);

impl<E> Default for Variants<E> {
    fn default() -> Self {
        Variants { sets: Vec::new() }
    }
}

impl<E> Variants<E> {
    pub fn find(&self, held: impl Fn(&Name) -> Held) -> Option<&E> {
        self.sets.iter().find_map(|(names, pages)| pages.get(&key(names, &held).ok()?))
    }

    /// Keeps the page. Returns the one that it replaces.
    pub fn insert(
        &mut self,
        mut names: Vec<Name>,
        held: impl Fn(&Name) -> Held,
        page: E,
    ) -> Result<Option<E>, Refusal> {
        names.sort();
        names.dedup();
        if names.len() > MAX_NAMES {
            return Err(Refusal::TooManyNames);
        }
        let key = key(&names, &held)?;
        if let Some((_, pages)) = self.sets.iter_mut().find(|(own, _)| *own == names) {
            return Ok(pages.insert(key, page));
        }
        if self.sets.len() == MAX_SETS {
            return Err(Refusal::TooManySets);
        }
        self.sets.push((names, HashMap::from([(key, page)])));
        Ok(None)
    }

    /// A page may be under this key of any names.
    pub fn remove(&mut self, key: &[u8], page: &E)
    where
        E: PartialEq,
    {
        for (_, pages) in &mut self.sets {
            if pages.get(key) == Some(page) {
                pages.remove(key);
            }
        }
        self.sets.retain(|(_, pages)| !pages.is_empty());
    }

    pub fn len(&self) -> usize {
        self.sets.iter().map(|(_, pages)| pages.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    pub fn all(&self) -> impl Iterator<Item = &E> {
        self.sets.iter().flat_map(|(_, pages)| pages.values())
    }

    /// What the pages vary by: each name once, and how many pages.
    pub fn names(&self) -> impl Iterator<Item = (&[Name], usize)> {
        self.sets.iter().map(|(names, pages)| (names.as_slice(), pages.len()))
    }
}

/// The values themselves, each with its length: two requests share a key only if they hold the same.
pub fn key(names: &[Name], held: impl Fn(&Name) -> Held) -> Result<Vec<u8>, Refusal> {
    let mut key = Vec::new();
    for name in names {
        match held(name) {
            Held::Absent => key.push(0),
            Held::Present(value) => {
                key.push(1);
                key.extend((value.len() as u64).to_be_bytes());
                key.extend(value);
            }
            Held::Unknown => return Err(Refusal::Unknown(name.clone())),
        }
        if key.len() > MAX_VALUES {
            return Err(Refusal::ValuesTooLong);
        }
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookie(name: &str) -> Name {
        Name { source: Source::Cookie, name: name.into() }
    }

    fn held<'a>(cookies: &'a [(&'a str, &'a str)]) -> impl Fn(&Name) -> Held + 'a {
        |name| match cookies.iter().find(|(own, _)| *own == name.name) {
            Some((_, value)) => Held::Present(value.as_bytes().to_vec()),
            None => Held::Absent,
        }
    }

    #[test]
    fn a_request_gets_the_page_of_its_values() {
        let mut pages = Variants::default();
        for locale in ["en", "de"] {
            let inserted = pages.insert(vec![cookie("locale")], held(&[("locale", locale)]), locale);
            assert_eq!(inserted, Ok(None));
        }
        assert_eq!(pages.find(held(&[("locale", "de"), ("other", "1")])), Some(&"de"));
        assert_eq!(pages.find(held(&[("locale", "fr")])), None);
        assert_eq!(pages.find(held(&[])), None, "no cookie is another value than any");
    }

    #[test]
    fn a_page_that_read_more_is_not_for_who_differs_in_it() {
        let mut pages = Variants::default();
        pages.insert(vec![cookie("user")], held(&[]), "for all without").unwrap();
        pages.insert(vec![cookie("user"), cookie("theme")], held(&[("user", "1"), ("theme", "dark")]), "dark").unwrap();
        assert_eq!(pages.find(held(&[("theme", "dark")])), Some(&"for all without"));
        assert_eq!(pages.find(held(&[("user", "1"), ("theme", "dark")])), Some(&"dark"));
        assert_eq!(pages.find(held(&[("user", "1")])), None);
        let own = key(&[cookie("user")], held(&[])).unwrap();
        pages.remove(&own, &"dark");
        assert_eq!(pages.len(), 2, "another page has this key");
        pages.remove(&own, &"for all without");
        assert_eq!(pages.len(), 1);
        assert_eq!(pages.find(held(&[])), None);
    }

    #[test]
    fn values_are_not_joined() {
        let mut pages = Variants::default();
        let names = vec![cookie("a"), cookie("b")];
        pages.insert(names, held(&[("a", "1"), ("b", "23")]), ()).unwrap();
        assert_eq!(pages.find(held(&[("a", "12"), ("b", "3")])), None);
    }

    #[test]
    fn what_is_not_known_is_not_kept_and_not_found() {
        let mut pages = Variants::default();
        let names = || vec![Name { source: Source::Session, name: "user_id".into() }];
        assert!(matches!(pages.insert(names(), |_| Held::Unknown, ()), Err(Refusal::Unknown(_))));
        pages.insert(names(), |_| Held::Absent, ()).unwrap();
        assert_eq!(pages.find(|_: &Name| Held::Unknown), None);
    }

    #[test]
    fn a_path_has_a_bound() {
        let mut pages = Variants::default();
        for number in 0..MAX_SETS {
            pages.insert(vec![cookie(&number.to_string())], held(&[]), ()).unwrap();
        }
        assert_eq!(pages.insert(vec![cookie("more")], held(&[]), ()), Err(Refusal::TooManySets));
        let many = (0..=MAX_NAMES).map(|number| cookie(&number.to_string())).collect();
        assert_eq!(pages.insert(many, held(&[]), ()), Err(Refusal::TooManyNames));
        let long = "x".repeat(MAX_VALUES);
        assert_eq!(pages.insert(vec![cookie("0")], held(&[("0", &long)]), ()), Err(Refusal::ValuesTooLong));
    }
}
