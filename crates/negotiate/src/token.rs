//! What a token is, before anybody acts on it: Kerberos or NTLM, bare or in SPNEGO (RFC 4178), and what stands on the
//! outside of its ticket: for which service, encrypted with which version of its key (RFC 4120). All of this can be
//! forged, so it decides nothing but what is refused at once and how a failure is explained. Bounded; it never panics.

use std::fmt;

use crate::der::{integer, string, Reader};

/// Mechanisms that a token of SPNEGO may list.
const MAX_MECHANISMS: usize = 16;
/// Parts of a principal's name.
const MAX_PARTS: usize = 8;

const SPNEGO: &[u8] = &[0x2b, 6, 1, 5, 5, 2];
const KERBEROS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2];
/// Kerberos, with the number that Windows 2000 gave it by mistake and that is still sent first.
const MICROSOFT_KERBEROS: &[u8] = &[0x2a, 0x86, 0x48, 0x82, 0xf7, 0x12, 1, 2, 2];
const NTLM: &[u8] = &[0x2b, 6, 1, 4, 1, 0x82, 0x37, 2, 2, 10];
const NTLM_SIGNATURE: &[u8] = b"NTLMSSP\0";

/// What a token is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// With the outside of its ticket, if that could be read.
    Kerberos(Option<Ticket>),
    /// NTLM alone is offered: the browser has no ticket for this server.
    Ntlm,
    /// A later token of a conversation that has begun.
    Next,
    Other,
}

/// The outside of a ticket, which is not encrypted. Anybody can write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// `HTTP/web.example.com`
    pub service: String,
    pub realm: String,
    /// The version of the service's key. None: the KDC did not say.
    pub kvno: Option<u32>,
    /// The encryption type, such as 18: aes256-cts-hmac-sha1-96.
    pub etype: i32,
}

impl fmt::Display for Ticket {
    /// For logs: control characters are escaped, and a long name is cut.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name: String = self.service.chars().take(120).collect();
        let realm: String = self.realm.chars().take(80).collect();
        write!(f, "{}@{}", name.escape_debug(), realm.escape_debug())?;
        if let Some(kvno) = self.kvno {
            write!(f, " (key version {kvno}, {})", etype_name(self.etype))?;
        }
        Ok(())
    }
}

/// What this token is.
pub fn sniff(token: &[u8]) -> Token {
    if token.starts_with(NTLM_SIGNATURE) {
        return Token::Ntlm;
    }
    match token.first() {
        Some(0x60) => initial(token).unwrap_or(Token::Other),
        Some(0xa1) => response(token).unwrap_or(Token::Other),
        _ => Token::Other,
    }
}

/// The first token of a mechanism: its number, then what is its own (RFC 2743, 3.1).
fn initial(token: &[u8]) -> Option<Token> {
    let mut reader = Reader(Reader(token).expect(0x60)?);
    match reader.expect(0x06)? {
        SPNEGO => spnego(reader.0),
        KERBEROS | MICROSOFT_KERBEROS => Some(Token::Kerberos(ticket(reader.0))),
        _ => Some(Token::Other),
    }
}

fn spnego(content: &[u8]) -> Option<Token> {
    let mut fields = Reader(Reader(Reader(content).expect(0xa0)?).expect(0x30)?);
    let mut listed = Reader(Reader(fields.field(0)?).expect(0x30)?);
    let (mut kerberos, mut ntlm) = (false, false);
    for _ in 0..MAX_MECHANISMS {
        let Some(mechanism) = listed.expect(0x06) else { break };
        kerberos |= mechanism == KERBEROS || mechanism == MICROSOFT_KERBEROS;
        ntlm |= mechanism == NTLM;
    }
    if !kerberos {
        return Some(if ntlm { Token::Ntlm } else { Token::Other });
    }
    let inner = fields.field(2).and_then(|content| Reader(content).expect(0x04));
    if inner.is_some_and(|token| token.starts_with(NTLM_SIGNATURE)) {
        return Some(Token::Ntlm);
    }
    let ticket = inner.and_then(|token| {
        let mut reader = Reader(Reader(token).expect(0x60)?);
        reader.expect(0x06)?;
        ticket(reader.0)
    });
    Some(Token::Kerberos(ticket))
}

/// NegTokenResp. What NTLM sends last comes in one of these.
fn response(token: &[u8]) -> Option<Token> {
    let mut fields = Reader(Reader(Reader(token).expect(0xa1)?).expect(0x30)?);
    let inner = fields.field(2).and_then(|content| Reader(content).expect(0x04));
    Some(match inner {
        Some(token) if token.starts_with(NTLM_SIGNATURE) => Token::Ntlm,
        _ => Token::Next,
    })
}

/// The ticket of an AP-REQ, which follows its mark of two bytes (RFC 4121, 4.1).
fn ticket(content: &[u8]) -> Option<Ticket> {
    let request = content.strip_prefix(b"\x01\0")?;
    let mut request = Reader(Reader(Reader(request).expect(0x6e)?).expect(0x30)?);
    let mut ticket = Reader(Reader(Reader(request.field(3)?).expect(0x61)?).expect(0x30)?);
    let realm = string(ticket.field(1)?)?.to_owned();
    let mut name = Reader(Reader(ticket.field(2)?).expect(0x30)?);
    let mut parts = Reader(Reader(name.field(1)?).expect(0x30)?);
    let mut service = Vec::new();
    while !parts.0.is_empty() && service.len() < MAX_PARTS {
        service.push(std::str::from_utf8(parts.expect(0x1b)?).ok()?);
    }
    let mut encrypted = Reader(Reader(ticket.field(3)?).expect(0x30)?);
    let etype = i32::try_from(integer(encrypted.field(0)?)?).ok()?;
    let kvno = encrypted.field(1).and_then(integer).and_then(|kvno| u32::try_from(kvno).ok());
    Some(Ticket { service: service.join("/"), realm, kvno, etype })
}

/// The name of an encryption type, as `klist -e` says it.
pub fn etype_name(etype: i32) -> String {
    match etype {
        1 => "des-cbc-crc",
        3 => "des-cbc-md5",
        16 => "des3-cbc-sha1",
        17 => "aes128-cts-hmac-sha1-96",
        18 => "aes256-cts-hmac-sha1-96",
        19 => "aes128-cts-hmac-sha256-128",
        20 => "aes256-cts-hmac-sha384-192",
        23 => "arcfour-hmac",
        25 => "camellia128-cts-cmac",
        26 => "camellia256-cts-cmac",
        _ => return format!("encryption type {etype}"),
    }
    .into()
}

#[cfg(test)]
#[path = "token/tests.rs"]
mod tests;
