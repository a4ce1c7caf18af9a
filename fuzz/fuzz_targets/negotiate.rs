//! What a client without a name may send to single sign-on, and what an operator's files may have: the field, the token
//! and its ticket, a keytab, the groups of a ticket. Nothing panics, and what is read lies within what was sent.
#![cfg_attr(fuzzing, no_main)]

use libfuzzer_sys::fuzz_target;
use negotiate::{challenge, keytab::Keytab, pac::logon_info, sniff, token, Token, MAX_TOKEN};

fuzz_target!(|data: &[u8]| {
    if let Some(read) = token(data) {
        assert!(data.trim_ascii_start()[..9].eq_ignore_ascii_case(b"negotiate"));
        if let Ok(bytes) = read {
            assert!(!bytes.is_empty() && bytes.len() <= MAX_TOKEN + 2);
            let _ = sniff(&bytes);
            // Base64 has one way to write it.
            assert_eq!(token(challenge(&bytes).as_bytes()), Some(Ok(bytes)));
        }
    }
    if let Token::Kerberos(Some(ticket)) = sniff(data) {
        for text in [&ticket.service, &ticket.realm] {
            // The parts of a name are joined by slashes, which are not in the token.
            let parts: usize = text.split('/').map(str::len).sum();
            assert!(parts < data.len());
        }
        assert!(!ticket.to_string().chars().any(char::is_control));
    }
    if let Ok(keytab) = Keytab::parse(data) {
        assert!(keytab.entries.len() * 4 <= data.len());
        keytab.entries.iter().for_each(|entry| assert!(!entry.to_string().chars().any(char::is_control)));
    }
    if let Some(info) = logon_info(data) {
        assert!(info.groups.len() * 4 <= data.len());
        assert!(info.groups.iter().chain([&info.sid]).all(|sid| sid.starts_with("S-1-")));
    }
});
