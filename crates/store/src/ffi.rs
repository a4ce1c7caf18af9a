//! What the C of the gem's native part calls: the functions of this crate with C's types. A panic becomes a failure,
//! and never leaves through C. Which thread calls is of no importance; nothing here may be used in a process that was
//! forked since, but `paceline_store_abandon`.

use std::{
    ffi::{c_char, c_void, OsStr},
    os::unix::ffi::OsStrExt,
    panic::{catch_unwind, AssertUnwindSafe},
    path::Path,
    ptr, slice,
};

use crate::{Change, Error, Expected, Kind, Options, Snapshot, Store};

/// Why a call failed: `kind` is the number of the `Kind`, `code` the system's errno, if it is one; the message ends
/// with a NUL.
#[repr(C)]
pub struct Failure {
    kind: i32,
    code: i32,
    message: [c_char; 256],
}

/// What is called for each record of a scan: its key and value. Goes on while it returns 1. Must return: no jump over
/// Rust.
pub type Each = unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize) -> i32;

/// In a batch, the length of a value that there is none of: the record is deleted, or expected not to be there.
const GONE: u32 = u32::MAX;

/// What `work` returns, or none with its failure in `to`.
///
/// # Safety
/// `to` must be writable.
unsafe fn caught<T>(to: *mut Failure, work: impl FnOnce() -> Result<T, Error>) -> Option<T> {
    let error = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => return Some(value),
        Ok(Err(error)) => error,
        Err(_) => Error { kind: Kind::System(0), message: "a mistake in Paceline's store; please report it".into() },
    };
    let (kind, code) = match error.kind {
        Kind::System(code) => (0, code),
        Kind::Damaged => (1, 0),
        Kind::Foreign => (2, 0),
        Kind::Full => (3, 0),
        Kind::Key => (4, 0),
        Kind::Readers => (5, 0),
        Kind::Forked => (6, 0),
        Kind::Grown => (7, 0),
        Kind::Closed => (8, 0),
    };
    let mut message = [0; 256];
    // A character that is cut in two at the end does no harm to a message.
    for (to, from) in message[..255].iter_mut().zip(error.message.bytes()) {
        *to = from as c_char;
    }
    // SAFETY: that is what the caller promises.
    unsafe { to.write(Failure { kind, code, message }) };
    None
}

/// # Safety
/// `bytes` must have `length` bytes to read for as long as what is returned is used.
unsafe fn bytes<'a>(bytes: *const u8, length: usize) -> &'a [u8] {
    // SAFETY: that is what the caller promises; of no bytes it may be NULL.
    if length == 0 {
        &[]
    } else {
        unsafe { slice::from_raw_parts(bytes, length) }
    }
}

/// Opens or makes the store of this path, whose file may grow to `most` bytes (0: to any size); NULL and a failure if
/// that can't be.
///
/// # Safety
/// `path` must have `length` bytes to read, and `failure` be writable.
#[no_mangle]
pub unsafe extern "C" fn paceline_store_open(
    path: *const u8,
    length: usize,
    verify_up_to: u64,
    most: u64,
    failure: *mut Failure,
) -> *mut Store {
    // SAFETY: as promised.
    let path = Path::new(OsStr::from_bytes(unsafe { bytes(path, length) }));
    let options = Options { verify_up_to, most: (most > 0).then_some(most), ..Options::default() };
    // SAFETY: as promised.
    unsafe { caught(failure, || Store::open(path, &options)) }
        .map_or(ptr::null_mut(), |store| Box::into_raw(Box::new(store)))
}

/// Looks at the whole structure of the file; whoever writes waits meanwhile. 1, or 0 and a failure.
///
/// # Safety
/// `store` must be open, and `failure` be writable.
#[no_mangle]
pub unsafe extern "C" fn paceline_store_verify(store: *const Store, failure: *mut Failure) -> i32 {
    // SAFETY: as promised.
    let store = unsafe { &*store };
    // SAFETY: as promised.
    unsafe { caught(failure, || store.verify()) }.is_some().into()
}

/// Device and number of the file that is open. 1, or 0 and a failure.
///
/// # Safety
/// `store` must be open, and the others be writable.
#[no_mangle]
pub unsafe extern "C" fn paceline_store_identity(
    store: *const Store,
    device: *mut u64,
    number: *mut u64,
    failure: *mut Failure,
) -> i32 {
    // SAFETY: as promised.
    let store = unsafe { &*store };
    // SAFETY: as promised.
    let Some(found) = (unsafe { caught(failure, || store.identity()) }) else { return 0 };
    // SAFETY: as promised.
    unsafe {
        device.write(found.0);
        number.write(found.1);
    }
    1
}

/// # Safety
/// `store` must be from `paceline_store_open`, is not used any more, and no snapshot of it in this process either.
#[no_mangle]
pub unsafe extern "C" fn paceline_store_free(store: *mut Store) {
    // SAFETY: as promised.
    drop(unsafe { Box::from_raw(store) });
}

/// Frees a store in a process that was forked since it was opened; there may be snapshots of the parent's, which stay.
///
/// # Safety
/// `store` must be from `paceline_store_open` of the parent, and is not used any more, nor its snapshots.
#[no_mangle]
pub unsafe extern "C" fn paceline_store_abandon(store: *mut Store) {
    // SAFETY: as promised.
    unsafe { Box::from_raw(store) }.abandon();
}

/// Commits a batch: for each change the lengths of key and value (u32, little-endian; 2^32 - 1 deletes), key, value; if
/// all records of `expected`, another batch, are so (2^32 - 1: there is none). 1; 0 and nothing was written if they are
/// not; or -1 and a failure.
///
/// # Safety
/// `store` must be open, `expected` and `batch` have their lengths to read, and `failure` be writable.
#[no_mangle]
pub unsafe extern "C" fn paceline_store_commit(
    store: *const Store,
    expected: *const u8,
    expected_length: usize,
    batch: *const u8,
    length: usize,
    sync: i32,
    failure: *mut Failure,
) -> i32 {
    // SAFETY: as promised.
    let (store, expected, batch) = unsafe { (&*store, bytes(expected, expected_length), bytes(batch, length)) };
    let commit = || {
        let expected = records(expected)?;
        let changes: Vec<_> = records(batch)?.into_iter().map(|(key, value)| Change { key, value }).collect();
        let expected: Vec<_> = expected.into_iter().map(|(key, value)| Expected { key, value }).collect();
        store.commit_if(&expected, &changes, sync != 0)
    };
    // SAFETY: as promised.
    unsafe { caught(failure, commit) }.map_or(-1, i32::from)
}

/// A key, and its value if it has one.
type Record<'a> = (&'a [u8], Option<&'a [u8]>);

/// What a batch has.
fn records(mut batch: &[u8]) -> Result<Vec<Record<'_>>, Error> {
    let mut records = Vec::new();
    let short = || Error { kind: Kind::System(0), message: "a batch of changes is cut off".into() };
    while !batch.is_empty() {
        let (lengths, rest) = batch.split_first_chunk::<8>().ok_or_else(short)?;
        let [key_length, value_length] =
            [0, 4].map(|at| u32::from_le_bytes([lengths[at], lengths[at + 1], lengths[at + 2], lengths[at + 3]]));
        let (key, rest) = rest.split_at_checked(key_length as usize).ok_or_else(short)?;
        let (value, rest) = match value_length {
            GONE => (None, rest),
            length => {
                rest.split_at_checked(length as usize).map(|(value, rest)| (Some(value), rest)).ok_or_else(short)?
            }
        };
        records.push((key, value));
        batch = rest;
    }
    Ok(records)
}

/// The store as it is now; NULL and a failure if that can't be. `wait`: whether it may take a while.
///
/// # Safety
/// `store` must be open, and `failure` writable.
#[no_mangle]
pub unsafe extern "C" fn paceline_store_snapshot(
    store: *const Store,
    wait: i32,
    failure: *mut Failure,
) -> *mut Snapshot {
    // SAFETY: as promised.
    let store = unsafe { &*store };
    // SAFETY: as promised.
    unsafe { caught(failure, || store.snapshot(wait != 0)) }
        .map_or(ptr::null_mut(), |snapshot| Box::into_raw(Box::new(snapshot)))
}

/// # Safety
/// `snapshot` must be from `paceline_store_snapshot` and of this process, and is not used any more.
#[no_mangle]
pub unsafe extern "C" fn paceline_snapshot_free(snapshot: *mut Snapshot) {
    // SAFETY: as promised.
    drop(unsafe { Box::from_raw(snapshot) });
}

/// Looks up a key: 1 and its value, which lies there until the snapshot is freed; 0 if there is none; -1 and a failure.
///
/// # Safety
/// `snapshot` must not be freed, `key` have `length` bytes to read, and the others be writable.
#[no_mangle]
pub unsafe extern "C" fn paceline_snapshot_get(
    snapshot: *const Snapshot,
    key: *const u8,
    length: usize,
    value: *mut *const u8,
    value_length: *mut usize,
    failure: *mut Failure,
) -> i32 {
    // SAFETY: as promised.
    let (snapshot, key) = unsafe { (&*snapshot, bytes(key, length)) };
    // SAFETY: as promised.
    match unsafe { caught(failure, || snapshot.get(key)) } {
        Some(Some(found)) => {
            // SAFETY: as promised.
            unsafe {
                value.write(found.as_ptr());
                value_length.write(found.len());
            }
            1
        }
        Some(None) => 0,
        None => -1,
    }
}

/// Calls `each` with `context` for the records from a key on. 1, or 0 and a failure.
///
/// # Safety
/// `snapshot` must not be freed, `from` have `length` bytes to read, `each` be a function that returns, and `failure`
/// be writable.
#[no_mangle]
pub unsafe extern "C" fn paceline_snapshot_scan(
    snapshot: *const Snapshot,
    from: *const u8,
    length: usize,
    each: Each,
    context: *mut c_void,
    failure: *mut Failure,
) -> i32 {
    // SAFETY: as promised.
    let (snapshot, from) = unsafe { (&*snapshot, bytes(from, length)) };
    let show = |key: &[u8], value: &[u8]| {
        // SAFETY: as promised; the slices live for the call.
        unsafe { each(context, key.as_ptr(), key.len(), value.as_ptr(), value.len()) == 1 }
    };
    // SAFETY: as promised.
    unsafe { caught(failure, || snapshot.scan(from, show)) }.is_some().into()
}

/// How many records there are, or -1 and a failure.
///
/// # Safety
/// `snapshot` must not be freed, and `failure` be writable.
#[no_mangle]
pub unsafe extern "C" fn paceline_snapshot_count(snapshot: *const Snapshot, failure: *mut Failure) -> i64 {
    // SAFETY: as promised.
    let snapshot = unsafe { &*snapshot };
    // SAFETY: as promised.
    unsafe { caught(failure, || snapshot.len()) }.map_or(-1, |count| count as i64)
}

/// Bytes of the pages that the records fill, or -1 and a failure.
///
/// # Safety
/// `snapshot` must not be freed, and `failure` be writable.
#[no_mangle]
pub unsafe extern "C" fn paceline_snapshot_used(snapshot: *const Snapshot, failure: *mut Failure) -> i64 {
    // SAFETY: as promised.
    let snapshot = unsafe { &*snapshot };
    // SAFETY: as promised.
    unsafe { caught(failure, || snapshot.used()) }.map_or(-1, |bytes| bytes as i64)
}

/// Bytes of the file that are in use.
///
/// # Safety
/// `store` must be open.
#[no_mangle]
pub unsafe extern "C" fn paceline_store_size(store: *const Store) -> u64 {
    // SAFETY: as promised.
    unsafe { &*store }.size()
}
