//! `paceline bench`: measures an HTTP server from outside, and shows where a Paceline server spends the time.
//!
//! The steps of a benchmark: `options` reads the command line, `session` measures, `run` sends the requests by the
//! clients of `wire`, `recording` keeps what came back, `summary` makes figures of it, and `report` prints them.
//! `driven` sends other loads by the same clients, for the tests and `bin/bench`.

mod access_log;
mod compare;
pub mod driven;
mod machine;
mod options;
mod parts;
mod recording;
mod replay;
mod report;
mod request;
mod run;
mod screen;
mod search;
mod session;
mod summary;
mod target;
mod timer;
mod wire;

use std::{
    ffi::OsString,
    fs,
    io::{self, IsTerminal, Write},
    path::Path,
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

pub use options::command;
pub use replay::Replay;
pub use request::ASKING;

use options::{OptionError, Options};
use report::{ab, comparison, files, html, table::Style};
use session::{Findings, Measured, Session, SessionError};
use summary::{SavedError, Summary};

/// Something was measured, and requests failed.
const FAILED: u8 = 1;
/// The command line is wrong, or nothing could be measured.
const WRONG: u8 = 2;
/// Columns where the terminal does not say.
const COLUMNS: u16 = 100;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
enum BenchError {
    #[error(transparent)]
    Options(#[from] OptionError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Saved(#[from] SavedError),
    #[error("{file}: {error}")]
    Write { file: String, error: io::Error },
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Runs `paceline bench` with these arguments, the first of which is the command's name. The exit status is 0, 1 if requests
/// failed, or 2 if nothing was measured.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let matches = match options::command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(WRONG) } else { ExitCode::SUCCESS };
        }
    };
    match Options::of(&matches).map_err(BenchError::from).and_then(run_and_report) {
        Ok(failed) => ExitCode::from(if failed { FAILED } else { 0 }),
        Err(error) => {
            eprintln!("paceline bench: {error}");
            ExitCode::from(WRONG)
        }
    }
}

/// True: requests failed.
fn run_and_report(options: Options) -> Result<bool, BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Before the run: a wrong name must not cost one.
    let saved: Vec<Summary> =
        options.output.against.iter().map(|file| Summary::read(file)).collect::<Result<_, _>>()?;
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let watch = screen::watcher(options.quiet || options.ab.is_some() || options.output.json);
    let session = Session::new(options, watch.clone());
    let found = tokio::task::LocalSet::new().block_on(&runtime, session.measure());
    let options = &session.options;
    watch.borrow_mut().end();
    let findings = found?;
    let style = Style { width: columns(), color: io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() };
    let text = match &findings {
        Findings::One(measured) => one(measured, &saved, options, style, began)?,
        Findings::Two { a, b, slices } => {
            let (a, b) = (Summary::of(a, options.any_length), Summary::of(b, options.any_length));
            write_files(&[("A".to_owned(), &a), ("B".to_owned(), &b)], &saved, options)?;
            if options.output.json {
                json(&serde_json::json!({ "a": a, "b": b }))
            } else {
                comparison::text(&a, &b, slices, style)
            }
        }
        Findings::Search { limit, steps, best } => {
            let url = options.targets[0].to_string();
            let mut text = report::search::text(&url, *limit, steps);
            if let Some(best) = best {
                let summary = Summary::of(best, options.any_length);
                write_files(&[(summary.url.clone(), &summary)], &saved, options)?;
                if options.output.json {
                    text = json(&serde_json::to_value(&summary).unwrap_or_default());
                } else {
                    text = format!("{text}\n{}", report::table::text(&summary, style));
                }
            }
            text
        }
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(failed(&findings))
}

fn one(
    measured: &Measured,
    saved: &[Summary],
    options: &Options,
    style: Style,
    began: f64,
) -> Result<String, BenchError> {
    let summary = Summary::of(measured, options.any_length);
    write_files(&[(summary.url.clone(), &summary)], saved, options)?;
    if let Some(file) = &options.output.hdr {
        write(file, &files::hgrm(&measured.recording.latencies))?;
    }
    if let (Some(file), Some(requests)) = (&options.output.gnuplot, &measured.recording.requests) {
        write(file, &files::gnuplot(requests, began))?;
    }
    if options.output.json {
        return Ok(json(&serde_json::to_value(&summary).unwrap_or_default()));
    }
    let posted = !options.template.body.is_empty();
    let mut text = match options.ab {
        Some(tables) => ab::text(&summary, &measured.target, options.any_length, posted, tables),
        None => report::table::text(&summary, style),
    };
    for other in saved.iter().filter(|_| options.ab.is_none()) {
        text.push_str(&comparison::against(other, &summary, style));
    }
    Ok(text)
}

/// The files that every kind of run can have.
fn write_files(runs: &[(String, &Summary)], saved: &[Summary], options: &Options) -> Result<(), BenchError> {
    let Some((_, first)) = runs.first() else { return Ok(()) };
    let output = &options.output;
    if let Some(file) = &output.save {
        write(file, &json(&serde_json::to_value(first).unwrap_or_default()))?;
    }
    if let Some(file) = &output.csv {
        write(file, &files::csv(first))?;
    }
    if let Some(file) = &output.percentiles_csv {
        write(file, &files::percentiles_csv(first))?;
    }
    if let Some(file) = &output.html {
        let name = |(path, summary): (&std::path::PathBuf, &Summary)| {
            path.file_stem().map_or_else(|| summary.url.clone(), |name| name.to_string_lossy().into_owned())
        };
        let mut all = runs.to_vec();
        if let ([(only, _)], false) = (&mut all[..], saved.is_empty()) {
            *only = "this run".to_owned();
        }
        all.extend(output.against.iter().zip(saved).map(|(path, summary)| (name((path, summary)), summary)));
        write(file, &html::page(&all))?;
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<(), BenchError> {
    fs::write(file, text).map_err(|error| BenchError::Write { file: file.display().to_string(), error })
}

fn json(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}

fn failed(findings: &Findings) -> bool {
    let failed = |measured: &Measured| measured.recording.failed() > 0;
    match findings {
        Findings::One(measured) => failed(measured),
        Findings::Two { a, b, .. } => failed(a) || failed(b),
        Findings::Search { best, .. } => best.is_none(),
    }
}

/// Of the terminal.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col).filter(|columns| *columns > 0);
    usize::from(size.unwrap_or(COLUMNS))
}
