//! How the server is seen from outside: requests in flight, metrics, traces, logs, the control API and the dashboard.

pub mod control;
pub mod dashboard;
pub mod doctor_result;
pub mod in_flight;
pub mod local_time;
pub mod log;
pub mod metrics;
pub mod reservoir;
pub mod traces;
