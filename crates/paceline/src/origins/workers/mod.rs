//! Ruby workers as a request sees them: the fair queue and the conversation, what is particular to Rack, the protocol.

pub mod dispatch;
pub mod protocol;
pub mod rack;
pub mod response_buffer;
