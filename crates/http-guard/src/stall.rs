//! Time in which this process itself did not run (SIGSTOP, a debugger, a suspended machine). When it goes on, the event
//! loop fires its timers before it looks at its sockets: what others have sent in time has not been read yet.

use std::time::Duration;

/// A timer that is late by this or more was held up together with the whole process: nothing that the front does takes
/// as long.
pub const STALL: Duration = Duration::from_secs(1);

/// After a stall a deadline is put off by this, once. Sockets are read meanwhile.
pub const GRACE: Duration = Duration::from_millis(500);
