//! Numbers by chance that are the same for the same seed, in the shapes that the model asks for.

use doctor::random::Random;

#[derive(Debug, Clone)]
pub struct Chance(Random);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(Random(seed))
    }

    pub fn number(&mut self) -> u64 {
        self.0.number()
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound)
    }

    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    /// From 1 to `last`.
    pub fn id(&mut self, last: i64) -> i64 {
        1 + i64::try_from(self.below(usize::try_from(last).unwrap())).unwrap()
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub fn bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&self.number().to_be_bytes()));
        bytes
    }
}
