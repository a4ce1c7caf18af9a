//! What is particular to Rack: the environment of a request, the response a worker gives with its validation, hijacked
//! channels, and the chunked coding that an app applies by itself. It never sees a client.

pub mod dechunk;
pub mod env;
pub mod hijack;
pub mod response;
pub mod validation;
