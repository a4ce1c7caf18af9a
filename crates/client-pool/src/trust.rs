//! TLS towards upstreams: whom we believe, and who we are. Verification is as strict as Net::HTTP's unless a call says
//! otherwise; sessions are resumed. It never opens a connection.

use std::{
    collections::HashMap,
    fs::OpenOptions,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::Arc,
    time::SystemTime,
};

use parking_lot::Mutex;
use rustls::{
    version::{TLS12, TLS13},
    ClientConfig, SupportedProtocolVersion,
};

use rustls_pki_types::{
    pem::{self, PemObject},
    CertificateDer,
};

use super::{
    failure::Failure,
    verifier::{Roots, Verifier},
    way::{certificates, private_key, TlsVersion, Trust, Verify},
};

/// Configurations in memory. Each has its own sessions.
const MAX: usize = 256;
/// Bytes of their certificates, but for the system's.
const MAX_HELD: usize = 32 << 20;
/// Bytes of a file of certificates; a system's bundle has a quarter of a megabyte. A call may name any file.
const MAX_FILE: u64 = 4 << 20;
/// Bytes of all files of a folder.
const MAX_FOLDER: u64 = 16 << 20;

/// Does something with the rights of the account that a call is made for.
pub type WithRights = Box<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

/// The configurations of calls that want the same, made once: to read the system's certificates takes milliseconds.
#[derive(Default)]
pub struct Trusts {
    made: Mutex<HashMap<(Trust, bool), BuiltTrust>>,
    /// The system's certificates.
    system: Mutex<Option<Arc<Roots>>>,
    /// None: with those of this process.
    rights: Option<WithRights>,
}

struct BuiltTrust {
    config: Arc<ClientConfig>,
    /// Bytes of certificates that it alone has.
    bytes: usize,
    /// When the file of certificates was changed.
    changed: Option<SystemTime>,
}

impl Trusts {
    /// Those whose files are read with such rights.
    pub fn with_rights(rights: WithRights) -> Trusts {
        Trusts { rights: Some(rights), ..Trusts::default() }
    }

    /// The configuration for this trust, which offers HTTP/2 or not. It may read files, so no event loop calls
    /// it.
    pub fn config(&self, trust: &Trust, only_http1: bool) -> Result<Arc<ClientConfig>, Failure> {
        let Some(rights) = &self.rights else { return self.find_or_make(trust, only_http1) };
        let mut config = None;
        rights(&mut || config = Some(self.find_or_make(trust, only_http1)));
        config.unwrap_or_else(|| Err(Failure::Tls("the rights of the account could not be taken".into())))
    }

    fn find_or_make(&self, trust: &Trust, only_http1: bool) -> Result<Arc<ClientConfig>, Failure> {
        let changed = trust.ca_file.as_deref().and_then(changed);
        let mut made = self.made.lock();
        let key = (trust.clone(), only_http1);
        if let Some(found) = made.get(&key).filter(|found| found.changed == changed) {
            return Ok(found.config.clone());
        }
        let roots = match trust.verify {
            Verify::Nothing => None,
            Verify::All | Verify::Chain => Some(self.roots(trust)?),
        };
        let is_system = roots.as_ref().is_none_or(|roots| self.is_system(roots));
        let bytes = trust.bytes() + roots.as_ref().filter(|_| !is_system).map_or(0, |roots| roots.bytes());
        let mut config = Self::make(trust, roots)?;
        config.alpn_protocols =
            if only_http1 { vec![b"http/1.1".to_vec()] } else { vec![b"h2".to_vec(), b"http/1.1".to_vec()] };
        let config = Arc::new(config);
        if made.len() >= MAX || made.values().map(|one| one.bytes).sum::<usize>() + bytes > MAX_HELD {
            made.clear();
        }
        made.insert(key, BuiltTrust { config: config.clone(), bytes, changed });
        Ok(config)
    }

    fn is_system(&self, roots: &Arc<Roots>) -> bool {
        self.system.lock().as_ref().is_some_and(|system| Arc::ptr_eq(system, roots))
    }

    fn make(trust: &Trust, roots: Option<Arc<Roots>>) -> Result<ClientConfig, Failure> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = versions(trust)?;
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions)
            .map_err(|error| Failure::Unsupported(error.to_string()))?;
        let verifier = Arc::new(Verifier { roots, any_name: trust.verify != Verify::All, provider });
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        match &trust.identity {
            None => Ok(builder.with_no_client_auth()),
            Some((chain, key)) => {
                let bad = |what: &str| Failure::Unsupported(format!("the client's {what} can't be read"));
                let chain = certificates(chain).ok_or_else(|| bad("certificate"))?;
                let key = private_key(key).ok_or_else(|| bad("private key"))?;
                builder.with_client_auth_cert(chain, key).map_err(|error| Failure::Unsupported(error.to_string()))
            }
        }
    }

    fn roots(&self, trust: &Trust) -> Result<Arc<Roots>, Failure> {
        let (file, folder) = (trust.ca_file.as_deref(), trust.ca_path.as_deref());
        if file.is_none() && folder.is_none() && trust.ca.is_empty() {
            let mut known = self.system.lock();
            return Ok(known.get_or_insert_with(|| Arc::new(Roots::new(system()))).clone());
        }
        let mut found = certificates(&trust.ca)
            .ok_or_else(|| Failure::Tls("the certificates to be trusted can't be read".into()))?;
        if let Some(file) = file {
            let unreadable =
                |error| Failure::Tls(format!("the certificates of {} can't be read: {error}", file.display()));
            found.extend(in_file(file).map_err(unreadable)?);
        }
        if let Some(folder) = folder {
            found.extend(std::env::split_paths(folder).flat_map(|folder| in_folder(&folder)));
        }
        if trust.system {
            found.extend(system());
        }
        Ok(Arc::new(Roots::new(found)))
    }
}

/// The certificates that OpenSSL trusts unless told otherwise.
fn system() -> Vec<CertificateDer<'static>> {
    let found = openssl_probe::probe();
    let mut all = found.cert_file.and_then(|file| in_file(&file).ok()).unwrap_or_default();
    all.extend(found.cert_dir.iter().flat_map(|folder| in_folder(folder)));
    all.sort_unstable_by(|one, other| one.as_ref().cmp(other.as_ref()));
    all.dedup();
    all
}

/// Reads a file of trusted certificates, to say early that it can't be used.
///
/// # Errors
/// The file can't be read, or has no certificate in it.
pub fn check_ca_file(path: &Path) -> io::Result<()> {
    match in_file(path) {
        Ok(found) if found.is_empty() => Err(io::Error::new(io::ErrorKind::InvalidData, "it has no certificate")),
        Ok(_) => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}

fn in_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    CertificateDer::pem_slice_iter(&content(path, MAX_FILE).map_err(pem::Error::Io)?).collect()
}

/// What a regular file has. Nothing else is waited for, as a FIFO would be.
fn content(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.len() > most {
        let why = format!("it is no regular file of at most {} MB", most >> 20);
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let mut content = Vec::new();
    // It may grow meanwhile.
    file.take(most).read_to_end(&mut content)?;
    Ok(content)
}

/// The certificates of a folder as OpenSSL finds them, by the hash of their subject (`openssl rehash`): files of other
/// names are not looked at, and may be anything.
fn in_folder(path: &Path) -> Vec<CertificateDer<'static>> {
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    let named = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_hash));
    let (mut found, mut left) = (Vec::new(), MAX_FOLDER);
    for entry in named {
        let Ok(content) = content(&entry.path(), left.min(MAX_FILE)) else { continue };
        left -= content.len() as u64;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&content).collect();
        found.extend(certificates.unwrap_or_default());
    }
    found
}

/// Whether this is a name as `openssl rehash` gives it: `8cb5ee0f.0`.
fn is_hash(name: &str) -> bool {
    let is_lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.split_once('.').is_some_and(|(hash, number)| {
        hash.len() == 8
            && hash.bytes().all(is_lower_hex)
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|found| found.modified()).ok()
}

fn versions(trust: &Trust) -> Result<Vec<&'static SupportedProtocolVersion>, Failure> {
    let (min, max) = (trust.min.unwrap_or(TlsVersion::Tls12), trust.max.unwrap_or(TlsVersion::Tls13));
    let both = [(TlsVersion::Tls12, &TLS12), (TlsVersion::Tls13, &TLS13)];
    let within: Vec<_> =
        both.into_iter().filter(|(version, _)| (min..=max).contains(version)).map(|(_, one)| one).collect();
    if within.is_empty() {
        Err(Failure::Unsupported("tls_min is above tls_max".into()))
    } else {
        Ok(within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_rehash_are_certificates() {
        assert!(is_hash("8cb5ee0f.0") && is_hash("00000000.12"));
        for name in ["8cb5ee0f.r0", "8cb5ee0f", "8cb5ee0f.", "8CB5EE0F.0", "8cb5ee0.0", "server.pem", "8cb5ee0f.0.pem"]
        {
            assert!(!is_hash(name), "{name}");
        }
    }

    fn trusting(file: &Path) -> Trust {
        Trust { ca_file: Some(file.into()), ..Trust::default() }
    }

    #[test]
    fn a_file_of_certificates_is_a_regular_one_and_has_a_bound() {
        let folder = std::env::temp_dir().join(format!("paceline-trust-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let why = |path: &Path| match Trusts::default().config(&trusting(path), true) {
            Err(Failure::Tls(why)) => why,
            other => panic!("{other:?}"),
        };
        let (fifo, large) = (folder.join("fifo"), folder.join("large"));
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        std::fs::File::create(&large).unwrap().set_len(MAX_FILE + 1).unwrap();
        for path in [&fifo, &large, Path::new("/dev/zero"), &folder] {
            assert!(why(path).contains("it is no regular file of at most 4 MB"), "{}: {}", path.display(), why(path));
        }
        // In a folder they are passed over.
        for name in ["11111111.0", "22222222.0"] {
            std::fs::hard_link(if name.starts_with('1') { &fifo } else { &large }, folder.join(name)).unwrap();
        }
        assert!(in_folder(&folder).is_empty());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_held_of_certificates_has_a_bound() {
        let trusts = Trusts::default();
        // DER that is no certificate is held as it came.
        let trust = |nth: u32| {
            let mut ca = vec![0; 4 << 20];
            ca[..6].copy_from_slice(&[0x30, 0x84, 0, 0x3f, 0xff, 0xfa]);
            ca[6..10].copy_from_slice(&nth.to_be_bytes());
            Trust { ca, ..Trust::default() }
        };
        for nth in 0..40 {
            trusts.config(&trust(nth), true).unwrap();
            assert!(trusts.made.lock().values().map(|one| one.bytes).sum::<usize>() <= MAX_HELD);
        }
        assert!(trusts.made.lock().len() > 1);
    }

    #[test]
    fn files_are_read_with_the_rights_that_are_given() {
        static ASKED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let trusts = Trusts::with_rights(Box::new(|_| {}));
        assert!(
            matches!(trusts.config(&trusting(Path::new("/nowhere")), true), Err(Failure::Tls(why)) if why.contains("rights"))
        );
        let trusts = Trusts::with_rights(Box::new(|act| {
            ASKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            act();
        }));
        assert!(
            matches!(trusts.config(&trusting(Path::new("/nowhere")), true), Err(Failure::Tls(why)) if why.contains("No such file"))
        );
        assert_eq!(ASKED.load(std::sync::atomic::Ordering::Relaxed), 1);
    }
}
