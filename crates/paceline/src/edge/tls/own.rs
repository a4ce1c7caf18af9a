//! The certificate that the server makes for itself, for https in development: by mkcert's certificate authority where
//! mkcert is installed, otherwise it signs itself. It never serves one.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

use crate::{
    config::{CertificatePair, OwnCertificate},
    support::{clock, private_file},
};

const DAY: Duration = Duration::from_secs(86_400);
/// How long one is valid; systems of Apple trust none that is valid for longer than 825 days.
const VALID: Duration = DAY.saturating_mul(397);
/// After so long another one is made.
const KEPT: Duration = DAY.saturating_mul(300);

/// There can be no such certificate.
#[derive(Debug, thiserror::Error)]
pub enum OwnCertificateError {
    #[error("no certificate for https: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("no certificate for https: {}: {error}", path.display())]
    NotWritten { path: PathBuf, error: io::Error },
}

/// Makes the files, unless those of an earlier start will do. Ok: what the log says.
pub fn prepare(own: &OwnCertificate) -> Result<String, OwnCertificateError> {
    let CertificatePair { cert, key } = &own.pair;
    let authority = mkcert_authority();
    let maker = authority.as_ref().map_or("this server".into(), |folder| folder.display().to_string());
    let made_for = format!("{} by {maker}\n", own.names.join(" "));
    let note = cert.with_extension("txt");
    let by_mkcert = format!("https has a certificate by mkcert's authority: {}", cert.display());
    let by_itself =
        |why: &str| format!("https has a certificate that signs itself, so browsers warn{why}: {}", cert.display());
    let hint = " (with mkcert installed, and `mkcert -install`, they don't)";
    if is_current(own, &note, &made_for) {
        return Ok(if authority.is_some() { by_mkcert } else { by_itself(hint) });
    }
    let not_written = |path: &Path| {
        let path = path.to_path_buf();
        |error| OwnCertificateError::NotWritten { path, error }
    };
    // The last to be written: without it the others count for nothing.
    let _ = fs::remove_file(&note);
    let told = match authority.map(|_| by_mkcert_s_authority(own)) {
        Some(Ok(())) => by_mkcert,
        failed => {
            let (certificate, private) = self_signed(&own.names)?;
            private_file::replace(key, private.as_bytes()).map_err(not_written(key))?;
            private_file::replace(cert, certificate.as_bytes()).map_err(not_written(cert))?;
            match failed {
                // It is asked again at the next start.
                Some(Err(why)) => return Ok(by_itself(&format!(" (mkcert failed: {why})"))),
                _ => by_itself(hint),
            }
        }
    };
    private_file::replace(&note, made_for.as_bytes()).map_err(not_written(&note))?;
    Ok(told)
}

/// Whether the files were made for the same names by the same authority, and not too long ago.
fn is_current(own: &OwnCertificate, note: &Path, made_for: &str) -> bool {
    let is_young = |path: &Path| {
        let age = fs::metadata(path).and_then(|found| found.modified()).map(|made| made.elapsed().unwrap_or_default());
        age.is_ok_and(|age| age < KEPT)
    };
    fs::read_to_string(note).is_ok_and(|text| text == made_for) && is_young(&own.pair.cert) && is_young(&own.pair.key)
}

fn self_signed(names: &[String]) -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Paceline, for development");
    let now = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_millis(clock::unix_millis());
    (params.not_before, params.not_after) = (now - DAY, now + VALID);
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

/// Where mkcert keeps its certificate authority. None: it is not installed, or has none yet.
fn mkcert_authority() -> Option<PathBuf> {
    let told = Command::new("mkcert").arg("-CAROOT").stdin(Stdio::null()).output().ok()?;
    let folder = PathBuf::from(String::from_utf8(told.stdout).ok()?.trim_end());
    (told.status.success() && folder.join("rootCA.pem").is_file()).then_some(folder)
}

/// Has mkcert make the files. Err: with what it said last.
fn by_mkcert_s_authority(own: &OwnCertificate) -> io::Result<()> {
    // So the folder is made, and the key is nobody else's to read from the beginning.
    private_file::replace(&own.pair.key, b"")?;
    let mut mkcert = Command::new("mkcert");
    mkcert.arg("-cert-file").arg(&own.pair.cert).arg("-key-file").arg(&own.pair.key).args(&own.names);
    let told = mkcert.stdin(Stdio::null()).output()?;
    if told.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&told.stderr);
    Err(io::Error::other(said.lines().last().unwrap_or("it said nothing").to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::test_folder::Folder;

    #[test]
    fn one_is_kept_until_other_names_are_wanted() {
        let folder = Folder::with(&[]);
        let pair = CertificatePair { cert: folder.0.join("https/a.pem"), key: folder.0.join("https/a-key.pem") };
        let mut own = OwnCertificate { pair: pair.clone(), names: vec!["localhost".into(), "127.0.0.1".into()] };
        let read = || fs::read_to_string(&pair.cert).unwrap();
        prepare(&own).unwrap();
        let first = read();
        prepare(&own).unwrap();
        assert_eq!(read(), first);
        own.names.push("shop.test".into());
        prepare(&own).unwrap();
        assert_ne!(read(), first);
    }
}
