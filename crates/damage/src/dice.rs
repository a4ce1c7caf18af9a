//! Numbers that look random and are the same in each run, so that what fails fails again. `DAMAGE_SEED` gives others.

use std::hash::{DefaultHasher, Hash, Hasher};

pub struct Dice(u64);

impl Dice {
    pub fn new(name: &str) -> Dice {
        let mut hasher = DefaultHasher::new();
        (name, std::env::var("DAMAGE_SEED").unwrap_or_default()).hash(&mut hasher);
        Dice(hasher.finish() | 1)
    }

    /// Less than `bound`, which is at least 1.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound.max(1)
    }

    pub fn byte(&mut self) -> u8 {
        self.below(256) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_name_gives_the_same_numbers() {
        let numbers = |name| {
            let mut dice = Dice::new(name);
            (0..20).map(|_| dice.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(numbers("http1"), numbers("http1"));
        assert_ne!(numbers("http1"), numbers("esi"));
        assert!(numbers("http1").iter().all(|number| *number < 1000));
    }
}
