//! Commands that are Ruby's: `paceline compare`, `paceline native`, `paceline pstore`, `paceline sessions`. It finds the gem's file
//! and becomes `ruby` with it, and knows nothing of what it does.

use std::{
    ffi::OsString,
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
};

use crate::apps::spawn::gem_dir;

/// Names, the files below lib/paceline, and what the help says of them.
pub const COMMANDS: [(&str, &str, &str); 4] = [
    ("compare", "compare/command.rb", "Measure two versions of an application beside each other"),
    ("native", "native_build.rb", "Compile the gem's native part for the `ruby` of PATH"),
    ("pstore", "pstore/command.rb", "Import, export or check the file of a Paceline::PStore"),
    ("sessions", "session/command.rb", "Count, sweep or clear the sessions in a file"),
];

/// The file of the command of this name.
pub fn named(name: &str) -> Option<&'static str> {
    COMMANDS.iter().find(|command| command.0 == name).map(|command| command.1)
}

/// Becomes Ruby with this file. Returns only if that can't be.
pub fn run(file: &str, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let why = match gem_dir() {
        Ok(dir) => {
            let ruby = std::env::var_os("RUBY").unwrap_or_else(|| "ruby".into());
            let mut command = Command::new(&ruby);
            command.arg(dir.join("lib/paceline").join(file)).args(arguments);
            // A command that runs paceline runs this one.
            if let Ok(program) = std::env::current_exe() {
                command.env("PACELINE_BIN", program);
            }
            let error = command.exec();
            format!("{}: {error}", ruby.to_string_lossy())
        }
        Err(error) => error.to_string(),
    };
    eprintln!("paceline: {why}");
    ExitCode::FAILURE
}
