//! Tokens, built field by field.

use super::*;

fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    match content.len() {
        length @ ..128 => bytes.push(length as u8),
        length => bytes.extend([0x82, (length >> 8) as u8, length as u8]),
    }
    bytes.extend(content);
    bytes
}

fn ap_req(service: &[&str], kvno: Option<u8>) -> Vec<u8> {
    let parts: Vec<u8> = service.iter().flat_map(|part| tagged(0x1b, part.as_bytes())).collect();
    let name = [tagged(0xa0, b"\x02\x01\x02"), tagged(0xa1, &tagged(0x30, &parts))].concat();
    let kvno = kvno.map_or(Vec::new(), |kvno| tagged(0xa1, &[2, 1, kvno]));
    let encrypted = [tagged(0xa0, b"\x02\x01\x12"), kvno, tagged(0xa2, &tagged(4, &[9; 200]))].concat();
    let ticket = [
        tagged(0xa0, b"\x02\x01\x05"),
        tagged(0xa1, &tagged(0x1b, b"EXAMPLE.COM")),
        tagged(0xa2, &tagged(0x30, &name)),
        tagged(0xa3, &tagged(0x30, &encrypted)),
    ]
    .concat();
    let request = [
        tagged(0xa0, b"\x02\x01\x05"),
        tagged(0xa1, b"\x02\x01\x0e"),
        tagged(0xa2, b"\x03\x05\0\x20\0\0\0"),
        tagged(0xa3, &tagged(0x61, &tagged(0x30, &ticket))),
    ]
    .concat();
    let inner = [tagged(6, KERBEROS), b"\x01\0".to_vec(), tagged(0x6e, &tagged(0x30, &request))].concat();
    tagged(0x60, &inner)
}

fn in_spnego(mechanisms: &[&[u8]], token: Option<&[u8]>) -> Vec<u8> {
    let listed: Vec<u8> = mechanisms.iter().flat_map(|mechanism| tagged(6, mechanism)).collect();
    let token = token.map_or(Vec::new(), |token| tagged(0xa2, &tagged(4, token)));
    let fields = [tagged(0xa0, &tagged(0x30, &listed)), token].concat();
    tagged(0x60, &[tagged(6, SPNEGO), tagged(0xa0, &tagged(0x30, &fields))].concat())
}

fn web(kvno: Option<u32>) -> Token {
    let (service, realm) = ("HTTP/web.example.com".into(), "EXAMPLE.COM".into());
    Token::Kerberos(Some(Ticket { service, realm, kvno, etype: 18 }))
}

#[test]
fn a_ticket_says_for_whom_it_is_bare_and_in_spnego() {
    let bare = ap_req(&["HTTP", "web.example.com"], Some(3));
    assert_eq!(sniff(&bare), web(Some(3)));
    assert_eq!(sniff(&in_spnego(&[MICROSOFT_KERBEROS, KERBEROS, NTLM], Some(&bare))), web(Some(3)));
    assert_eq!(sniff(&ap_req(&["HTTP", "web.example.com"], None)), web(None));
}

#[test]
fn kerberos_without_its_token_is_still_kerberos() {
    assert_eq!(sniff(&in_spnego(&[KERBEROS], None)), Token::Kerberos(None));
    assert_eq!(sniff(&in_spnego(&[KERBEROS], Some(b"junk"))), Token::Kerberos(None));
}

#[test]
fn ntlm_is_known_in_each_of_its_wrappings() {
    let message = b"NTLMSSP\0\x01\0\0\0";
    assert_eq!(sniff(message), Token::Ntlm);
    assert_eq!(sniff(&in_spnego(&[NTLM], Some(message))), Token::Ntlm);
    assert_eq!(sniff(&in_spnego(&[NTLM, KERBEROS], Some(message))), Token::Ntlm);
    let last = tagged(0xa1, &tagged(0x30, &tagged(0xa2, &tagged(4, b"NTLMSSP\0\x03\0\0\0"))));
    assert_eq!(sniff(&last), Token::Ntlm);
}

#[test]
fn what_is_cut_off_or_unknown_is_something_else() {
    let whole = in_spnego(&[KERBEROS], Some(&ap_req(&["HTTP", "web.example.com"], Some(3))));
    for end in 0..whole.len() {
        assert_eq!(sniff(&whole[..end]), Token::Other);
    }
    assert_eq!(sniff(&in_spnego(&[&[0x2b, 6, 1, 4]], None)), Token::Other);
    assert_eq!(sniff(b"user:password"), Token::Other);
}

#[test]
fn a_name_that_would_break_a_log_line_is_escaped() {
    let Token::Kerberos(Some(ticket)) = sniff(&ap_req(&["HTTP", "a\nb\u{1b}[2J"], Some(3))) else { panic!() };
    assert_eq!(ticket.to_string(), "HTTP/a\\nb\\u{1b}[2J@EXAMPLE.COM (key version 3, aes256-cts-hmac-sha1-96)");
}
