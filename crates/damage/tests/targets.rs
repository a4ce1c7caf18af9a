//! Each fuzz target, with damaged input.

extern crate damage as libfuzzer_sys;
extern crate damage as paceline_fuzz;

#[path = "../../../fuzz/fuzz_targets/accept_encoding.rs"]
mod accept_encoding;
#[path = "../../../fuzz/fuzz_targets/auto_cache.rs"]
mod auto_cache;
#[path = "../../../fuzz/fuzz_targets/chunked.rs"]
mod chunked;
#[path = "../../../fuzz/fuzz_targets/conditions.rs"]
mod conditions;
#[path = "../../../fuzz/fuzz_targets/esi.rs"]
mod esi;
#[path = "../../../fuzz/fuzz_targets/exchange.rs"]
mod exchange;
#[path = "../../../fuzz/fuzz_targets/forwarded.rs"]
mod forwarded;
#[path = "../../../fuzz/fuzz_targets/http1.rs"]
mod http1;
#[path = "../../../fuzz/fuzz_targets/mailbox.rs"]
mod mailbox;
#[path = "../../../fuzz/fuzz_targets/negotiate.rs"]
mod negotiate;
#[path = "../../../fuzz/fuzz_targets/paths.rs"]
mod paths;
#[path = "../../../fuzz/fuzz_targets/proxy_protocol.rs"]
mod proxy_protocol;
#[path = "../../../fuzz/fuzz_targets/sign_in.rs"]
mod sign_in;
#[path = "../../../fuzz/fuzz_targets/worker_frames.rs"]
mod worker_frames;
#[path = "../../../fuzz/fuzz_targets/xml_read.rs"]
mod xml_read;

#[test]
fn each_target_is_here() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/fuzz_targets");
    let text = include_str!("targets.rs");
    let missing: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !text.contains(&format!("fuzz_targets/{name}\"]")))
        .collect();
    assert!(missing.is_empty(), "add to crates/damage/tests/targets.rs: {missing:?}");
}
