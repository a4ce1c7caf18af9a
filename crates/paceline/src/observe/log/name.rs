//! The events of the server by their stable names, which programs that read the log may rely on. docs/logging.md lists
//! them. It never writes a line.

macro_rules! events {
    ($($(#[doc = $doc:literal])+ $variant:ident => $name:literal,)+) => {
        /// What a line of the log tells. A name is never given to anything else once it has been released.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Name {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Name {
            pub const ALL: &'static [Name] = &[$(Name::$variant,)+];

            pub fn name(self) -> &'static str {
                match self {
                    $(Name::$variant => $name,)+
                }
            }

            /// What it means, in a line.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Name::$variant => concat!($($doc,)+).trim_ascii(),)+
                }
            }
        }
    };
}

events! {
    /// An address is listened on
    Listening => "listening",
    /// The server is told to stop, or has stopped
    Stopping => "stopping",
    /// All is done
    Stopped => "stopped",
    /// A setting without a meaning here, a warning about one, or something that could not be had
    Notice => "notice",
    /// What the server holds (PWR)
    State => "state",
    /// Connections wait or are turned away: a limit is reached
    Full => "full",
    /// A site came, went or changed
    Site => "site",
    /// A restart was asked for
    RestartAsked => "restart-asked",
    /// A new program takes over from this one, has, or could not
    Upgrade => "upgrade",
    /// The server that joins several machines is reached, or lost, or its journal has a gap
    Cluster => "cluster",
    /// Pages that change at a known time are prepared, have changed, or are not as they were prepared
    Scheduled => "scheduled",
    /// The automatic page cache: a route was turned off, or no pages can be shown
    AutoCache => "auto-cache",
    /// A generation is ready and serves
    Ready => "generation-ready",
    /// A generation did not become ready
    StartFailed => "generation-failed",
    /// The first generation serves, but a page of it that was asked for is not answered well
    NotReady => "not-ready",
    /// A generation gets a share of the requests, or takes over after that
    Canary => "canary",
    /// It was asked to go back to the release before
    RollbackAsked => "rollback-asked",
    /// The release before serves again
    RolledBack => "rolled-back",
    /// A worker could not be forked from, or was not
    Refork => "refork",
    /// More or fewer workers are wanted
    Pool => "pool",
    /// A worker has ended that was not told to
    WorkerEnded => "worker-ended",
    /// A worker did not become ready
    WorkerFailed => "worker-failed",
    /// A worker is being replaced, and why
    WorkerReplaced => "worker-replaced",
    /// A worker has more memory than it may, or its limit can't be kept
    MemoryLimit => "memory-limit",
    /// There is no memory for as many workers as are wanted, or a part of them is swapped out
    MemoryShort => "memory-short",
    /// A worker has answered as many requests as one may, and is replaced
    WorkerRetired => "worker-retired",
    /// A preloader has ended that was not told to
    PreloaderEnded => "preloader-ended",
    /// A preloader does not fork a worker that it is asked for
    PreloaderStuck => "preloader-stuck",
    /// A side process was started
    ProcessStarted => "process-started",
    /// A side process has ended that was not told to, or could not be started
    ProcessEnded => "process-ended",
    /// A side process that was told to end has ended
    ProcessStopped => "process-stopped",
    /// A request has been in the application for longer than `app_soft_timeout`
    Slow => "slow-request",
    /// A worker has as many streams as `stream_threads` allows: further ones hold threads
    Streams => "streams",
    /// Where a Ruby thread is
    Backtrace => "backtrace",
    /// Single sign-on: somebody was refused, or something that it needs can't be had (docs/single-sign-on.md)
    SignOn => "sign-on",
    /// A file of passwords of `[[rule]]` can't be used, so it rejects every request
    BasicAuth => "basic-auth",
    /// A site was closed for maintenance, or opened again
    Maintenance => "maintenance",
    /// The page cache: its disk, its rules
    Cache => "cache",
    /// A fragment of a page could not be included
    Esi => "esi",
    /// A request opened several connections to one upstream by itself (docs/outbound.md)
    Outbound => "outbound",
    /// A host of an upstream gets no requests for a while, gets them again, came or went
    Upstream => "upstream",
    /// A certificate was got, renewed, read again, or could not be
    Certificate => "certificate",
    /// A line that a process of an application printed
    Output => "output",
    /// A file of the log could not be written, rotated or opened anew, or lines were dropped
    Log => "log",
    /// A collector does not take traces
    Traces => "traces",
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn names_are_unique_words_and_documented() {
        let docs = include_str!("../../../../../docs/logging.md");
        for event in Name::ALL {
            let name = event.name();
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{name}");
            assert_eq!(Name::ALL.iter().filter(|other| other.name() == name).count(), 1, "{name}");
            let row = format!("| `{name}` | {} |", event.meaning());
            assert!(docs.contains(&row), "docs/logging.md lacks the row\n{row}");
        }
    }
}
