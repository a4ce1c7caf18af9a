//! What the client of a connection has said so far to sign in, where that takes several tokens. It belongs to the
//! connection alone, and is made only when the first token comes. It never checks one.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use negotiate::Conversation;
use tokio::sync::Mutex;

/// The conversation of a connection.
#[derive(Clone, Default)]
pub struct ConnectionConversation(OnceLock<Arc<Mutex<Conversation>>>);

impl ConnectionConversation {
    pub fn get(&self) -> Arc<Mutex<Conversation>> {
        self.0.get_or_init(Arc::default).clone()
    }
}

impl fmt::Debug for ConnectionConversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[conversation]")
    }
}
