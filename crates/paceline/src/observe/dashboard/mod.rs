//! The dashboard: what the server does, as pages for a browser and as parts that replace those on a page that is open.
//! It never asks anything of the server: what is shown is handed in.
//!
//! Reading order: `view` (what is shown), `history` (how it was measured), `chart`, `charts`, `parts`, `cluster`,
//! `page`, `post_mortem`, `advice`.

mod advice;
mod chart;
mod charts;
mod cluster;
pub mod history;
mod html;
mod page;
mod parts;
mod post_mortem;
#[cfg(test)]
mod tests;
mod view;

pub use self::{
    advice::{advice, AdviceView, SiteAdvice},
    page::{dashboard, door},
    post_mortem::{failed, incident},
    view::{CacheState, ClusterState, Front, Live, SiteState, Trouble, View, Worker},
};

/// The pages' style, their one script, and what a browser shows on its tab.
pub const STYLE: &str = include_str!("dashboard.css");
pub const SCRIPT: &str = include_str!("dashboard.js");
pub const ICON: &str = include_str!("icon.svg");
pub const STYLE_PATH: &str = "/dashboard.css";
