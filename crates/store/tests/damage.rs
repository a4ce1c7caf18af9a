//! Damage at any place of a file: it is named, or makes no difference, and nothing ends the process. `COUNT=` files,
//! `SEED=`.

use std::{env, fs, path::PathBuf};

use fastrand::Rng;
use paceline_store::{Change, Kind, Options, Store};

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// Several levels, values on pages of their own, and free pages.
fn make(path: &std::path::Path, random: &mut Rng) -> Records {
    let store = Store::open(path, &Options::default()).unwrap();
    for round in 0..4u8 {
        let values: Vec<(Vec<u8>, Vec<u8>)> = (0..150)
            .map(|_| {
                let length = [0, 20, 300, 9000][random.usize(..4)];
                (format!("key {:03}", random.usize(..400)).into_bytes(), vec![round; length])
            })
            .collect();
        let changes: Vec<Change<'_>> = values
            .iter()
            .map(|(key, value)| Change { key, value: (!value.is_empty()).then_some(value.as_slice()) })
            .collect();
        store.commit(&changes, false).unwrap();
    }
    all(&store).unwrap()
}

fn all(store: &Store) -> Result<Records, Kind> {
    let mut found = Vec::new();
    let snapshot = store.snapshot(true).map_err(|error| error.kind)?;
    snapshot
        .scan(b"", |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            true
        })
        .map_err(|error| error.kind)?;
    for (key, value) in &found {
        assert_eq!(snapshot.get(key).map_err(|error| error.kind)?, Some(value.as_slice()));
    }
    Ok(found)
}

/// One kind of damage can't be told: LMDB's two heads have no checksum, and where the older one's number becomes by
/// chance the next after the newer one's, what it leads to is sound, but one commit old. `SEED=1179` is a case.
#[test]
fn damage_anywhere_is_named_or_makes_no_difference() {
    let (count, seed) = (number("COUNT", 400), number("SEED", 7));
    let folder = Folder(env::temp_dir().join(format!("paceline-store-damage-{}", std::process::id())));
    fs::create_dir_all(&folder.0).unwrap();
    let mut random = Rng::with_seed(seed);
    let path = folder.0.join("records");
    let records = make(&path, &mut random);
    let sound = fs::read(&path).unwrap();
    let mut outcomes = [0; 3];
    for trial in 0..count {
        let mut damaged = sound.clone();
        match if trial == 0 { 6 } else { random.usize(..6) } {
            // Heads and the beginnings of pages are what everything depends on.
            0 => damaged[random.usize(..200)] ^= 1 << random.usize(..8),
            1 => damaged[4096 + random.usize(..200)] = random.usize(..256) as u8,
            2 => {
                let at = random.usize(..sound.len() / 4096) * 4096 + random.usize(..64);
                damaged[at] = random.usize(..256) as u8;
            }
            3 => {
                let at = random.usize(..sound.len());
                damaged[at] ^= 1 << random.usize(..8);
            }
            4 => {
                let (from, to) = (random.usize(..sound.len() / 512) * 512, random.usize(..sound.len() / 512) * 512);
                damaged.copy_within(from..from + 512, to);
            }
            5 => damaged.truncate(random.usize(..sound.len() + 1)),
            // It is sound, that is.
            _ => {}
        }
        fs::write(&path, &damaged).unwrap();
        let found = Store::open(&path, &Options::default()).map_err(|error| error.kind).and_then(|store| {
            let found = all(&store)?;
            // Nor does it end who writes.
            match store.commit(&[Change { key: b"new", value: Some(b"1") }], false) {
                Ok(()) => Ok(found),
                Err(error) => Err(error.kind),
            }
        });
        match found {
            Ok(found) if damaged.is_empty() => assert!(found.is_empty()),
            Ok(found) => {
                assert!(
                    found == records,
                    "SEED={seed}, trial {trial}: {} records instead of {}",
                    found.len(),
                    records.len()
                );
                outcomes[0] += 1;
            }
            Err(Kind::Damaged) => outcomes[1] += 1,
            Err(Kind::Foreign) => outcomes[2] += 1,
            Err(kind) => panic!("SEED={seed}, trial {trial}: {kind:?}"),
        }
        let _ = fs::remove_file(&path);
        let _ = fs::remove_file(folder.0.join("records-lock"));
    }
    println!("SEED={seed}: no difference {}, damaged {}, foreign {}", outcomes[0], outcomes[1], outcomes[2]);
}
