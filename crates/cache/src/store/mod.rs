//! placeholder
use std::sync::Arc;
#[derive(Copy, Clone, Eq, PartialEq, Ord, PartialOrd, Hash, Debug)]
pub struct Key(pub u128);
pub trait Object: Send + Sync + 'static {
    fn weight(&self) -> usize;
    fn url(&self) -> &Arc<str>;
    fn tags(&self) -> &[Arc<str>];
    fn expire(&self);
}
pub fn allocated(len: usize) -> usize {
    if len == 0 {
        0
    } else {
        (len + 8).next_multiple_of(16).max(32)
    }
}
