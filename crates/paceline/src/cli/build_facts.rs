//! `paceline --version --build`: which commit, target and compiler this program is of. build.rs knows them.
//! It never asks the machine that the program runs on.

use std::ffi::OsString;

/// Whether the command line is `--version --build`, in either order and nothing else. `args` begins with the
/// program's name.
pub fn are_wanted(args: &[OsString]) -> bool {
    let given = |names: [&str; 2]| args.iter().skip(1).filter(|arg| names.iter().any(|name| arg == name)).count();
    args.len() == 3 && given(["--version", "-V"]) == 1 && given(["--build", "--build"]) == 1
}

/// One fact a line: `name: value`, after a line that is the same as that of `--version`.
pub fn text() -> String {
    format!(
        "paceline {}\ncommit: {}\ntarget: {}\nfeatures: {}\ncompiler: {}\n",
        env!("PACELINE_VERSION"),
        env!("PACELINE_COMMIT"),
        env!("PACELINE_TARGET"),
        env!("PACELINE_FEATURES"),
        env!("PACELINE_RUSTC"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(args: &[&str]) -> bool {
        are_wanted(&args.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn wanted_with_version_and_nothing_else() {
        assert!(wanted(&["paceline", "--version", "--build"]) && wanted(&["paceline", "--build", "-V"]));
        for other in [&["paceline", "--version"][..], &["paceline", "--build"], &["--version", "--build"]] {
            assert!(!wanted(other), "{other:?}");
        }
        assert!(!wanted(&["paceline", "--build", "--build"]) && !wanted(&["paceline", "-V", "--build", "-q"]));
    }

    #[test]
    fn text_has_a_value_for_each_fact() {
        let text = text();
        let facts: Vec<_> = text.lines().skip(1).map(|line| line.split_once(": ").expect("a fact")).collect();
        assert_eq!(facts.iter().map(|fact| fact.0).collect::<Vec<_>>(), ["commit", "target", "features", "compiler"]);
        assert!(facts.iter().all(|fact| !fact.1.is_empty()), "{text}");
        assert!(facts[1].1.contains('-') && facts[3].1.starts_with("rustc "), "{text}");
    }
}
