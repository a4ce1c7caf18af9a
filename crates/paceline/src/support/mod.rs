//! Small things that many rooms need: clocks, counters, memory that is accounted for, private
//! sockets, files that change, how busy the machine is, which event loop serves a connection, how many there are, certificates, sentences for the operator.

pub mod account_share;
pub mod admission;
pub mod buffer_memory;
pub mod certificate_store;
pub mod clock;
pub mod event_loops;
pub mod explanation;
pub mod file_watch;
pub mod idle_policy;
pub mod pressure;
pub mod private_file;
pub mod private_socket;
pub mod sharded;
pub mod short_text;
pub mod signal_mask;
pub mod site_files;
pub mod stall;
pub mod state_folder;
pub mod tick;
pub mod time_slice;
pub mod wall_timer;
