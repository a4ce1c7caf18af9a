//! Reads Ruby backtrace lines: which are the app's own, which a gem's, and how to show each briefly.
//! It never touches the file system.

use super::place::Root;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    App,
    Gem,
    /// Ruby itself, its standard library, and frames without a file.
    Ruby,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub origin: Origin,
    /// Below the app's root, or below the gem: `railties-7.1.2` and `lib/rails/engine.rb`.
    pub gem: Option<String>,
    pub path: String,
    pub line: Option<u32>,
    /// Ruby's `in` part, without it: `block in <main>`.
    pub label: String,
}

/// `config/routes.rb:3 in block in <main>`, `railties-6.1.7 lib/rails.rb:9 in x`
impl std::fmt::Display for Frame {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        if let Some(gem) = &self.gem {
            write!(out, "{gem} ")?;
        }
        write!(out, "{}", self.path)?;
        if let Some(line) = self.line {
            write!(out, ":{line}")?;
        }
        if !self.label.is_empty() {
            write!(out, " in {}", self.label)?;
        }
        Ok(())
    }
}

/// Most of a deep recursion says nothing new.
const FRAMES: usize = 200;

/// The frames in their order, at most 200. What repeats itself, as in a recursion, is there once.
pub fn frames(backtrace: &[String], root: &Root) -> Vec<Frame> {
    let lines = backtrace.iter().filter(|line| !line.trim().is_empty()).take(FRAMES);
    let mut frames: Vec<Frame> = lines.map(|line| frame(line, root)).collect();
    frames.dedup();
    frames
}

/// The app's own frames, and the rest.
pub fn app_first(frames: Vec<Frame>) -> (Vec<Frame>, Vec<Frame>) {
    frames.into_iter().partition(|frame| frame.origin == Origin::App)
}

/// Reads `path:12:in 'label'` (Ruby quotes it with ` and ' up to 3.3, with two ' from 3.4 on).
pub fn frame(raw: &str, root: &Root) -> Frame {
    let (path, line, label) = split(raw.trim());
    let label = label.trim_start_matches(['`', '\'']).trim_end_matches('\'').to_string();
    let (origin, gem, path) = place(path, root);
    Frame { origin, gem, path, line, label }
}

/// Path, line number, label. The path may hold colons.
fn split(raw: &str) -> (&str, Option<u32>, &str) {
    let (place, label) = raw.split_once(":in ").unwrap_or((raw, ""));
    match place.rsplit_once(':') {
        Some((path, line)) if line.parse::<u32>().is_ok() => (path, line.parse().ok(), label),
        _ => (place, None, label),
    }
}

fn place(path: &str, root: &Root) -> (Origin, Option<String>, String) {
    if let Some(internal) = path.strip_prefix("<internal:") {
        return (
            Origin::Ruby,
            None,
            internal.trim_end_matches('>').rsplit("/ruby/").next().unwrap_or_default().to_string(),
        );
    }
    // Also for gems inside the root (vendor/bundle): the last `gems` folder is the one that holds them.
    if let Some(at) = path.rfind("/gems/") {
        let below = path.get(at + "/gems/".len()..).unwrap_or_default();
        if let Some((gem, rest)) = below.split_once('/').filter(|(gem, rest)| gem.contains('-') && !rest.is_empty()) {
            return (Origin::Gem, Some(gem.to_string()), rest.to_string());
        }
    }
    if let Some(below) = root.below(path.as_ref()).filter(|_| path.starts_with('/')) {
        return (Origin::App, None, below.display().to_string());
    }
    // Debian keeps the files of its gems here, without a folder per gem.
    if let Some(at) = path.find("/vendor_ruby/") {
        let below = path.get(at + "/vendor_ruby/".len()..).unwrap_or_default();
        let gem = below.split(['/', '.']).next().unwrap_or_default();
        return (Origin::Gem, Some(gem.to_string()), below.to_string());
    }
    if let Some(at) = path.find("/lib/ruby/") {
        return (Origin::Ruby, None, path.get(at + "/lib/".len()..).unwrap_or_default().to_string());
    }
    // Relative to the app's directory, as in `config.ru` or `(eval)`.
    let origin = if path.starts_with(['/', '<', '(']) || path.is_empty() { Origin::Ruby } else { Origin::App };
    (origin, None, path.trim_start_matches("./").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recursion_is_shown_once() {
        let lines =
            ["/srv/app/x.rb:1:in `f'", "/srv/app/x.rb:1:in `f'", "/srv/app/x.rb:2:in `<main>'"].map(String::from);
        assert_eq!(frames(&lines, &Root::of("/srv/app".as_ref())).len(), 2);
    }

    #[test]
    #[rustfmt::skip]
    fn frames_know_where_they_come_from() {
        for (raw, origin, gem, path, line, label) in [
            ("/srv/app/config/routes.rb:3:in `block in <main>'", Origin::App, "", "config/routes.rb", Some(3), "block in <main>"),
            ("/srv/app/config.ru:1:in '<main>'", Origin::App, "", "config.ru", Some(1), "<main>"),
            ("config.ru:3:in `<main>'", Origin::App, "", "config.ru", Some(3), "<main>"),
            ("/srv/application/x.rb:3", Origin::Ruby, "", "/srv/application/x.rb", Some(3), ""),
            ("/usr/share/rubygems-integration/all/gems/railties-6.1.7/lib/rails.rb:9:in `x'", Origin::Gem, "railties-6.1.7", "lib/rails.rb", Some(9), "x"),
            ("/srv/app/vendor/bundle/ruby/3.1.0/gems/rack-2.2.4/lib/rack.rb:1:in `x'", Origin::Gem, "rack-2.2.4", "lib/rack.rb", Some(1), "x"),
            ("/var/lib/gems/3.1.0/gems/a-1/lib/a.rb:1:in `b'", Origin::Gem, "a-1", "lib/a.rb", Some(1), "b"),
            ("/usr/lib/ruby/vendor_ruby/rack/builder.rb:125:in `eval'", Origin::Gem, "rack", "rack/builder.rb", Some(125), "eval"),
            ("/usr/lib/ruby/3.1.0/bundler/setup.rb:5:in `x'", Origin::Ruby, "", "ruby/3.1.0/bundler/setup.rb", Some(5), "x"),
            ("<internal:/usr/lib/ruby/x.rb>:85:in `require'", Origin::Ruby, "", "x.rb", Some(85), "require"),
            ("(eval):2:in `x'", Origin::Ruby, "", "(eval)", Some(2), "x"),
            ("garbage", Origin::App, "", "garbage", None, ""),
        ] {
            let frame = frame(raw, &Root::of("/srv/app".as_ref()));
            assert_eq!((frame.origin, frame.gem.unwrap_or_default().as_str()), (origin, gem), "{raw}");
            assert_eq!((frame.path.as_str(), frame.line, frame.label.as_str()), (path, line, label), "{raw}");
        }
    }
}
