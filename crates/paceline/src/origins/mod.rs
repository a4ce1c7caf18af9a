//! Who answers what neither a file nor a cache does: Ruby workers, other HTTP servers, and forked copies of an application
//! that answer repeated requests. What comes from them is treated like network input.

pub mod shadow;
pub mod upstream;
pub mod workers;
