//! Gives the targets of `fuzz/` damaged input without a coverage build, so that each `cargo test` does it: what lies in `fuzz/corpus`,
//! whole and with bytes changed, cut, doubled and mixed. `bin/fuzz` does the same guided by coverage, for as long as you like.
//! Nothing here is part of the product.

mod dice;
mod mutation;
#[path = "../../../fuzz/src/lib.rs"]
mod shared;

use std::{
    fs,
    panic::{catch_unwind, resume_unwind, AssertUnwindSafe},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

pub use shared::*;

use crate::{dice::Dice, mutation::mutated};

/// Time for one target, in seconds; `DAMAGE_SECONDS` is another.
const SECONDS: u64 = 4;

/// As libfuzzer-sys has it: here it is a test.
#[macro_export]
macro_rules! fuzz_target {
    (|$data:ident: &[u8]| $body:block) => {
        #[test]
        fn withstands_damaged_input() {
            $crate::attack(module_path!(), |$data: &[u8]| $body);
        }
    };
}

/// Holds `target` to its properties with each input of its corpus, and with damaged ones until the time is over. MODULE ends with the
/// target's name. An input that it fails with is left in tmp/fuzz, and the failure says how to repeat it.
pub fn attack(module: &str, target: impl Fn(&[u8])) {
    let name = module.rsplit("::").next().unwrap_or(module);
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let corpus = corpus(&checkout.join("fuzz/corpus").join(name));
    let seconds = std::env::var("DAMAGE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    let until = Instant::now() + Duration::from_secs(seconds);
    let failures = checkout.join("tmp/fuzz").join(name);
    for input in &corpus {
        held(&target, input, name, &failures);
    }
    let mut dice = Dice::new(name);
    let mut count = 0_u64;
    while Instant::now() < until {
        held(&target, &mutated(&corpus, &mut dice), name, &failures);
        count += 1;
    }
    println!("{name}: {} inputs of the corpus, {count} damaged ones", corpus.len());
}

fn corpus(folder: &Path) -> Vec<Vec<u8>> {
    let mut files: Vec<PathBuf> = match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
        Err(_) => Vec::new(),
    };
    files.sort();
    let mut inputs: Vec<Vec<u8>> = files.iter().map(|path| fs::read(path).unwrap()).collect();
    inputs.push(Vec::new());
    inputs
}

fn held(target: &impl Fn(&[u8]), input: &[u8], name: &str, failures: &Path) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input))) else { return };
    let path = failures.join("damaged");
    let saved = fs::create_dir_all(failures).and_then(|()| fs::write(&path, input));
    match saved {
        Ok(()) => eprintln!("The input is in tmp/fuzz/{name}/damaged; again: bin/fuzz {name} tmp/fuzz/{name}/damaged"),
        Err(error) => eprintln!("The input could not be written to {}: {error}\n{input:?}", path.display()),
    }
    resume_unwind(panic);
}
