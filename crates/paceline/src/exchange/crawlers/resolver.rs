//! The system's resolver: the name of an address, and the addresses of a name. It blocks for as long as name servers take.

use std::{
    ffi::{c_char, CStr},
    io::Error,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    ptr,
};

use super::verification::Names;

/// Bytes of a name, with the zero at its end (NI_MAXHOST).
const LONGEST_NAME: usize = 1025;

/// What the system says: name servers, and /etc/hosts.
pub struct SystemNames;

impl Names for SystemNames {
    #[allow(unsafe_code)]
    fn name(&self, address: IpAddr) -> Result<Option<String>, Error> {
        let address = socket2::SockAddr::from(SocketAddr::new(address, 0));
        let mut buffer: [c_char; LONGEST_NAME] = [0; LONGEST_NAME];
        // SAFETY: the address lives until after the call, and its length is its own; the buffer is as long as is said, and
        // no service is asked for.
        let status = unsafe {
            libc::getnameinfo(
                address.as_ptr().cast(),
                address.len(),
                buffer.as_mut_ptr(),
                LONGEST_NAME as libc::socklen_t,
                ptr::null_mut(),
                0,
                libc::NI_NAMEREQD,
            )
        };
        match status {
            // SAFETY: the call succeeded, so the buffer has a text that ends with a zero.
            0 => Ok(Some(unsafe { CStr::from_ptr(buffer.as_ptr()) }.to_string_lossy().into_owned())),
            libc::EAI_NONAME => Ok(None),
            other => Err(Error::other(format!("getnameinfo: {other}"))),
        }
    }

    fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, Error> {
        Ok((name, 0).to_socket_addrs()?.map(|found| found.ip().to_canonical()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn this_machine_has_a_name_that_leads_back() {
        let own = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let name = SystemNames.name(own).unwrap().unwrap();
        assert!(SystemNames.addresses(&name).unwrap().contains(&own), "{name}");
    }
}
