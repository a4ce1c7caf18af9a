//! How the server is seen from outside: requests in flight, metrics, traces, logs, incidents, the memory of
//! processes, and the dashboard's pages. It answers nobody itself.

pub mod dashboard;
pub mod doctor_result;
pub mod in_flight;
pub mod incidents;
pub mod local_time;
pub mod log;
pub mod memory_usage;
pub mod metrics;
pub mod reservoir;
pub mod traces;
