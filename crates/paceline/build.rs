//! Tells the program which version it is, which of Cargo's profiles it was built with if that is not `release`, and what
//! `--version --build` prints. PACELINE_COMMIT names the commit; a build without it does not ask Git, since it would
//! have to run again after each commit.

use std::{env, path::PathBuf, process::Command};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    // Cargo tells no build script the profile's name, only the one it inherits from; but its folder is named after it:
    // target/PROFILE/build/...
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let build = out.ancestors().find(|folder| folder.ends_with("build"));
    let profile = build.and_then(|build| build.parent()?.file_name()?.to_str());
    match profile {
        None | Some("release") => println!("cargo:rustc-env=PACELINE_VERSION={version}"),
        Some(profile) => println!("cargo:rustc-env=PACELINE_VERSION={version} ({profile} build)"),
    }
    println!("cargo:rerun-if-env-changed=PACELINE_COMMIT");
    println!("cargo:rustc-env=PACELINE_COMMIT={}", env::var("PACELINE_COMMIT").unwrap_or_else(|_| "unknown".into()));
    println!("cargo:rustc-env=PACELINE_TARGET={}", env::var("TARGET").unwrap_or_default());
    println!("cargo:rustc-env=PACELINE_FEATURES={}", features());
    println!("cargo:rustc-env=PACELINE_RUSTC={}", rustc());
}

/// Cargo's features that are on, or `none`.
fn features() -> String {
    let names = env::vars().filter_map(|(name, _)| Some(name.strip_prefix("CARGO_FEATURE_")?.to_ascii_lowercase()));
    let mut names: Vec<_> = names.collect();
    names.sort();
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}

/// The compiler's own name and version, or `rustc unknown`.
fn rustc() -> String {
    let output = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    if text.is_empty() {
        "rustc unknown".into()
    } else {
        text
    }
}
