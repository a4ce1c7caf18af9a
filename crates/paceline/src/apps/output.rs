//! What Ruby processes print: read from their pipes line by line.
//! It never writes anywhere: lines are handed to a closure.

use std::{io, os::fd::OwnedFd};

use bytes::{Buf, BytesMut};
use tokio::{io::AsyncReadExt, net::unix::pipe};

/// Longest line; a longer one is cut into several.
const LINE: usize = 16 << 10;

/// Reads lines until the pipe is closed on its other side. What is not UTF-8 is replaced, control characters but tab
/// and escape (colours) too. After the last line comes None.
pub fn read_lines(fd: OwnedFd, mut each: impl FnMut(Option<String>) + Send + 'static) -> io::Result<()> {
    let mut pipe = pipe::Receiver::from_owned_fd(fd)?;
    tokio::spawn(async move {
        let mut received = BytesMut::new();
        loop {
            while let Some(line) = take_line(&mut received) {
                each(Some(line));
            }
            match pipe.read_buf(&mut received).await {
                Ok(count) if count > 0 => {}
                _ => break,
            }
        }
        if !received.is_empty() {
            each(Some(clean(&received)));
        }
        each(None);
    });
    Ok(())
}

fn take_line(received: &mut BytesMut) -> Option<String> {
    let window = &received[..received.len().min(LINE)];
    match window.iter().position(|&byte| byte == b'\n') {
        Some(end) => {
            let line = received.split_to(end);
            received.advance(1);
            Some(clean(&line))
        }
        None if received.len() >= LINE => Some(clean(&received.split_to(LINE))),
        None => None,
    }
}

fn clean(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = String::from_utf8_lossy(line);
    text.chars()
        .map(|char| if char.is_control() && char != '\t' && char != '\x1b' { '\u{fffd}' } else { char })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_cleaned_and_bounded() {
        let mut received = BytesMut::from(&b"one\r\ntwo\xff\x07\nrest"[..]);
        assert_eq!(take_line(&mut received).unwrap(), "one");
        assert_eq!(take_line(&mut received).unwrap(), "two\u{fffd}\u{fffd}");
        assert_eq!(take_line(&mut received), None);
        let mut long = BytesMut::from(&vec![b'x'; LINE + 1][..]);
        assert_eq!(take_line(&mut long).unwrap().len(), LINE);
        assert_eq!(long.len(), 1);
    }
}
