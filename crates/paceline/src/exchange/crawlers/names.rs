//! Whether a user agent is a crawler's, by its words. Pure, in linear time, and whatever the bytes are. It knows browsers
//! and libraries (curl, Net::HTTP, CFNetwork) as none: those that crawl are known by what they do.

/// Bytes of a user agent that are looked at; browsers send fewer than 300.
const LOOKED_AT: usize = 1024;

/// Words that end so name a crawler: Googlebot, GPTBot, Bytespider, magpie-crawler, archive.org_bot.
const ENDS: [&str; 8] = ["bot", "bots", "crawler", "crawlers", "spider", "spiders", "crawl", "scraper"];

/// Phones whose maker is called so.
const PHONES: [&str; 1] = ["cubot"];

/// Words of programs that watch whether a site is up: they are to see what visitors see.
const MONITORS: [&str; 8] =
    ["checkly", "hetrixtools", "pingdom", "site24x7", "statuscake", "updown", "uptime", "uptimerobot"];

/// Crawlers whose names don't say so, in alphabetical order: a name stands for all that go on with `-`, `_` or `.`
/// (GoogleOther-Image). Sources: the pages on which operators document their crawlers (Google, Bing, Yandex, Meta, OpenAI,
/// Anthropic, Amazon, Perplexity), for AI also https://github.com/ai-robots-txt/ai.robots.txt, 2026.
const KNOWN: [&str; 69] = [
    "amazon-kendra",
    "amazonbuyforme",
    "amzn-user",
    "anthropic-ai",
    "apis-google",
    "awario",
    "bigsur.ai",
    "bingpreview",
    "chatgpt-user",
    "claude-user",
    "claude-web",
    "cloudflare-autorag",
    "cohere-ai",
    "cotoyogi",
    "crawl4ai",
    "crawlspace",
    "daumoa",
    "embedly",
    "facebookcatalog",
    "facebookexternalhit",
    "feedfetcher-google",
    "firecrawlagent",
    "gemini-deep-research",
    "google-agent",
    "google-extended",
    "google-inspectiontool",
    "google-notebooklm",
    "google-read-aloud",
    "google-safety",
    "googleother",
    "heritrix",
    "httrack",
    "ia_archiver",
    "iframely",
    "img2dataset",
    "kagi-fetcher",
    "laion-huggingface-processor",
    "laiondownloader",
    "manus-user",
    "mastodon",
    "mediapartners-google",
    "meta-externalagent",
    "meta-externalfetcher",
    "meta-webindexer",
    "mistralai-user",
    "newsai",
    "novaact",
    "nutch",
    "omgili",
    "panscient",
    "perplexity-user",
    "poggio-citations",
    "qwantify",
    "scrapy",
    "shap-user",
    "skypeuripreview",
    "slurp",
    "teoma",
    "terracotta",
    "vkshare",
    "webzio",
    "webzio-extended",
    "yacy",
    "yandexadditional",
    "yandexdirect",
    "yandeximages",
    "yandexmedia",
    "yandexnews",
    "yandexvideo",
];

/// Whether it is a crawler's.
pub fn is_crawler(user_agent: &[u8]) -> bool {
    let text = user_agent[..user_agent.len().min(LOOKED_AT)].to_ascii_lowercase();
    // A URL behind a plus sign is where the operator says what the crawler does: (+http://www.google.com/bot.html).
    let mut is_one = text.windows(5).any(|part| part == b"+http");
    for name in text.split(|byte| !is_of_name(*byte)) {
        is_one |= is_known(name);
        for word in name.split(|byte| !byte.is_ascii_alphanumeric()) {
            if is_in(&MONITORS, word) {
                return false;
            }
            is_one |= says_so(word);
        }
    }
    is_one
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)
}

fn is_in(words: &[&str], word: &[u8]) -> bool {
    words.iter().any(|one| one.as_bytes() == word)
}

/// `bingbot2` does, too.
fn says_so(word: &[u8]) -> bool {
    let end = word.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |last| last + 1);
    let word = &word[..end];
    ENDS.iter().any(|end| word.ends_with(end.as_bytes())) && !is_in(&PHONES, word)
}

/// The whole name, or what is before one of its marks. Longer ones are not known.
fn is_known(name: &[u8]) -> bool {
    const LONGEST: usize = 40;
    let name = &name[..name.len().min(LONGEST)];
    let ends = (1..name.len()).rev().filter(|end| !name[*end].is_ascii_alphanumeric());
    [name.len()].into_iter().chain(ends).any(|end| {
        let begin = &name[..end];
        KNOWN.binary_search_by(|known| known.as_bytes().cmp(begin)).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crawlers() {
        for agent in [
            "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0) Chrome/116.0 Safari/537.36",
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; GPTBot/1.2; https://openai.com/gptbot",
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ChatGPT-User/1.0)",
            "CCBot/2.0",
            "GoogleOther",
            "GoogleOther-Image/1.0",
            "Mediapartners-Google",
            "Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)",
            "meta-externalagent/1.1",
            "facebookexternalhit/1.1",
            "Mozilla/5.0 (Linux; Android 5.0) AppleWebKit/537.36 (compatible; Bytespider; spider-feedback@bytedance.com)",
            "istellabot-nutch/Nutch-1.10",
            "archive.org_bot",
            "ia_archiver (+http://www.alexa.com/site/help/webmasters)",
            "Screaming Frog SEO Spider/19.2",
            "Scrapy/2.11",
            "http.rb/5.1.1 (something; +https://social.example/)",
            "BOTS",
            "bingbot2",
        ] {
            assert!(is_crawler(agent.as_bytes()), "{agent}");
        }
    }

    #[test]
    fn visitors_monitors_and_libraries() {
        for agent in [
            "",
            "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15",
            "Mozilla/5.0 (Linux; Android 9; CUBOT X19) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/109.0 Mobile Safari/537.36",
            "Mozilla/5.0 (Linux; Android 9; CUBOT_NOTE_7) AppleWebKit/537.36 Chrome/109.0 Mobile Safari/537.36",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 [FBAN/FBIOS]",
            "MyApp/7 CFNetwork/1494.0.7 Darwin/23.4.0",
            "curl/7.88.1",
            "python-requests/2.31.0",
            "Ruby",
            "okhttp/4.12.0",
            "Mozilla/5.0 Botany/1.0 Spiderman/2",
            "Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)",
            "Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)",
            "Better Uptime Bot Mozilla/5.0",
        ] {
            assert!(!is_crawler(agent.as_bytes()), "{agent}");
        }
    }

    #[test]
    fn the_table_can_be_searched_and_says_only_what_the_words_do_not() {
        assert!(KNOWN.windows(2).all(|pair| pair[0] < pair[1]));
        let is_needed = |name: &&str| name.split(|c: char| !c.is_alphanumeric()).all(|word| !says_so(word.as_bytes()));
        let needless: Vec<_> = KNOWN.iter().filter(|name| !is_needed(name)).collect();
        assert!(needless.is_empty(), "{needless:?}");
        assert!(KNOWN.iter().all(|name| name.len() <= 40 && is_crawler(name.as_bytes())));
    }

    #[test]
    fn any_bytes_and_any_length() {
        for byte in 0..=255 {
            for length in [1, 2, 39, 40, 41, 1023, 1024, 1025, 32_768] {
                is_crawler(&vec![byte; length]);
            }
        }
        assert!(is_crawler(b"\xff\xfebot\xff"));
        let late = [vec![b'x'; LOOKED_AT], b" bot".to_vec()].concat();
        assert!(!is_crawler(&late), "nobody is made to read on for ever");
    }
}
