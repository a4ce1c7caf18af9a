//! The golden vectors of test/vectors/xml_escape.hex, which the gem builder wrote and the Ruby side reads too. Those
//! that are not UTF-8 never come here: Ruby makes UTF-8 of them first.

use paceline_xml::{escape, Place};

fn bytes(hex: &str) -> Vec<u8> {
    let digits = if hex == "-" { "" } else { hex };
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits"))
        .collect()
}

#[test]
fn text_is_written_as_builder_writes_it() {
    let file = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../test/vectors/xml_escape.hex"))
        .expect("the vectors");
    let mut compared = 0;
    for line in file.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let fields: Vec<_> = line.split(' ').collect();
        let (place, text, meant) = (fields[0], bytes(fields[1]), bytes(fields[2]));
        if std::str::from_utf8(&text).is_err() {
            continue;
        }
        let place = if place == "text" { Place::Text } else { Place::Attribute };
        let mut room = vec![0; text.len() * 6 + 32];
        let progress = escape(place, &text, &mut room);
        assert_eq!((progress.read, &room[..progress.written]), (text.len(), &meant[..]), "{line}");
        compared += 1;
    }
    assert!(compared > 300, "only {compared} vectors are UTF-8");
}
