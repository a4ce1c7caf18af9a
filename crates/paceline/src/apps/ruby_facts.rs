//! What the preloader says of its Ruby when it has loaded the application: versions, YJIT, the gem's native part. As the
//! start line shows it. It never asks a process for anything.

/// Facts of one load of an application.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RubyFacts {
    /// As `ruby 3.4.11, rack 3.1.8, rails 8.0.1`.
    pub versions: String,
    /// Whether the application runs with YJIT; None: it is not asked for here, or this Ruby can't switch it on by itself.
    pub yjit: Option<bool>,
    /// Why the gem's native part is not loaded, and what to do. None: it is. Empty: the preloader has not said.
    missing: Option<String>,
}

impl RubyFacts {
    /// Of LOADED: names and values, one after the other.
    pub fn parse(facts: &[String]) -> RubyFacts {
        let pairs = || facts.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str()));
        let value = |name: &str| pairs().find(|pair| pair.0 == name).map(|pair| pair.1);
        let versions =
            pairs().filter(|(name, version)| ["ruby", "rack", "rails"].contains(name) && !version.is_empty());
        RubyFacts {
            versions: versions.map(|(name, version)| format!("{name} {version}")).collect::<Vec<_>>().join(", "),
            yjit: match value("yjit") {
                Some("on") => Some(true),
                Some("missing") => Some(false),
                _ => None,
            },
            missing: match value("native") {
                Some("yes") => None,
                other => Some(other.unwrap_or_default().to_owned()),
            },
        }
    }

    /// For the start line: `ruby 3.4.11 with YJIT, native part: yes, rack 3.1.8`.
    pub fn line(&self) -> String {
        let (ruby, others) = self.versions.split_once(", ").unwrap_or((&self.versions, ""));
        let yjit = match self.yjit {
            Some(true) => " with YJIT",
            Some(false) => " without YJIT",
            None => "",
        };
        let native = match self.missing.as_deref() {
            None => ", native part: yes".into(),
            Some("") => String::new(),
            Some(why) => format!(", native part: no ({why})"),
        };
        let others = if others.is_empty() { String::new() } else { format!(", {others}") };
        format!("{ruby}{yjit}{native}{others}")
    }

    /// What to say once, where `yjit = "auto"` finds no YJIT.
    pub fn yjit_notice(&self) -> Option<String> {
        let ruby = self.versions.split(", ").next().unwrap_or_default();
        (self.yjit == Some(false)).then(|| {
            format!("yjit = \"auto\": {ruby} was built without YJIT, with which most applications take less CPU time: use a Ruby that has it, or set yjit = \"off\"")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(pairs: &[&str]) -> RubyFacts {
        RubyFacts::parse(&pairs.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_start_line_tells_of_yjit_and_of_the_native_part() {
        let versions = ["ruby", "3.4.11", "rack", "3.1.8", "rails", ""];
        for (more, line) in [
            (&["yjit", "on", "native", "yes"][..], "ruby 3.4.11 with YJIT, native part: yes, rack 3.1.8"),
            (
                &["yjit", "missing", "native", "run bin/native"],
                "ruby 3.4.11 without YJIT, native part: no (run bin/native), rack 3.1.8",
            ),
            (&["yjit", "", "native", "yes"], "ruby 3.4.11, native part: yes, rack 3.1.8"),
            (&[], "ruby 3.4.11, rack 3.1.8"),
        ] {
            assert_eq!(facts(&[&versions, more].concat()).line(), line);
        }
        assert_eq!(
            facts(&["ruby", "3.3.8", "yjit", "on", "native", "yes"]).line(),
            "ruby 3.3.8 with YJIT, native part: yes"
        );
        assert_eq!(facts(&[]).line(), "");
    }

    #[test]
    fn only_a_ruby_that_could_have_yjit_is_told_of() {
        let notice = facts(&["ruby", "3.3.8", "rack", "3", "yjit", "missing"]).yjit_notice();
        assert!(notice.is_some_and(|text| text.starts_with("yjit = \"auto\": ruby 3.3.8 was built without YJIT")));
        assert_eq!(facts(&["ruby", "3.3.8", "yjit", "on"]).yjit_notice(), None);
        assert_eq!(facts(&["ruby", "3.1.2", "yjit", ""]).yjit_notice(), None);
    }
}
