//! What the C of the gem's native part calls to read XML: [`crate::read`] with C's types. A reading is made, looked at
//! and freed; it refers to nothing outside of itself. A panic ends here.

use std::panic::{catch_unwind, AssertUnwindSafe};

use crate::read::{parse, Document, Error, Limits, Op, Program};

/// [`Limits`] for C.
#[repr(C)]
pub struct PacelineXmlLimits {
    pub bytes: usize,
    pub depth: usize,
    pub elements: usize,
    pub attributes: usize,
    pub expansion: usize,
}

/// [`Op`] for C: `kind` counts them in their order, with text of the document and text beside it as two.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PacelineXmlOp {
    pub kind: u32,
    pub a: u32,
    pub b: u32,
}

/// A piece of text. What it points to lives as long as what it was asked of.
#[repr(C)]
pub struct PacelineXmlText {
    pub bytes: *const u8,
    pub length: usize,
}

/// What there is to build, or the mistake if `message` points anywhere.
#[repr(C)]
pub struct PacelineXmlView {
    pub message: PacelineXmlText,
    pub line: usize,
    pub column: usize,
    pub ops: *const PacelineXmlOp,
    pub count: usize,
    pub stack: usize,
    pub symbols: usize,
    pub beside: PacelineXmlText,
    pub skipped: usize,
    /// The steps are those of the hash and not what was asked for: Rails has to convert it.
    pub unusual: bool,
}

/// A document that was read, or why it was not.
pub struct PacelineXmlReading(Result<Ready, Error>);

struct Ready {
    document: Document,
    ops: Vec<PacelineXmlOp>,
    stack: usize,
    unusual: bool,
}

impl Ready {
    fn new(mut document: Document, text: &[u8], convert: bool) -> Self {
        let converted =
            if convert { std::str::from_utf8(text).ok().and_then(|text| document.converted(text).ok()) } else { None };
        let unusual = convert && converted.is_none();
        let program = converted.unwrap_or_else(|| document.plain());
        document.forget_elements();
        let Program { ops, stack } = program;
        Ready { document, ops: ops.into_iter().map(op).collect(), stack, unusual }
    }
}

fn op(op: Op) -> PacelineXmlOp {
    use crate::read::Source;
    let (kind, a, b) = match op {
        Op::Key(name) => (0, name, 0),
        Op::Text(span) if span.source == Source::Document => (1, span.at, span.length),
        Op::Text(span) => (2, span.at, span.length),
        Op::Hash(pairs) => (3, pairs, 0),
        Op::Array(count) => (4, count, 0),
        Op::Nil => (5, 0, 0),
        Op::Empty => (6, 0, 0),
        Op::Allowed(name) => (7, name, 0),
        Op::Convert(name, after) => (8, name, after),
        Op::Call => (9, 0, 0),
        Op::File(name) => (10, name, 0),
    };
    PacelineXmlOp { kind, a, b }
}

fn text(text: &str) -> PacelineXmlText {
    PacelineXmlText { bytes: text.as_ptr(), length: text.len() }
}

const NOTHING: PacelineXmlText = PacelineXmlText { bytes: std::ptr::null(), length: 0 };

/// Reads a document, for `Hash.from_xml` if `convert`, else for `XmlMini.parse`. NULL if that fails for a reason of its
/// own, which is a bug.
///
/// # Safety
///
/// `bytes` must have `length` bytes to read, and `limits` must point to limits.
#[no_mangle]
pub unsafe extern "C" fn paceline_xml_read(
    bytes: *const u8,
    length: usize,
    limits: *const PacelineXmlLimits,
    convert: bool,
) -> *mut PacelineXmlReading {
    // SAFETY: that is what the caller promises.
    let (bytes, limits) = unsafe { (std::slice::from_raw_parts(bytes, length), &*limits) };
    let limits = Limits {
        bytes: limits.bytes,
        depth: limits.depth,
        elements: limits.elements,
        attributes: limits.attributes,
        expansion: limits.expansion,
    };
    let reading = catch_unwind(|| parse(bytes, &limits).map(|document| Ready::new(document, bytes, convert)));
    reading.map_or(std::ptr::null_mut(), |reading| Box::into_raw(Box::new(PacelineXmlReading(reading))))
}

/// Tells what is in a reading.
///
/// # Safety
///
/// `reading` must come from `paceline_xml_read` and not have been freed; `view` must be writable.
#[no_mangle]
pub unsafe extern "C" fn paceline_xml_view(reading: *const PacelineXmlReading, view: *mut PacelineXmlView) {
    // SAFETY: that is what the caller promises.
    let reading = unsafe { &(*reading).0 };
    let told = match reading {
        Ok(ready) => PacelineXmlView {
            message: NOTHING,
            line: 0,
            column: 0,
            ops: ready.ops.as_ptr(),
            count: ready.ops.len(),
            stack: ready.stack,
            symbols: ready.document.symbols(),
            beside: text(ready.document.beside()),
            skipped: ready.document.skipped(),
            unusual: ready.unusual,
        },
        Err(error) => PacelineXmlView {
            message: text(&error.message),
            line: error.line,
            column: error.column,
            ops: std::ptr::null(),
            count: 0,
            stack: 0,
            symbols: 0,
            beside: NOTHING,
            skipped: 0,
            unusual: false,
        },
    };
    // SAFETY: as above.
    unsafe { view.write(told) };
}

/// The name with this number; nothing if there is none.
///
/// # Safety
///
/// `reading` must come from `paceline_xml_read` and not have been freed.
#[no_mangle]
pub unsafe extern "C" fn paceline_xml_symbol(reading: *const PacelineXmlReading, number: u32) -> PacelineXmlText {
    // SAFETY: that is what the caller promises.
    match unsafe { &(*reading).0 } {
        Ok(ready) if (number as usize) < ready.document.symbols() => text(ready.document.symbol(number)),
        _ => NOTHING,
    }
}

/// About how many bytes of memory a reading takes.
///
/// # Safety
///
/// `reading` must come from `paceline_xml_read` and not have been freed.
#[no_mangle]
pub unsafe extern "C" fn paceline_xml_size(reading: *const PacelineXmlReading) -> usize {
    // SAFETY: that is what the caller promises.
    match unsafe { &(*reading).0 } {
        Ok(ready) => ready.document.size() + ready.ops.capacity() * size_of::<PacelineXmlOp>(),
        Err(error) => error.message.len(),
    }
}

/// Ends a reading.
///
/// # Safety
///
/// `reading` must come from `paceline_xml_read` and not have been freed, or be NULL.
#[no_mangle]
pub unsafe extern "C" fn paceline_xml_free(reading: *mut PacelineXmlReading) {
    if !reading.is_null() {
        // SAFETY: it is a Box of ours, and this is the last that is heard of it.
        let reading = unsafe { Box::from_raw(reading) };
        // Nothing of it panics when it is dropped; if it did, this is where that would end.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(reading)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(document: &str, convert: bool) -> (Vec<u32>, String, bool) {
        let limits = PacelineXmlLimits { bytes: 1000, depth: 3, elements: 10, attributes: 5, expansion: 100 };
        let mut view = std::mem::MaybeUninit::uninit();
        // SAFETY: all of it is alive until it is freed at the end.
        unsafe {
            let reading = paceline_xml_read(document.as_ptr(), document.len(), &limits, convert);
            paceline_xml_view(reading, view.as_mut_ptr());
            let view = view.assume_init();
            let kinds = (0..view.count).map(|at| (*view.ops.add(at)).kind).collect();
            let mut told = String::new();
            if !view.message.bytes.is_null() {
                let message = std::slice::from_raw_parts(view.message.bytes, view.message.length);
                told = format!("{}:{}: {}", view.line, view.column, std::str::from_utf8(message).unwrap());
            }
            assert!(paceline_xml_size(reading) > 0 && paceline_xml_symbol(reading, u32::MAX).bytes.is_null());
            paceline_xml_free(reading);
            (kinds, told, view.unusual)
        }
    }

    #[test]
    fn steps_and_mistakes_come_through() {
        assert_eq!(read("<a b='1'>x&amp;</a>", false), (vec![0, 0, 1, 0, 2, 3, 3], String::new(), false));
        assert_eq!(read("<a><b>x</b></a>", true), (vec![0, 0, 1, 3, 3], String::new(), false));
        assert!(read("<a __content__='1'/>", true).2);
        assert_eq!(read("<a>\n<b></a>", false).1, "2:4: end tag \"</a>\" where element \"b\" is open");
    }
}
