//! Reads a keytab: whose keys are in it, in which versions and for which encryption. The keys themselves are skipped:
//! only the Kerberos library reads them. It never writes.
//!
//! The format is MIT's (its documentation, "Keytab file format", version 2).

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::token::etype_name;

/// Largest keytab that is read (bytes). One with a hundred services has some tens of kilobytes.
const MAX_SIZE: u64 = 4 << 20;

/// A key's label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// `HTTP/web.example.com`
    pub service: String,
    pub realm: String,
    pub kvno: u32,
    pub etype: i32,
    /// When the key was written (Unix time, s).
    pub written: u32,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (service, realm) = (self.service.escape_debug(), self.realm.escape_debug());
        write!(f, "{service}@{realm} (key version {}, {})", self.kvno, etype_name(self.etype))
    }
}

/// Why there are no keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    NotThere(PathBuf),
    Permission(PathBuf),
    Unreadable(PathBuf, String),
    /// It is no keytab, or one that is cut off.
    Malformed(PathBuf, &'static str),
    Empty(PathBuf),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NotThere(path) => write!(f, "the keytab {} does not exist", path.display()),
            Problem::Permission(path) => write!(f, "the keytab {} may not be read by this account", path.display()),
            Problem::Unreadable(path, why) => write!(f, "the keytab {} can't be read: {why}", path.display()),
            Problem::Malformed(path, what) => write!(f, "{} is no keytab: {what}", path.display()),
            Problem::Empty(path) => write!(f, "the keytab {} has no keys", path.display()),
        }
    }
}

/// The labels of a keytab's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keytab {
    pub entries: Vec<Entry>,
}

impl Keytab {
    /// # Errors
    /// The file can't be read, is no keytab, or has no keys.
    pub fn read(path: &Path) -> Result<Keytab, Problem> {
        let unreadable = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => Problem::NotThere(path.into()),
            io::ErrorKind::PermissionDenied => Problem::Permission(path.into()),
            _ => Problem::Unreadable(path.into(), error.to_string()),
        };
        let metadata = fs::metadata(path).map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(Problem::Malformed(path.into(), "it is no plain file"));
        }
        if metadata.len() > MAX_SIZE {
            return Err(Problem::Malformed(path.into(), "it is larger than 4 MB"));
        }
        let bytes = fs::read(path).map_err(unreadable)?;
        let keytab = Keytab::parse(&bytes).map_err(|what| Problem::Malformed(path.into(), what))?;
        if keytab.entries.is_empty() {
            Err(Problem::Empty(path.into()))
        } else {
            Ok(keytab)
        }
    }

    /// # Errors
    /// What is wrong with the bytes.
    pub fn parse(bytes: &[u8]) -> Result<Keytab, &'static str> {
        let mut rest = Bytes(match bytes {
            [5, 2, rest @ ..] => rest,
            [5, 1, ..] => return Err("its format is version 1, which Kerberos 5 has not written since 1996"),
            _ => return Err("it does not begin with the mark of one (05 02)"),
        });
        let mut entries = Vec::new();
        while !rest.0.is_empty() {
            let size = rest.u32().ok_or("it is cut off")? as i32;
            let record = rest.take(size.unsigned_abs() as usize).ok_or("it is cut off")?;
            match size {
                // A key that was removed leaves a hole.
                ..0 => {}
                // The end, in a file that was written over a longer one.
                0 => break,
                1.. => entries.push(entry(&mut Bytes(record)).ok_or("one of its keys is cut off")?),
            }
        }
        Ok(Keytab { entries })
    }

    /// The realms that it has keys of, each once.
    pub fn realms(&self) -> Vec<String> {
        let mut realms: Vec<_> = self.entries.iter().map(|entry| entry.realm.clone()).collect();
        realms.sort();
        realms.dedup();
        realms
    }

    /// The services, each once: `HTTP/web.example.com@EXAMPLE.COM`.
    pub fn services(&self) -> Vec<String> {
        let mut services: Vec<_> =
            self.entries.iter().map(|entry| format!("{}@{}", entry.service, entry.realm)).collect();
        services.sort();
        services.dedup();
        services
    }

    /// The keys of this service. Case is ignored, as Active Directory does.
    pub fn of<'a>(&'a self, service: &'a str, realm: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries
            .iter()
            .filter(move |entry| entry.service.eq_ignore_ascii_case(service) && entry.realm.eq_ignore_ascii_case(realm))
    }
}

fn entry(record: &mut Bytes<'_>) -> Option<Entry> {
    let parts = record.u16()?;
    let realm = record.text()?;
    let mut service = Vec::new();
    for _ in 0..parts {
        service.push(record.text()?);
    }
    let _name_type = record.u32()?;
    let written = record.u32()?;
    let short = u32::from(*record.take(1)?.first()?);
    let etype = i32::from(record.u16()? as i16);
    let length = record.u16()?;
    let _key = record.take(usize::from(length))?;
    // Versions above 255 follow the key.
    let kvno = record.u32().filter(|kvno| *kvno != 0).unwrap_or(short);
    Some(Entry { service: service.join("/"), realm, kvno, etype, written })
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<String> {
        let length = self.u16()?;
        Some(String::from_utf8_lossy(self.take(usize::from(length))?).into_owned())
    }
}

/// Which state of a file this is: a keytab that was replaced has another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    inode: u64,
}

impl Stamp {
    /// None: the file can't be seen.
    pub fn of(path: &Path) -> Option<Stamp> {
        use std::os::unix::fs::MetadataExt;
        let metadata = fs::metadata(path).ok()?;
        Some(Stamp { modified: metadata.modified().ok(), length: metadata.len(), inode: metadata.ino() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(service: &[&str], kvno8: u8, kvno: Option<u32>) -> Vec<u8> {
        let text = |text: &str| [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat();
        let mut bytes = (service.len() as u16).to_be_bytes().to_vec();
        bytes.extend(text("EXAMPLE.COM"));
        service.iter().for_each(|part| bytes.extend(text(part)));
        bytes.extend([0, 0, 0, 1, 0x65, 0, 0, 0, kvno8, 0, 18, 0, 4, 1, 2, 3, 4]);
        bytes.extend(kvno.map_or(Vec::new(), |kvno| kvno.to_be_bytes().to_vec()));
        [&(bytes.len() as u32).to_be_bytes()[..], &bytes].concat()
    }

    #[test]
    fn has_the_services_the_realms_and_long_key_versions() {
        let hole = [&(-6i32).to_be_bytes()[..], b"secret"].concat();
        let web = ["HTTP", "web.example.com"];
        let bytes = [b"\x05\x02".to_vec(), record(&web, 3, None), hole, record(&web, 44, Some(300))].concat();
        let keytab = Keytab::parse(&bytes).unwrap();
        assert_eq!(keytab.services(), ["HTTP/web.example.com@EXAMPLE.COM"]);
        assert_eq!(keytab.realms(), ["EXAMPLE.COM"]);
        let versions: Vec<_> = keytab.of("http/WEB.example.com", "example.com").map(|entry| entry.kvno).collect();
        assert_eq!(versions, [3, 300]);
    }

    #[test]
    fn what_is_no_keytab_says_why() {
        assert!(Keytab::parse(b"-----BEGIN").unwrap_err().contains("mark"));
        assert!(Keytab::parse(b"\x05\x01").unwrap_err().contains("version 1"));
        let whole = [b"\x05\x02".to_vec(), record(&["HTTP", "web"], 3, None)].concat();
        for end in 3..whole.len() {
            assert!(Keytab::parse(&whole[..end]).is_err());
        }
        let problem = Keytab::read(Path::new("/nonexistent/http.keytab")).unwrap_err();
        assert_eq!(problem.to_string(), "the keytab /nonexistent/http.keytab does not exist");
    }
}
