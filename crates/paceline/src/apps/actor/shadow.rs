//! Shadows: copies of the loaded application that answer replayed requests for a doctor, and no visitor. The preloader of
//! the generation that serves forks them.
//! It never waits for a shadow, nor counts one among the workers.

use std::path::Path;

use super::Actor;

impl Actor {
    /// Err: why there can be none, for the one who asked.
    pub(super) async fn shadow(&mut self, socket: &Path) -> Result<(), String> {
        if self.stopping.is_some() {
            return Err("the application is being stopped".into());
        }
        match &mut self.current {
            Some(current) => current.shadow(socket).await,
            None => Err("the application is not running: send it a request, or look at paceline status".into()),
        }
    }
}
