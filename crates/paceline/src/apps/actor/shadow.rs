//! Shadows: copies of the loaded application that answer replayed requests for a doctor, and no visitor. The preloader of
//! the generation that serves forks them.
//! It never waits for a shadow, nor counts one among the workers.

use std::path::Path;

use super::Actor;
use crate::apps::generation::NotForked;

impl Actor {
    /// Asks for one. Err: there can be none.
    pub(super) async fn shadow(&mut self, socket: &Path) -> Result<(), NotForked> {
        if self.stopping.is_some() {
            return Err(NotForked::Stopping);
        }
        match &mut self.current {
            Some(current) => current.shadow(socket).await,
            None => Err(NotForked::NotRunning),
        }
    }
}
