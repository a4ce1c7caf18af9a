//! W3C Trace Context (https://www.w3.org/TR/trace-context/), version 00: which trace a request belongs to.
//! It never reads tracestate, which goes on as it is.

use http::{HeaderMap, HeaderName, HeaderValue};

pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// A span of ours, and the trace it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    pub trace: u128,
    /// The caller's span.
    pub parent: Option<u64>,
    pub span: u64,
    pub sampled: bool,
}

impl Context {
    /// A span for a request: in its caller's trace and sampled as that one is, else in a trace of its own of which
    /// `sample` (0 to
    /// 1) decides.
    pub fn begin(headers: &HeaderMap, sample: f64) -> Context {
        let mut parents = headers.get_all(TRACEPARENT).iter();
        // Two of them are none (section 3.2).
        let parent = parents.next().filter(|_| parents.next().is_none()).and_then(|one| parse(one.as_bytes()));
        let (random, span) = uuid::Uuid::new_v4().as_u64_pair();
        let span = span.max(1);
        match parent {
            Some((trace, parent, sampled)) => Context { trace, parent: Some(parent), span, sampled },
            None => {
                let trace = uuid::Uuid::new_v4().as_u128();
                // The upper 48 bits of a UUID are random.
                let sampled = ((random >> 16) as f64) < sample * (1_u64 << 48) as f64;
                Context { trace, parent: None, span, sampled }
            }
        }
    }

    /// What those that are asked on behalf of this span are told.
    pub fn header(&self) -> Option<HeaderValue> {
        let flags = u8::from(self.sampled);
        HeaderValue::try_from(format!("00-{:032x}-{:016x}-{flags:02x}", self.trace, self.span)).ok()
    }
}

/// Trace, span and whether it is sampled. A version from the future is read as far as it is known.
fn parse(text: &[u8]) -> Option<(u128, u64, bool)> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let hex = |part: &str, letters: usize| {
        let fine = part.len() == letters && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        fine.then(|| u128::from_str_radix(part, 16).ok()).flatten()
    };
    let mut parts = text.splitn(5, '-');
    let version = hex(parts.next()?, 2)?;
    let (trace, span) = (hex(parts.next()?, 32)?, hex(parts.next()?, 16)?);
    let flags = hex(parts.next()?, 2)?;
    let known = version != 0xff && (version != 0 || parts.next().is_none());
    (known && trace != 0 && span != 0).then_some((trace, span as u64, flags & 1 == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: u128 = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;

    fn begun(lines: &[&str], sample: f64) -> Context {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(TRACEPARENT, HeaderValue::from_str(line).unwrap());
        }
        Context::begin(&headers, sample)
    }

    #[test]
    fn a_trace_goes_on_as_its_caller_has_it() {
        for (flags, sampled) in [("00", false), ("01", true), ("03", true)] {
            let context = begun(&[&format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}")], 0.5);
            assert_eq!((context.trace, context.parent), (TRACE, Some(0x00f0_67aa_0ba9_02b7)));
            assert_eq!(context.sampled, sampled);
            let told = context.header().unwrap();
            let told = told.to_str().unwrap();
            assert!(told.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && told.len() == 55, "{told}");
            assert!(!told.contains("00f067aa0ba902b7"), "{told}");
        }
        assert_eq!(begun(&["01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-later"], 0.0).trace, TRACE);
    }

    #[test]
    fn what_is_no_traceparent_begins_a_trace() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        for lines in [
            &[][..],
            &["x"],
            &["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"],
            &["00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"],
            &["00-00000000000000000000000000000000-00f067aa0ba902b7-01"],
            &["00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"],
            &["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more"],
            &["ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
            &["00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
            &[good, good],
        ] {
            let context = begun(lines, 1.0);
            assert!(context.parent.is_none() && context.trace != TRACE && context.sampled, "{lines:?}");
        }
    }

    #[test]
    fn a_share_is_sampled() {
        assert!((0..100).all(|_| !begun(&[], 0.0).sampled && begun(&[], 1.0).sampled));
        let some = (0..2000).filter(|_| begun(&[], 0.25).sampled).count();
        assert!((300..700).contains(&some), "{some}");
    }
}
