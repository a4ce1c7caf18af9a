//! Tells the program which version it is, and which of Cargo's profiles it was built with if that is not `release`.

use std::{env, path::PathBuf};

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
}
