//! Whether the server answers, and what is told of it.

/// Whether the server answers.
pub enum Reach {
    Unknown,
    Reached,
    Lost(Outage),
}

/// Why the server does not answer. Each reason is told once: a second fault behind the first is seen, and one that
/// comes and goes does not fill the log.
#[derive(Default)]
pub struct Outage {
    why: String,
    told: Vec<String>,
}

impl Reach {
    /// So many reasons of one outage are told.
    const TOLD_MOST: usize = 5;

    /// The server does not answer. Whether `why` is to be told.
    pub fn lose(&mut self, why: &str) -> bool {
        if !matches!(self, Self::Lost(_)) {
            *self = Self::Lost(Outage::default());
        }
        let Self::Lost(outage) = self else { return false };
        why.clone_into(&mut outage.why);
        let is_news = outage.told.len() < Self::TOLD_MOST && !outage.told.iter().any(|told| told == why);
        if is_news {
            outage.told.push(why.to_owned());
        }
        is_news
    }

    /// Why the server does not answer, if it does not.
    pub fn trouble(&self) -> Option<&str> {
        match self {
            Self::Lost(outage) => Some(&outage.why),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_of_an_outage_is_told_once() {
        let mut reach = Reach::Unknown;
        let told: Vec<bool> = ["timed out", "timed out", "bad certificate", "timed out", "bad certificate"]
            .map(|why| reach.lose(why))
            .into();
        assert_eq!(told, [true, false, true, false, false]);
        assert_eq!(reach.trouble(), Some("bad certificate"));
        reach = Reach::Reached;
        assert_eq!(reach.trouble(), None);
        assert!(reach.lose("timed out"), "another outage");
    }

    #[test]
    fn reasons_without_end_do_not_fill_the_log() {
        let mut reach = Reach::Reached;
        assert_eq!((0..100).filter(|number| reach.lose(&format!("reason {number}"))).count(), Reach::TOLD_MOST);
    }
}
