//! The `paceline` program: hands the command line to `cli`.
//! It never does anything else.

fn main() -> std::process::ExitCode {
    paceline::cli::main()
}
