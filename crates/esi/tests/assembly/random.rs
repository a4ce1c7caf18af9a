//! Random documents: good ones against what their author knows of them, others for surviving them, all in any cuts.

use std::collections::BTreeSet;

use esi::{Facts, Limits};

use crate::{
    dice::Dice,
    fetcher::{assemble, parse},
};

const FACTS: [(&str, bool); 8] = [
    ("$(HTTP_COOKIE{yes})=='1'", true),
    ("$(HTTP_COOKIE{no})=='1'", false),
    ("1 &lt; 2", true),
    ("1 > 2", false),
    ("!(1==1) | $(HTTP_COOKIE{yes})", true),
    ("$(HTTP_ACCEPT_LANGUAGE{en})", true),
    ("$(HTTP_ACCEPT_LANGUAGE{fr})", false),
    ("$(QUERY_STRING{none}|'a')=='a' & 1==1", true),
];

fn facts() -> Facts {
    Facts { cookie: "yes=1; no=0".into(), accept_language: "en".into(), query: "q=<1>".into(), ..Facts::default() }
}

/// Writes a document and knows what it comes to.
struct Author {
    dice: Dice,
    urls: usize,
    /// What must not be asked for.
    never: BTreeSet<String>,
}

/// What a part comes to: its text, or failure, since nothing stands in for a fragment.
type Outcome = Option<String>;

impl Author {
    fn content(&mut self, depth: usize, wanted: bool, vars: bool) -> (String, Outcome) {
        let (mut source, mut outcome) = (String::new(), Some(String::new()));
        for _ in 0..self.dice.below(5) {
            let (written, comes_to) = self.part(depth, wanted, vars);
            source += &written;
            outcome = outcome.zip(comes_to).map(|(before, text)| before + &text);
        }
        (source, outcome)
    }

    fn part(&mut self, depth: usize, wanted: bool, vars: bool) -> (String, Outcome) {
        match self.dice.below(if depth == 0 { 6 } else { 11 }) {
            0 | 1 => {
                let text = self.dice.of(&["text", "<p>", " ", "< $ - --", "<es", "$(a)", "\n</p>"]);
                (text.into(), Some(text.into()))
            }
            2 => (
                self.dice.of(&["<esi:comment text=\"a>b\"/>", "<esi:remove>x<esi:y</esi:remove>"]).into(),
                Some(String::new()),
            ),
            3 => {
                let text = if vars { "&lt;1&gt;" } else { "$(QUERY_STRING{q})" };
                ("$(QUERY_STRING{q})".into(), Some(text.into()))
            }
            4 | 5 => self.include(wanted),
            6 => {
                let (source, outcome) = self.content(depth - 1, wanted, true);
                (format!("<esi:vars>{source}</esi:vars>"), outcome)
            }
            7 | 8 => self.choose(depth, wanted, vars),
            _ => self.attempt(depth, wanted, vars),
        }
    }

    fn url(&mut self, wanted: bool) -> (String, Outcome) {
        self.urls += 1;
        let url = format!("/{}{}", self.dice.of(&["bad", "good"]), self.urls);
        if !wanted {
            self.never.insert(url.clone());
        }
        let outcome = (!url.contains("bad")).then(|| format!("[{url}]"));
        (url, outcome)
    }

    fn include(&mut self, wanted: bool) -> (String, Outcome) {
        let (src, mut outcome) = self.url(wanted);
        let mut source = format!("<esi:include src=\"{src}\"");
        if self.dice.below(2) == 0 {
            let (alt, of_alt) = self.url(wanted && outcome.is_none());
            source += &format!(" alt='{alt}'");
            outcome = outcome.or(of_alt);
        }
        if self.dice.below(2) == 0 {
            source += " onerror=\"continue\"";
            outcome = outcome.or(Some(String::new()));
        }
        (source + "/>", outcome)
    }

    fn choose(&mut self, depth: usize, wanted: bool, vars: bool) -> (String, Outcome) {
        let (mut source, mut taken) = (String::from("<esi:choose>"), None);
        for _ in 0..1 + self.dice.below(3) {
            let (test, holds) = FACTS[self.dice.below(FACTS.len())];
            let takes = holds && taken.is_none();
            let (content, outcome) = self.content(depth - 1, wanted && takes, vars);
            source += &format!(" <esi:when test=\"{test}\">{content}</esi:when>\n");
            taken = if takes { Some(outcome) } else { taken };
        }
        if self.dice.below(2) == 0 {
            let (content, outcome) = self.content(depth - 1, wanted && taken.is_none(), vars);
            source += &format!("<esi:otherwise>{content}</esi:otherwise>");
            taken = taken.or(Some(outcome));
        }
        (source + "</esi:choose>", taken.unwrap_or(Some(String::new())))
    }

    fn attempt(&mut self, depth: usize, wanted: bool, vars: bool) -> (String, Outcome) {
        let (attempt, outcome) = self.content(depth - 1, wanted, vars);
        let (except, of_except) = self.content(depth - 1, wanted && outcome.is_none(), vars);
        let (attempt, except) =
            (format!("<esi:attempt>{attempt}</esi:attempt>"), format!("<esi:except>{except}</esi:except>"));
        let (first, second) = if self.dice.below(8) == 0 { (except, attempt) } else { (attempt, except) };
        (format!("<esi:try>\n{first} {second}</esi:try>"), outcome.or(of_except))
    }
}

#[test]
fn good_documents_come_to_what_their_author_knows() {
    let (mut complete, mut failed, mut branches) = (0, 0, 0);
    for seed in 1..700 {
        let mut author = Author { dice: Dice::new(seed), urls: 0, never: BTreeSet::new() };
        let (mut document, outcome) = author.content(4, true, false);
        if document.contains("esi:") && author.dice.below(4) == 0 && !document.contains("--") {
            document = format!("<!--esi {document}-->");
        }
        let expected = if document.starts_with("<!--esi ") { outcome.map(|text| format!(" {text}")) } else { outcome };
        let mut dice = Dice::new(seed + 1_000_000);
        for _ in 0..3 {
            let cuts = dice.cut(document.as_bytes(), 1 + seed as usize % 40);
            let (pieces, error) = parse(&cuts, &Limits::default());
            assert_eq!(error, None, "{document}");
            let page = assemble(&pieces, &facts(), &mut dice);
            match &expected {
                Some(text) => assert_eq!((&page.text, &page.failed), (text, &None), "{document}"),
                None => assert!(page.failed.is_some_and(|url| url.contains("bad")), "{document}"),
            }
            let never = page.asked.intersection(&author.never).next();
            assert_eq!(never, None, "{document}");
        }
        *if expected.is_some() { &mut complete } else { &mut failed } += 1;
        branches += usize::from(document.contains("<esi:try>") && !author.never.is_empty());
    }
    assert!(complete > 200 && failed > 50 && branches > 100, "{complete} {failed} {branches}");
}

const WORDS: [&str; 40] = [
    "<esi:include src=\"/good\"/>",
    "<esi:include src='/bad' alt=\"/bad2\" onerror=\"continue\"/>",
    "<esi:include ",
    "src=\"",
    "\"",
    "'",
    "/>",
    ">",
    "<esi:choose>",
    "</esi:choose>",
    "<esi:when test=\"1==1\">",
    "<esi:when test=\"1>2\">",
    "</esi:when>",
    "<esi:otherwise>",
    "</esi:otherwise>",
    "<esi:try>",
    "</esi:try>",
    "<esi:attempt>",
    "</esi:attempt>",
    "<esi:except>",
    "</esi:except>",
    "<esi:vars>",
    "</esi:vars>",
    "<esi:remove>",
    "</esi:remove>",
    "<esi:comment text=\"x\"/>",
    "<!--esi",
    "<!--esi ",
    "-->",
    "-",
    "--",
    "$(HTTP_HOST)",
    "$(",
    "$(A{b}|'c')",
    "<",
    "<esi:",
    "</esi:",
    "text",
    " ",
    "<esi:inline name=\"x\">",
];

#[test]
fn any_document_is_survived_and_cuts_change_nothing() {
    let mut without_mistake = 0;
    for seed in 1..4000 {
        let mut dice = Dice::new(seed);
        let document: String = (0..dice.below(20)).map(|_| dice.of(&WORDS)).collect();
        let limits = Limits { tag: 60, ..Limits::default() };
        let whole = parse(&[document.as_bytes()], &limits);
        let cuts = dice.cut(document.as_bytes(), 20);
        assert_eq!(parse(&cuts, &limits), whole, "{document}");
        let page = assemble(&whole.0, &facts(), &mut dice);
        // No fragment of this fetcher is longer than the tag that asks for it, and no variable has a value.
        assert!(page.text.len() <= document.len(), "{document}\n{}", page.text);
        without_mistake += usize::from(whole.1.is_none());
    }
    assert!(without_mistake > 300, "{without_mistake}");
}

#[test]
fn a_cut_at_any_byte_changes_nothing() {
    let document = "a<!--esi b<esi:vars>$(HTTP_HOST|'x')$(a)--->c<esi:choose> <esi:when test=\"'>'=='>'\">d<esi:include src='/1>' alt=\"/2\"/>\
                    </esi:when></esi:choose></esi:vars><esi:remove></esi:remov></esi:remove ><!--esi--><!--esi\n-- -->e</es<!--es$";
    let whole = parse(&[document.as_bytes()], &Limits::default());
    assert_eq!(whole.1, None);
    for cut in 0..=document.len() {
        let (front, back) = document.as_bytes().split_at(cut);
        assert_eq!(parse(&[front, back], &Limits::default()), whole, "cut at {cut}");
    }
    let bytes: Vec<&[u8]> = document.as_bytes().chunks(1).collect();
    assert_eq!(parse(&bytes, &Limits::default()), whole);
}
