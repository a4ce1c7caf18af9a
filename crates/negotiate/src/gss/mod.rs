//! GSS-API (RFC 2743, 2744) as far as it is needed, with owners for what the library hands out. It decides nothing:
//! which realms may sign in, and what an error means to people, is said elsewhere.
#![allow(unsafe_code)]

mod library;

use std::{
    ffi::{c_int, CString},
    path::Path,
    ptr,
    sync::Arc,
};

use library::{Bindings, Handle, KeyValue, KeyValues, Library, LoadError, Oid, OidSet, RawBuffer, Word};

use crate::bindings::ChannelBindings;

/// The library's name, for the loader.
pub const LIBRARY: &str = "libgssapi_krb5.so.2";

static SPNEGO: &[u8] = &[0x2b, 6, 1, 5, 5, 2];
static KERBEROS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2];
static NTLM: &[u8] = &[0x2b, 6, 1, 4, 1, 0x82, 0x37, 2, 2, 10];
/// GSS_C_NT_HOSTBASED_SERVICE
static HOSTBASED_SERVICE: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 1, 4];

const ACCEPT: c_int = 2;
const CODE_OF_GSS: c_int = 1;
const CODE_OF_MECHANISM: c_int = 2;
const CONTINUE_NEEDED: Word = 1;
const ERROR: Word = 0xffff_0000;
const INDEFINITE: Word = Word::MAX;
const ANONYMOUS: Word = 64;
const MUTUAL: Word = 2;
const CHANNEL_BOUND: Word = 2048;

/// What the library says went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GssError {
    /// The routine error, as RFC 2744 numbers them: 4 is BAD_BINDINGS.
    pub routine: u32,
    /// The mechanism's own number: one of krb5.h.
    pub code: i32,
    pub text: String,
}

impl std::fmt::Display for GssError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for GssError {}

/// The library.
#[derive(Clone)]
pub struct Gss(Arc<Library>);

impl Gss {
    /// # Errors
    /// The library can't be loaded, or lacks a function.
    pub fn load(path: &Path) -> Result<Gss, LoadError> {
        let library = Arc::new(Library::load(path)?);
        // Never unloaded: it leaves destructors behind for each thread that called it.
        std::mem::forget(library.clone());
        Ok(Gss(library))
    }

    /// Whether there is a mechanism for NTLM.
    pub fn has_ntlm(&self) -> bool {
        let (mut minor, mut set) = (0, ptr::null_mut());
        // SAFETY: both are places that the library may write to.
        if unsafe { (self.0.gss_indicate_mechs)(&mut minor, &mut set) } & ERROR != 0 || set.is_null() {
            return false;
        }
        // SAFETY: the library made the set: `count` numbers lie at `elements`, and they live until the set is released.
        let found = unsafe {
            let all = (0..(*set).count).map(|index| &*(*set).elements.add(index));
            all.into_iter().any(|oid| number(oid) == NTLM)
        };
        // SAFETY: the set is the library's, and released once.
        unsafe { (self.0.gss_release_oid_set)(&mut minor, &mut set) };
        found
    }

    /// The keys of a keytab, to accept with. With NTLM only those of services of the class HTTP: gss-ntlmssp needs a
    /// name (1.2.0 follows a null pointer without one), and this one leaves the host open.
    ///
    /// # Errors
    /// What the library says.
    pub fn acceptor(&self, keytab: &Path, ntlm: bool, replay_cache: Option<&str>) -> Result<Credential, GssError> {
        let invalid = |_| GssError { routine: 0, code: 0, text: "a path has a zero byte".into() };
        let keytab = CString::new(format!("FILE:{}", keytab.display())).map_err(invalid)?;
        let replay_cache = replay_cache.map(CString::new).transpose().map_err(invalid)?;
        let mut store = vec![KeyValue { key: c"keytab".as_ptr(), value: keytab.as_ptr() }];
        if let Some(cache) = &replay_cache {
            store.push(KeyValue { key: c"rcache".as_ptr(), value: cache.as_ptr() });
        }
        let store = KeyValues { count: store.len() as Word, elements: store.as_ptr() };
        let mut mechanisms = vec![Oid::of(SPNEGO), Oid::of(KERBEROS)];
        let mut inner = vec![Oid::of(KERBEROS)];
        if ntlm {
            mechanisms.push(Oid::of(NTLM));
            inner.push(Oid::of(NTLM));
        }
        let wanted = OidSet { count: mechanisms.len(), elements: mechanisms.as_ptr() };
        let inner = OidSet { count: inner.len(), elements: inner.as_ptr() };
        let name = if ntlm { self.service("HTTP")? } else { Name { handle: ptr::null_mut(), library: self.0.clone() } };
        let (mut minor, mut handle) = (0, ptr::null_mut());
        // SAFETY: what is pointed to lives until after the call, and the library copies it.
        let major = unsafe {
            (self.0.gss_acquire_cred_from)(
                &mut minor,
                name.handle,
                INDEFINITE,
                &wanted,
                ACCEPT,
                &store,
                &mut handle,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        self.check(major, minor)?;
        let credential = Credential { handle, library: self.0.clone() };
        // SAFETY: the handle was just made, and nobody else has it; the set is copied.
        let major = unsafe { (self.0.gss_set_neg_mechs)(&mut minor, credential.handle, &inner) };
        self.check(major, minor)?;
        Ok(credential)
    }

    /// The name of a service, `HTTP@web.example.com`, or of a class of services, `HTTP`.
    fn service(&self, text: &str) -> Result<Name, GssError> {
        let mut name = Name { handle: ptr::null_mut(), library: self.0.clone() };
        let (mut minor, kind) = (0, Oid::of(HOSTBASED_SERVICE));
        // SAFETY: the text and its kind live until after the call, and are copied.
        let major =
            unsafe { (self.0.gss_import_name)(&mut minor, &RawBuffer::view(text.as_bytes()), &kind, &mut name.handle) };
        self.check(major, minor)?;
        Ok(name)
    }

    fn check(&self, major: Word, minor: Word) -> Result<(), GssError> {
        if major & ERROR == 0 {
            return Ok(());
        }
        let text = match (self.message(minor, CODE_OF_MECHANISM), self.message(major, CODE_OF_GSS)) {
            (Some(own), _) if minor != 0 => own,
            (_, Some(general)) => general,
            _ => "it says nothing".into(),
        };
        Err(GssError { routine: major >> 16 & 0xff, code: minor as i32, text })
    }

    fn message(&self, status: Word, kind: c_int) -> Option<String> {
        let (mut minor, mut more, mut text) = (0, 0, self.buffer());
        // SAFETY: all three are places to write to; no mechanism means all of them.
        let major =
            unsafe { (self.0.gss_display_status)(&mut minor, status, kind, ptr::null(), &mut more, &mut text.raw) };
        // Texts of the library are one line; whatever it repeats of a ticket is not.
        (major & ERROR == 0).then(|| String::from_utf8_lossy(text.bytes()).escape_debug().take(400).collect())
    }

    fn buffer(&self) -> Buffer {
        Buffer { raw: RawBuffer::EMPTY, library: self.0.clone() }
    }

    fn display(&self, name: &Name) -> Result<String, GssError> {
        let (mut minor, mut text) = (0, self.buffer());
        // SAFETY: the name is the library's and lives; the rest are places to write to.
        let major = unsafe { (self.0.gss_display_name)(&mut minor, name.handle, &mut text.raw, ptr::null_mut()) };
        self.check(major, minor)?;
        let bytes = text.bytes();
        // gss-ntlmssp counts the zero that ends a text. What is no UTF-8 gets a character that no name has.
        let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
        Ok(String::from_utf8(bytes.to_vec()).unwrap_or_else(|_| "\0".into()))
    }

    /// An attribute of a name that the mechanism vouches for.
    fn attribute(&self, name: &Name, attribute: &str) -> Option<Vec<u8>> {
        let (mut minor, mut authenticated, mut complete, mut more) = (0, 0, 0, -1);
        let (mut value, mut display) = (self.buffer(), self.buffer());
        // SAFETY: the name and the attribute live until after the call; the rest are places to write to.
        let major = unsafe {
            (self.0.gss_get_name_attribute)(
                &mut minor,
                name.handle,
                &RawBuffer::view(attribute.as_bytes()),
                &mut authenticated,
                &mut complete,
                &mut value.raw,
                &mut display.raw,
                &mut more,
            )
        };
        (major & ERROR == 0 && authenticated != 0).then(|| value.bytes().to_vec())
    }
}

/// The bytes of a number.
fn number(oid: &Oid) -> &[u8] {
    if oid.elements.is_null() {
        return b"";
    }
    // SAFETY: the caller has put `length` bytes there, which live as long as it.
    unsafe { std::slice::from_raw_parts(oid.elements.cast(), oid.length as usize) }
}

/// Bytes that the library has allocated.
struct Buffer {
    raw: RawBuffer,
    library: Arc<Library>,
}

impl Buffer {
    fn bytes(&self) -> &[u8] {
        if self.raw.value.is_null() {
            return b"";
        }
        // SAFETY: the library has put `length` bytes there, and they live until the buffer is released.
        unsafe { std::slice::from_raw_parts(self.raw.value.cast(), self.raw.length) }
    }
}

/// Owners of what the library hands out.
macro_rules! owner {
    ($(#[$about:meta])* $name:ident, $release:expr) => {
        $(#[$about])*
        pub struct $name {
            handle: Handle,
            library: Arc<Library>,
        }

        impl Drop for $name {
            fn drop(&mut self) {
                if !self.handle.is_null() {
                    let release: fn(&Library, &mut Word, &mut Handle) -> Word = $release;
                    let _ = release(&self.library, &mut 0, &mut self.handle);
                }
            }
        }

        // SAFETY: the library may be called from any thread; it ties nothing of these to one.
        unsafe impl Send for $name {}
    };
}

owner!(
    /// The keys to accept with.
    Credential,
    // SAFETY: the handle is the library's own, and released once.
    |library, minor, handle| unsafe { (library.gss_release_cred)(minor, handle) }
);
// SAFETY: the library locks a credential while it uses it.
unsafe impl Sync for Credential {}

owner!(
    /// Somebody's name.
    Name,
    // SAFETY: the handle is the library's own, and released once.
    |library, minor, handle| unsafe { (library.gss_release_name)(minor, handle) }
);
owner!(
    /// A conversation about who somebody is.
    Context,
    // SAFETY: the handle is the library's own, and released once; no token is asked for.
    |library, minor, handle| unsafe { (library.gss_delete_sec_context)(minor, handle, ptr::null_mut()) }
);

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the library allocated what is in it, and takes an empty one for what it is.
        unsafe { (self.library.gss_release_buffer)(&mut 0, &mut self.raw) };
    }
}

/// What came of one token.
pub enum Step {
    /// Another one is needed.
    Continue(Vec<u8>),
    Established(Established),
}

/// Who it was, and how it was proved.
pub struct Established {
    /// For the other side. Empty: there is none.
    pub reply: Vec<u8>,
    /// As the mechanism displays it.
    pub source: String,
    /// For which service the ticket was, `HTTP/web.example.com@EXAMPLE.COM`.
    pub target: Option<String>,
    pub ntlm: bool,
    pub anonymous: bool,
    pub bound: bool,
    /// How long it holds (s). None: for ever.
    pub lifetime: Option<u32>,
    /// `urn:mspac:logon-info`
    pub logon_info: Option<Vec<u8>>,
}

impl Context {
    pub fn new(gss: &Gss) -> Context {
        Context { handle: ptr::null_mut(), library: gss.0.clone() }
    }

    /// Takes the client's next token. It may block: on the replay cache, and with NTLM on the domain's controller.
    ///
    /// # Errors
    /// What the library says. The conversation is over then.
    pub fn accept(
        &mut self,
        credential: &Credential,
        token: &[u8],
        bindings: Option<&ChannelBindings>,
    ) -> Result<Step, GssError> {
        let gss = Gss(self.library.clone());
        let bindings = bindings.map(raw);
        let mut source = Name { handle: ptr::null_mut(), library: self.library.clone() };
        let (mut minor, mut flags, mut lifetime) = (0, 0, 0);
        let (mut mechanism, mut reply) = (ptr::null(), gss.buffer());
        // SAFETY: token, bindings and credential live until after the call; the rest are places to write to. The
        // context is this one's alone. No delegated credential is asked for, so none is kept.
        let major = unsafe {
            (self.library.gss_accept_sec_context)(
                &mut minor,
                &mut self.handle,
                credential.handle,
                &RawBuffer::view(token),
                bindings.as_ref().map_or(ptr::null(), |bindings| bindings),
                &mut source.handle,
                &mut mechanism,
                &mut reply.raw,
                &mut flags,
                &mut lifetime,
                ptr::null_mut(),
            )
        };
        gss.check(major, minor)?;
        let reply = reply.bytes().to_vec();
        if major & CONTINUE_NEEDED != 0 {
            return Ok(Step::Continue(reply));
        }
        // SAFETY: a mechanism's number is the library's own, and lives as long as that.
        let ntlm = !mechanism.is_null() && number(unsafe { &*mechanism }) == NTLM;
        Ok(Step::Established(Established {
            reply,
            source: gss.display(&source)?,
            target: if ntlm { None } else { self.target(&gss) },
            ntlm,
            anonymous: flags & ANONYMOUS != 0,
            bound: flags & CHANNEL_BOUND != 0,
            lifetime: (lifetime != INDEFINITE).then_some(lifetime),
            logon_info: gss.attribute(&source, "urn:mspac:logon-info"),
        }))
    }

    fn target(&self, gss: &Gss) -> Option<String> {
        let mut name = Name { handle: ptr::null_mut(), library: self.library.clone() };
        let mut minor = 0;
        // SAFETY: the context is established; what is not asked for may be null.
        let major = unsafe {
            (self.library.gss_inquire_context)(
                &mut minor,
                self.handle,
                ptr::null_mut(),
                &mut name.handle,
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        (major & ERROR == 0 && !name.handle.is_null()).then(|| gss.display(&name).ok()).flatten()
    }

    /// The other side: makes the next token for a service (`HTTP@web.example.com`) from the caller's own tickets, and
    /// asks the server to prove itself too. None: established, and nothing is left to send.
    ///
    /// # Errors
    /// What the library says: no ticket, an unknown service, a server that is another one.
    pub fn initiate(
        &mut self,
        service: &str,
        token: &[u8],
        bindings: Option<&ChannelBindings>,
    ) -> Result<Option<Vec<u8>>, GssError> {
        let gss = Gss(self.library.clone());
        let bindings = bindings.map(raw);
        let target = gss.service(service)?;
        let (mut minor, mut reply) = (0, gss.buffer());
        let mechanism = Oid::of(SPNEGO);
        // SAFETY: what is pointed to lives until after the call; the rest are places to write to, or null.
        let major = unsafe {
            (self.library.gss_init_sec_context)(
                &mut minor,
                ptr::null_mut(),
                &mut self.handle,
                target.handle,
                &mechanism,
                MUTUAL | if bindings.is_some() { CHANNEL_BOUND } else { 0 },
                0,
                bindings.as_ref().map_or(ptr::null(), |bindings| bindings),
                &RawBuffer::view(token),
                ptr::null_mut(),
                &mut reply.raw,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        gss.check(major, minor)?;
        let reply = reply.bytes().to_vec();
        Ok((major & CONTINUE_NEEDED != 0 || !reply.is_empty()).then_some(reply))
    }
}

fn raw(bindings: &ChannelBindings) -> Bindings {
    Bindings {
        initiator_type: 0,
        initiator: RawBuffer::EMPTY,
        acceptor_type: 0,
        acceptor: RawBuffer::EMPTY,
        application_data: RawBuffer::view(bindings.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_an_error_and_no_panic() {
        let error = Gss::load(Path::new("libno-such-kerberos.so.2")).err().expect("an error");
        assert!(error.to_string().contains("libno-such-kerberos.so.2"), "{error}");
        // A library without these functions.
        let error = Gss::load(Path::new("libc.so.6")).err().expect("an error");
        assert!(error.to_string().contains("gss_"), "{error}");
    }
}
