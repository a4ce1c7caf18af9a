//! The load generator as a program: what it says when it is called wrongly. The scenarios of `test/e2e` use the rest.

use std::process::Command;

#[test]
fn names_its_commands() {
    let output = Command::new(env!("CARGO_BIN_EXE_loadgen")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "loadgen: usage: loadgen crowd ADDRESS:PORT, loadgen load or loadgen steady\n"
    );
}
