//! When a certificate is renewed, and when an attempt that failed is made again.
//! It never looks at the clock: times and chance are arguments.

use std::time::Duration;

use super::validity::Validity;

const FIRST_PAUSE: Duration = Duration::from_secs(60);
/// Four attempts in the first hour: Let's Encrypt allows five that fail, for one host.
const FACTOR: u32 = 3;
const LONGEST_PAUSE: Duration = Duration::from_secs(6 * 3600);

/// The second to renew at: about two thirds into its life. Servers that got theirs at once shall not all come at once
/// again, so it is up to a thirtieth of its life sooner; `chance` is from 0 to 1.
pub fn renew_at(validity: &Validity, chance: f64) -> i64 {
    let life = validity.until.saturating_sub(validity.from);
    let sooner = (life as f64 / 30.0 * chance.clamp(0.0, 1.0)) as i64;
    validity.from.saturating_add(life / 3 * 2 + life % 3 * 2 / 3).saturating_sub(sooner)
}

/// How long to wait after so many failures in a row.
pub fn pause(failures: u32, chance: f64) -> Duration {
    let grown = FACTOR.checked_pow(failures.saturating_sub(1)).and_then(|factor| FIRST_PAUSE.checked_mul(factor));
    let pause = grown.unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE);
    pause + pause.mul_f64(chance.clamp(0.0, 1.0) / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_thirds_of_its_life() {
        let days = |days: i64| days * 86_400;
        let validity = Validity { from: days(100), until: days(190) };
        assert_eq!(renew_at(&validity, 0.0), days(160));
        assert_eq!(renew_at(&validity, 1.0), days(157));
        assert_eq!(renew_at(&Validity { from: 1000, until: 1006 }, 0.5), 1004);
        renew_at(&Validity { from: i64::MIN, until: i64::MAX }, f64::NAN);
    }

    #[test]
    fn pauses_grow() {
        let minutes: Vec<_> = (1..8).map(|failures| pause(failures, 0.0).as_secs() / 60).collect();
        assert_eq!(minutes, [1, 3, 9, 27, 81, 243, 360]);
        assert_eq!(pause(u32::MAX, 0.0), LONGEST_PAUSE);
        assert_eq!(pause(1, 1.0).as_secs(), 66);
    }
}
