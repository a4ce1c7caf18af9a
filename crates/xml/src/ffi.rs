//! What the C of the gem's native part calls: the functions of this crate with C's types. Holds no state.

use crate::{escape, Place};

/// [`escape`] for C: `attribute` is 0 for text. Says in `read` how many bytes of the text are dealt with, and returns
/// how many were written.
///
/// # Safety
///
/// `text` must have `length` bytes to read, `room` `size` bytes to write that are no part of the text, and `read` must
/// be writable.
#[no_mangle]
pub unsafe extern "C" fn paceline_xml_escape(
    attribute: i32,
    text: *const u8,
    length: usize,
    room: *mut u8,
    size: usize,
    read: *mut usize,
) -> usize {
    // SAFETY: that is what the caller promises.
    let (text, room) =
        unsafe { (std::slice::from_raw_parts(text, length), std::slice::from_raw_parts_mut(room, size)) };
    let place = if attribute == 0 { Place::Text } else { Place::Attribute };
    // Neither a panic nor anything else leaves through C: `escape` cannot panic, and extern "C" would abort.
    let progress = escape(place, text, room);
    // SAFETY: as above.
    unsafe { *read = progress.read };
    progress.written
}
