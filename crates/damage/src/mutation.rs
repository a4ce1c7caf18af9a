//! Damages input. Never longer than `MAX`.

use crate::dice::Dice;

/// Bytes; as `bin/fuzz` has it.
pub const MAX: usize = 2048;
/// Bytes at which parsers decide.
const TELLING: &[u8] = b"\r\n\0\t :;,=\"'<>/?#%&.-_+\x7f\x80\xff0129aAfF{}[]()*\\";

/// One of the inputs, damaged in one to eight ways.
pub fn mutated(corpus: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut input = corpus[dice.below(corpus.len())].clone();
    for _ in 0..=dice.below(8) {
        damage(&mut input, corpus, dice);
    }
    input.truncate(MAX);
    input
}

fn damage(input: &mut Vec<u8>, corpus: &[Vec<u8>], dice: &mut Dice) {
    let at = dice.below(input.len() + 1);
    let end = (at + 1 + dice.below(16)).min(input.len());
    match dice.below(8) {
        0 if at < input.len() => input[at] ^= 1 << dice.below(8),
        1 if at < input.len() => input[at] = TELLING[dice.below(TELLING.len())],
        2 if at < input.len() => input[at] = dice.byte(),
        3 if at < end => drop(input.drain(at..end)),
        4 if at < end => {
            let doubled = input[at..end].to_vec();
            drop(input.splice(at..at, doubled));
        }
        5 => input.truncate(at),
        6 => {
            let other = &corpus[dice.below(corpus.len())];
            let from = dice.below(other.len() + 1);
            let to = (from + dice.below(64)).min(other.len());
            drop(input.splice(at..at, other[from..to].iter().copied()));
        }
        _ => input.insert(at, TELLING[dice.below(TELLING.len())]),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn inputs_differ_and_are_bounded() {
        let corpus = vec![b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![b'x'; MAX], Vec::new()];
        let mut dice = Dice::new("mutation");
        let inputs: HashSet<_> = (0..1000).map(|_| mutated(&corpus, &mut dice)).collect();
        assert!(inputs.len() > 800, "{}", inputs.len());
        assert!(inputs.iter().all(|input| input.len() <= MAX));
        assert!(inputs.iter().any(|input| input.starts_with(b"GET /") && input.len() != corpus[0].len()));
    }
}
