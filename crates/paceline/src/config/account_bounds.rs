//! What the settings of an account may cost all who share a server with it: they are compared with each request on threads that serve
//! the sites of others, too, and what they have kept is in the memory of all. It judges what was read, and reads nothing.

use path_patterns::{weight, MAX_WEIGHT};

use super::{
    parts::{PART, WEIGHED},
    SiteConfig,
};

/// Bytes of a paceline.toml of an account.
pub const MAX_TEXT: usize = 64 << 10;

/// What is wrong with the settings in a file of an account. None: nothing.
pub fn problem(text: &str, own: &SiteConfig) -> Option<String> {
    if text.len() > MAX_TEXT {
        return Some(format!(
            "the file has {}, and a file of an account may have {}: remove what is not needed",
            kilobytes(text.len()),
            kilobytes(MAX_TEXT)
        ));
    }
    if let Some(why) = own.parts.too_much_kept() {
        return Some(why);
    }
    let skipped = own.log_skip.iter().map(|skip| skip.path().map_or(0, weight) + PART);
    let weight = own.parts.weight() + skipped.sum::<usize>();
    (weight > MAX_WEIGHT).then(|| {
        format!(
            "the {WEIGHED} and log_skip weigh {}, and those of an account may weigh {}: use fewer or \
             shorter paths (a path counts with its length and 1 KB for each text between two stars; each table, header, host and cookie \
             counts as {PART} bytes)",
            kilobytes(weight),
            kilobytes(MAX_WEIGHT)
        )
    })
}

fn kilobytes(bytes: usize) -> String {
    format!("{} KB", bytes.div_ceil(1 << 10))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{
        super::{options, paceline_toml, resolve},
        *,
    };

    fn problem_of(text: &str) -> Option<String> {
        let read = paceline_toml::read(text, "paceline.toml", Path::new("/srv"), paceline_toml::Role::Folder).unwrap();
        problem(text, &resolve::site(&options::view(vec![&read.layer], 1), Path::new("/srv")))
    }

    /// So many lines, each with another number.
    fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
        (0..count).map(line).collect()
    }

    #[test]
    fn all_that_is_compared_with_paths_has_a_bound() {
        let list = |count| lines(count, |nth| format!("\"/a*b{nth}*\", "));
        for toml in [
            |list: &str| format!("[[rule]]\npath = [{list}]\ndeny = \"192.0.2.1\"\n"),
            |list: &str| format!("[[rule]]\npath = \"/\"\nexcept = [{list}]\ndeny = \"192.0.2.1\"\n"),
            |list: &str| format!("log_skip = [{list}]\n"),
            |list: &str| format!("[[scheduled]]\npath = [{list}]\nat = \"daily 12:00\"\n"),
        ] {
            assert_eq!(problem_of(&toml(&list(9))), None);
            let why = problem_of(&toml(&list(40))).unwrap_or_default();
            assert!(why.contains("those of an account may weigh 32 KB"), "{}: {why:?}", toml(""));
        }
        for table in ["[[rate_limit]]\nrate = \"1/s\"\n", "[[cache]]\nttl = \"1s\"\nignore_cookies = []\n"] {
            let tables = |count| lines(count, |nth| format!("{table}path = \"/a*b{nth}*\"\n"));
            assert_eq!(problem_of(&tables(9)), None);
            assert!(problem_of(&tables(40)).is_some(), "{table}");
        }
    }

    #[test]
    fn what_is_kept_in_the_memory_of_all_has_a_bound() {
        assert_eq!(problem_of("egress_cache = \"64MB\"\n"), None);
        assert!(problem_of("egress_cache = \"65MB\"\n").unwrap().contains("it may be 65536 KB"));
        assert!(problem_of(&"#".repeat(MAX_TEXT + 1)).unwrap().contains("a file of an account may have 64 KB"));
    }
}
