//! What a run found, in the forms in which people and programs read it.

pub mod ab;
pub mod comparison;
pub mod files;
pub mod html;
pub mod search;
pub mod table;

/// Like p50, p99.9 and max.
pub fn name_of(percent: f64) -> String {
    match percent {
        100.0 => "max".to_owned(),
        percent => format!("p{percent}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_have_their_usual_names() {
        assert_eq!([50.0, 99.9, 100.0].map(name_of), ["p50", "p99.9", "max"]);
    }
}
