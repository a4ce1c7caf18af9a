//! What the doctor is doing, for the person at the terminal, with the time that is left. On standard error, so that the
//! report can go elsewhere.
//! It never says what a visitor sent.

use std::{
    cell::Cell,
    io::Write,
    time::{Duration, Instant},
};

use units::age;

/// A line that only tells how far it is comes as often as this.
const OFTEN: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct Progress {
    site: String,
    said: Cell<Instant>,
}

impl Progress {
    pub fn new(site: &str) -> Progress {
        Progress { site: site.to_owned(), said: Cell::new(Instant::now()) }
    }

    /// A new step.
    pub fn say(&self, what: &str) {
        self.said.set(Instant::now());
        // A reader that went away is no failure.
        let _ = writeln!(std::io::stderr(), "{}: {}", self.site, plain(what));
    }

    /// How far a step is; not each time.
    pub fn tell(&self, what: impl FnOnce() -> String) {
        if self.said.get().elapsed() >= OFTEN {
            self.say(&what());
        }
    }
}

/// What is no step.
pub fn warn(what: &str) {
    // A reader that went away is no failure.
    let _ = writeln!(std::io::stderr(), "{}", plain(what).trim_end());
}

/// As ` (1 min 20 s left)`.
pub fn left(time: Duration) -> String {
    format!(" ({} left)", age(time.as_secs_f64().ceil() as u64))
}

/// As ` (about 45 s, 1 min 50 s left)`; `left`: with this one.
pub fn expected(this: Duration, left: Duration) -> String {
    let words = |time: Duration| age(time.as_secs_f64().ceil() as u64);
    if left > this {
        format!(" (about {}, {} left)", words(this), words(left))
    } else {
        format!(" (about {})", words(this))
    }
}

/// Without control characters: names come from an application, and a terminal obeys some.
pub fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() && letter != '\n' { '\u{fffd}' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_terminals() {
        assert_eq!(left(Duration::from_millis(11_200)), " (12 s left)");
        assert_eq!(left(Duration::from_secs(130)), " (2 min 10 s left)");
        let seconds = Duration::from_secs;
        assert_eq!(expected(seconds(45), seconds(110)), " (about 45 s, 1 min 50 s left)");
        assert_eq!(expected(seconds(45), seconds(45)), " (about 45 s)");
        assert_eq!(plain("a\u{1b}[2Jb\nc"), "a\u{fffd}[2Jb\nc");
    }
}
