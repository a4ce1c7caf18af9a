//! Settings and commands that Paceline no longer has, and what to write instead of each. Using one gets this
//! sentence instead of an unknown key, flag or file. It never reads a value.

/// Settings of paceline.toml, which are flags, too.
const SETTINGS: [(&str, &str); 5] = [
    (
        "gc",
        "remove it: Ruby's own settings of the garbage collector apply. To trade CPU time for memory set RUBY_GC_ variables in env (docs/ruby-tuning.md)",
    ),
    ("tune", TUNE),
    ("tune_kinds", TUNE),
    ("tune_every", TUNE),
    ("tune_watch", TUNE),
];
/// The server changes no settings by itself.
const TUNE: &str =
    "remove it: run paceline doctor, which tries the same settings, and paceline doctor apply N for what it advises (docs/doctor.md)";

const COMMANDS: [(&str, &str); 1] = [(
    "tour",
    "run paceline bench URL, paceline doctor and paceline restart --wait yourself (docs/getting-started.md)",
)];

/// What to do instead of setting `key`.
pub fn setting(key: &str) -> Option<&'static str> {
    instead_of(&SETTINGS, key)
}

/// What to do instead of the command `name`.
pub fn command(name: &str) -> Option<&'static str> {
    instead_of(&COMMANDS, name)
}

fn instead_of(removed: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    removed.iter().find(|(old, _)| *old == name).map(|(_, instead)| *instead)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::all_options;

    #[test]
    fn what_is_removed_is_there_no_more() {
        for (key, _) in SETTINGS {
            assert!(all_options().all(|option| option.key != key), "{key}");
        }
    }
}
