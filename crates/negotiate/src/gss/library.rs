//! The functions of libgssapi_krb5 that are called, found at run time: a server without single sign-on starts without
//! the library. Declarations are those of gssapi.h and gssapi_ext.h (MIT Kerberos 1.11 and later). It calls none of them.
#![allow(unsafe_code)]

use std::{
    ffi::{c_char, c_int, c_void},
    path::Path,
    ptr,
};

pub type Word = u32;

/// gss_buffer_desc
#[repr(C)]
pub struct RawBuffer {
    pub length: usize,
    pub value: *mut c_void,
}

/// gss_OID_desc
#[repr(C)]
pub struct Oid {
    pub length: Word,
    pub elements: *const c_void,
}

/// gss_OID_set_desc
#[repr(C)]
pub struct OidSet {
    pub count: usize,
    pub elements: *const Oid,
}

/// gss_key_value_element_desc
#[repr(C)]
pub struct KeyValue {
    pub key: *const c_char,
    pub value: *const c_char,
}

/// gss_key_value_set_desc
#[repr(C)]
pub struct KeyValues {
    pub count: Word,
    pub elements: *const KeyValue,
}

/// gss_channel_bindings_struct
#[repr(C)]
pub struct Bindings {
    pub initiator_type: Word,
    pub initiator: RawBuffer,
    pub acceptor_type: Word,
    pub acceptor: RawBuffer,
    pub application_data: RawBuffer,
}

/// gss_name_t, gss_cred_id_t and gss_ctx_id_t: pointers into the library.
pub type Handle = *mut c_void;

impl RawBuffer {
    pub const EMPTY: RawBuffer = RawBuffer { length: 0, value: ptr::null_mut() };

    /// A view of bytes that the library only reads, and only while they live.
    pub fn view(bytes: &[u8]) -> RawBuffer {
        RawBuffer { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
    }
}

impl Oid {
    /// Of a number that lives as long as the program.
    pub const fn of(bytes: &'static [u8]) -> Oid {
        Oid { length: bytes.len() as Word, elements: bytes.as_ptr().cast() }
    }
}

/// Why the library can't be used: it can't be loaded, or lacks a function.
#[derive(Debug)]
pub struct LoadError(libloading::Error);

impl std::fmt::Display for LoadError {
    /// The loader's own words are the source of what is around them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match std::error::Error::source(&self.0) {
            Some(words) => write!(f, "{words}"),
            None => write!(f, "{}", self.0),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),* $(,)?);)*) => {
        /// The library, and its functions.
        pub struct Library {
            $(pub $name: unsafe extern "C" fn(minor: *mut Word, $($argument),*) -> Word,)*
            _library: libloading::Library,
        }

        impl Library {
            /// # Errors
            /// The library can't be loaded, or lacks a function.
            pub fn load(path: &Path) -> Result<Library, LoadError> {
                // SAFETY: loading runs the library's initializers. It is the system's library of this name, or the one
                // that the operator has named.
                let library = unsafe { libloading::Library::new(path) }.map_err(LoadError)?;
                Ok(Library {
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        // SAFETY: the type is the one that the library's header declares for this name. The pointer
                        // lives as long as the library, which is kept beside it.
                        *unsafe { library.get(name.as_bytes()) }.map_err(LoadError)?
                    },)*
                    _library: library,
                })
            }
        }
    };
}

functions! {
    gss_acquire_cred_from: fn(Handle, Word, *const OidSet, c_int, *const KeyValues, *mut Handle, *mut *mut OidSet, *mut Word);
    gss_set_neg_mechs: fn(Handle, *const OidSet);
    gss_accept_sec_context: fn(
        *mut Handle, Handle, *const RawBuffer, *const Bindings, *mut Handle, *mut *const Oid, *mut RawBuffer, *mut Word, *mut Word, *mut Handle,
    );
    gss_init_sec_context: fn(
        Handle, *mut Handle, Handle, *const Oid, Word, Word, *const Bindings, *const RawBuffer, *mut *const Oid, *mut RawBuffer, *mut Word, *mut Word,
    );
    gss_inquire_context: fn(Handle, *mut Handle, *mut Handle, *mut Word, *mut *const Oid, *mut Word, *mut c_int, *mut c_int);
    gss_import_name: fn(*const RawBuffer, *const Oid, *mut Handle);
    gss_display_name: fn(Handle, *mut RawBuffer, *mut *const Oid);
    gss_display_status: fn(Word, c_int, *const Oid, *mut Word, *mut RawBuffer);
    gss_get_name_attribute: fn(Handle, *const RawBuffer, *mut c_int, *mut c_int, *mut RawBuffer, *mut RawBuffer, *mut c_int);
    gss_indicate_mechs: fn(*mut *mut OidSet);
    gss_release_oid_set: fn(*mut *mut OidSet);
    gss_release_buffer: fn(*mut RawBuffer);
    gss_release_name: fn(*mut Handle);
    gss_release_cred: fn(*mut Handle);
    gss_delete_sec_context: fn(*mut Handle, *mut RawBuffer);
}
