//! A prepared page as bytes: for the file in which it outlives the server, and for the other fronts of a cluster. Each has a
//! checksum, and what is damaged is none at all. It never reads or writes a file.

use cache::{record::checksum, Millis};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};

use super::{PreparedPage, RenderedPage};
use crate::support::clock;

/// Another one where an older Paceline can't read the bytes.
pub const FORMAT: &[u8] = b"paceline scheduled pages 2\n";

/// A page as it was prepared.
pub struct PageRecord {
    pub at: Millis,
    pub url: String,
    /// What proxies said of the requests for it.
    pub by_proxies: Vec<u8>,
    /// The fields of the request that it answers.
    pub request: HeaderMap,
    pub rendered: RenderedPage,
    /// The page of before says so; otherwise a rule does, or a page that is prepared for an earlier time.
    pub announced: bool,
}

/// All of a record but the body.
#[derive(Serialize, Deserialize)]
struct Head {
    at: Millis,
    url: String,
    by_proxies: Vec<u8>,
    request: Vec<(String, String)>,
    status: u16,
    headers: Vec<(String, String)>,
    announced: bool,
}

impl PageRecord {
    /// # Errors
    /// There is no JSON for it.
    pub fn encode(page: &PreparedPage) -> serde_json::Result<Vec<u8>> {
        let head = Head {
            at: page.at,
            url: page.page.url.to_string(),
            by_proxies: page.page.by_proxies.clone(),
            request: pairs(&page.request),
            status: page.rendered.status.as_u16(),
            headers: pairs(&page.rendered.headers),
            announced: page.page.says_itself(page.at, clock::unix_millis()),
        };
        let (head, body) = (serde_json::to_vec(&head)?, &page.rendered.body);
        let mut bytes = Vec::with_capacity(16 + head.len() + body.len());
        bytes.extend((head.len() as u32).to_le_bytes());
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(checksum(&[&head, body]).to_le_bytes());
        bytes.extend(&head);
        bytes.extend(&body[..]);
        Ok(bytes)
    }

    /// The first record, and what comes after it. None: it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<(PageRecord, &[u8])> {
        let (head, rest) = bytes.split_first_chunk::<4>()?;
        let (body, rest) = rest.split_first_chunk::<4>()?;
        let (sum, rest) = rest.split_first_chunk::<8>()?;
        let (head, rest) = rest.split_at_checked(u32::from_le_bytes(*head) as usize)?;
        let (body, rest) = rest.split_at_checked(u32::from_le_bytes(*body) as usize)?;
        if u64::from_le_bytes(*sum) != checksum(&[head, body]) {
            return None;
        }
        let Head { at, url, by_proxies, request, status, headers, announced } = serde_json::from_slice(head).ok()?;
        let status = StatusCode::from_u16(status).ok()?;
        let rendered = RenderedPage { status, headers: fields(&headers), body: body.to_vec().into() };
        Some((PageRecord { at, url, by_proxies, request: fields(&request), rendered, announced }, rest))
    }
}

fn pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    headers.iter().filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned()))).collect()
}

fn fields(pairs: &[(String, String)]) -> HeaderMap {
    let pairs = pairs.iter().filter_map(|(name, value)| {
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?))
    });
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(name, value);
    }
    headers
}
