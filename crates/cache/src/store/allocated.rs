//! What a piece of memory costs the process, as glibc's allocator hands it out. It asks the allocator nothing.

/// From this size glibc may map a piece of its own, in whole pages (`M_MMAP_THRESHOLD`'s first value).
const MAPPED: usize = 128 * 1024;
const PAGE: usize = 4096;

/// Bytes that the process loses to an allocation of `len` bytes: 8 of header, rounded up to 16, never less than 32;
/// large ones 16 of header and whole pages. Nothing for nothing: Rust does not allocate for `len` 0.
///
/// What holds a strong and a weak count asks with them: `allocated(16 + len)` for an `Arc<str>` of `len` bytes.
pub const fn allocated(len: usize) -> usize {
    match len {
        0 => 0,
        1..=24 => 32,
        25..MAPPED => (len + 8).next_multiple_of(16),
        _ => len.saturating_add(16 + PAGE - 1) / PAGE * PAGE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_glibc() {
        let table = [
            (0, 0),
            (1, 32),
            (24, 32),
            (25, 48),
            (40, 48),
            (41, 64),
            (1000, 1008),
            (1001, 1024),
            (MAPPED - 24, MAPPED - 16),
            (MAPPED, MAPPED + PAGE),
            (1 << 20, (1 << 20) + PAGE),
            ((1 << 20) - 16, 1 << 20),
        ];
        for (len, cost) in table {
            assert_eq!(allocated(len), cost, "{len} bytes");
        }
        allocated(usize::MAX);
    }
}
