//! Keys for tests: numbers spread as a keyed hash spreads targets. They are no hash: who knows the number knows the
//! key.

use cache::store::Key;

/// A number as far from its neighbours as any.
pub fn mix(n: u64) -> u64 {
    let n = (n ^ n >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let n = (n ^ n >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    n ^ n >> 31
}

/// The key of a number.
pub fn key(n: u64) -> Key {
    Key(u128::from(mix(n + 1)) << 64 | u128::from(mix(n ^ 0xD1B5_4A32_D192_ED03)))
}
