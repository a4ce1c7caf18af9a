//! Where lines go, in which form, and how their files are rotated.

use std::path::PathBuf;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessLogFormat {
    /// Apache combined, followed by `queue=0.2ms app=12.4ms ...`.
    Combined,
    Json,
    /// Who, what, status, bytes and time; the rest where there is something to say.
    Short,
    Off,
}

/// How the server's events and the output of applications are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    /// One object a line.
    Json,
}

#[derive(Debug, Clone)]
pub struct LogConfig {
    pub format: LogFormat,
    pub access_format: AccessLogFormat,
    /// None: standard output.
    pub access_path: Option<PathBuf>,
    /// The app's own output and the server's events. None: standard error.
    pub app_path: Option<PathBuf>,
    /// Bytes after which a file becomes an old one. None: they grow.
    pub max_size: Option<u64>,
    /// Old files that stay.
    pub keep: usize,
}

impl LogConfig {
    /// Nothing is written.
    pub fn nowhere() -> LogConfig {
        let nowhere = || Some(PathBuf::from("/dev/null"));
        LogConfig {
            format: LogFormat::Text,
            access_format: AccessLogFormat::Off,
            access_path: nowhere(),
            app_path: nowhere(),
            max_size: None,
            keep: 1,
        }
    }
}
