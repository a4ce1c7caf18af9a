//! What the value of an option should look like, where clap has no type for it. It never shows the value: clap does.

/// Goes behind what clap says of a value that it refuses: `invalid value 'x' for '--watch <TIME>': `.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct Expected(pub &'static str);
