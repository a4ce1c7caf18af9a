//! The places of a page that name its elements, and refer to these names: what no browser sends back. It reads HTML as browsers do, and knows nothing of what
//! may stand anywhere else: in text, in scripts, in styles, in comments, in fields of forms.

use std::ops::Range;

/// Attributes that have the name of an element, or several.
const NAMES: [&[u8]; 14] = [
    b"id",
    b"for",
    b"form",
    b"list",
    b"headers",
    b"aria-labelledby",
    b"aria-describedby",
    b"aria-controls",
    b"aria-owns",
    b"aria-details",
    b"aria-flowto",
    b"aria-activedescendant",
    b"aria-errormessage",
    b"popovertarget",
];
/// Attributes that refer to an element of this page if they begin with `#`.
const REFERENCES: [&[u8]; 4] = [b"href", b"usemap", b"data-target", b"data-bs-target"];
/// Elements whose attribute `name` names them. Elsewhere it names a field, which is sent.
const NAMED: [&[u8]; 3] = [b"form", b"a", b"map"];
/// Elements without elements within: what looks like one there is text.
const RAW: [&[u8]; 9] =
    [b"script", b"style", b"textarea", b"title", b"xmp", b"iframe", b"noembed", b"noframes", b"noscript"];
/// Within these the elements above may have elements.
const FOREIGN: [&[u8]; 2] = [b"svg", b"math"];

/// The values of such attributes, in their order. None: how browsers read the page is not known for sure.
pub fn element_names(body: &[u8]) -> Option<Vec<Range<usize>>> {
    let mut reader = Reader { body, at: 0, names: Vec::new(), open: [0; 2] };
    while let Some(open) = reader.find(b"<") {
        reader.at = open + 1;
        match reader.rest() {
            [b'!', b'-', b'-', ..] => reader.comment()?,
            // Within SVG it is text, elsewhere a comment.
            [b'!', b'[', ..] => return None,
            [b'!' | b'?', ..] => reader.skip_past(b">"),
            [b'/', next, ..] if !next.is_ascii_alphabetic() => reader.skip_past(b">"),
            [b'/', ..] => {
                reader.at += 1;
                // It has no attributes.
                let known = reader.names.len();
                let name = reader.tag()?;
                reader.names.truncate(known);
                reader.opened(name, |count| count.saturating_sub(1));
            }
            [first, ..] if first.is_ascii_alphabetic() => {
                let name = reader.tag()?;
                reader.opened(name, |count| count + 1);
                // Nothing ends it.
                if name.eq_ignore_ascii_case(b"plaintext") {
                    return None;
                }
                if let Some(raw) = RAW.into_iter().find(|raw| name.eq_ignore_ascii_case(raw)) {
                    reader.raw(raw)?;
                }
            }
            _ => {}
        }
    }
    Some(reader.names)
}

struct Reader<'a> {
    body: &'a [u8],
    at: usize,
    names: Vec<Range<usize>>,
    /// Of each of `FOREIGN`, how many.
    open: [usize; 2],
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c')
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.body[self.at..]
    }

    /// The place of the next of these texts; what was before it is skipped.
    fn find(&self, text: &[u8]) -> Option<usize> {
        self.rest().windows(text.len()).position(|part| part == text).map(|found| self.at + found)
    }

    fn skip_past(&mut self, text: &[u8]) {
        self.at = self.find(text).map_or(self.body.len(), |found| found + text.len());
    }

    fn skip_while(&mut self, is: impl Fn(u8) -> bool) -> Range<usize> {
        let from = self.at;
        self.at += self.rest().iter().take_while(|byte| is(**byte)).count();
        from..self.at
    }

    fn opened(&mut self, name: &[u8], change: impl Fn(usize) -> usize) {
        if let Some(nth) = FOREIGN.iter().position(|own| name.eq_ignore_ascii_case(own)) {
            self.open[nth] = change(self.open[nth]);
        }
    }

    fn comment(&mut self) -> Option<()> {
        self.at += 3;
        // `<!-->` and `--!>` end one as well, and nobody means them.
        let end = self.find(b"-->")?;
        let text = &self.body[self.at..end];
        if text.starts_with(b">") || text.starts_with(b"->") || text.windows(4).any(|part| part == b"--!>") {
            return None;
        }
        self.at = end + 3;
        Some(())
    }

    /// What is within an element that has no elements, up to its end.
    fn raw(&mut self, name: &[u8]) -> Option<()> {
        let from = self.at;
        loop {
            self.at = self.find(b"</")?;
            let end = self.at;
            self.at += 2;
            let is_own = self.rest().get(..name.len()).is_some_and(|own| own.eq_ignore_ascii_case(name));
            let next = self.rest().get(name.len()).copied();
            if is_own && next.is_some_and(|next| is_space(next) || matches!(next, b'/' | b'>')) {
                // There, `<script>` within a comment begins one more.
                let has_comment = self.body[from..end].windows(4).any(|part| part == b"<!--");
                let has_elements = self.open != [0; 2] && self.body[from..end].contains(&b'<');
                // Without scripts, it has elements.
                let is_whole = name != b"noscript" || element_names(&self.body[from..end]).is_some();
                self.at = end;
                return (!has_comment && !has_elements && is_whole).then_some(());
            }
        }
    }

    /// From its name to behind its end.
    fn tag(&mut self) -> Option<&'a [u8]> {
        let name = &self.body[self.skip_while(|byte| !is_space(byte) && !matches!(byte, b'/' | b'>'))];
        loop {
            self.skip_while(|byte| is_space(byte) || byte == b'/');
            if *self.rest().first()? == b'>' {
                self.at += 1;
                return Some(name);
            }
            self.attribute(name);
        }
    }

    fn attribute(&mut self, element: &[u8]) {
        let from = self.at;
        // An `=` that comes first is part of the name.
        self.at += 1;
        self.skip_while(|byte| !is_space(byte) && !matches!(byte, b'/' | b'>' | b'='));
        let name = self.body[from..self.at].to_ascii_lowercase();
        self.skip_while(is_space);
        if self.rest().first() != Some(&b'=') {
            return;
        }
        self.at += 1;
        self.skip_while(is_space);
        let value = match self.rest().first() {
            Some(quote @ (b'"' | b'\'')) => {
                self.at += 1;
                let value = self.skip_while(|byte| byte != *quote);
                self.at = (self.at + 1).min(self.body.len());
                value
            }
            _ => self.skip_while(|byte| !is_space(byte) && byte != b'>'),
        };
        if is_name(element, &name, &self.body[value.clone()]) {
            self.names.push(value);
        }
    }
}

fn is_name(element: &[u8], attribute: &[u8], value: &[u8]) -> bool {
    // What scripts make of those that are not HTML's own, nobody knows.
    if element.contains(&b'-') {
        return false;
    }
    let is_plain = |value: &[u8]| value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.: ".contains(byte));
    if REFERENCES.contains(&attribute) {
        return value.strip_prefix(b"#").is_some_and(is_plain);
    }
    let is_own = attribute == b"name" && NAMED.iter().any(|own| element.eq_ignore_ascii_case(own));
    (is_own || NAMES.contains(&attribute)) && is_plain(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(body: &str) -> Option<Vec<&str>> {
        let found = element_names(body.as_bytes())?;
        Some(found.into_iter().map(|range| &body[range]).collect())
    }

    #[test]
    fn names_of_elements_and_what_refers_to_them() {
        let body =
            "<!DOCTYPE html><FORM ID = a\nname='b'><label for=c class=d>e</label><a href=\"#f\" name=g><map name=h>\
            <td headers=\"i j\"><button aria-controls=k popovertarget=l data-target='#m'/></form><b id=n>";
        assert_eq!(names(body).unwrap(), ["a", "b", "c", "#f", "g", "h", "i j", "k", "l", "#m", "n"]);
    }

    #[test]
    fn what_is_sent_or_read_by_scripts_is_no_name() {
        for body in [
            "<input name=a value=a>",
            "<select name=a><option value=a>",
            "<button name=a value=a>",
            "<a href=\"/a#a\" ping=a>",
            "<img src=\"#a\" srcset=a>",
            "<form action=\"#a\">",
            "<meta name=a content=a>",
            "<iframe name=a src=a></iframe>",
            "<i data-a=a data-id=a class=a style=a title=a onclick=a>",
            "<turbo-frame id=a>",
            "<i id='{\"a\":1}'>",
            "<i id=\"a/b\">",
            "<i id=\"a&amp;b\">",
            "a < b id=a >",
            "</ id=a>",
            "</i id=a>",
            "<? id=a>",
            "<!id=a>",
            "<i xid=a>",
            "<i ='id=a'>",
        ] {
            assert_eq!(names(body), Some(vec![]), "{body}");
        }
    }

    #[test]
    fn what_only_looks_like_an_element_is_none() {
        for raw in ["script", "STYLE", "textarea", "title", "xmp", "iframe", "noembed", "noframes", "noscript"] {
            let body = format!("<{raw} id=a><i id=b></{raw}x><i id=c></ {raw}></{raw}\n><i id=d>");
            assert_eq!(names(&body).unwrap(), ["a", "d"], "{raw}");
        }
        for (body, found) in [
            ("<!-- <i id=a> --><i id=b>", &["b"][..]),
            ("<i title='<b id=a>' id=b>", &["b"]),
            ("<i title=\"'\" id=b class='\">'>", &["b"]),
            ("<i title='>' id=b>", &["b"]),
            ("<svg><title>a</title></svg><script>a < b</script><i id=b>", &["b"]),
            ("<i title=a>id=b>", &[]),
            ("<noscript><iframe></iframe></noscript><i id=b>", &["b"]),
        ] {
            assert_eq!(names(body).unwrap(), found, "{body}");
        }
    }

    #[test]
    fn what_browsers_may_read_in_another_way_is_not_known() {
        for body in [
            "<i id=a><script>",
            "<script><!-- <script></script> --></script><i id=a>",
            "<i id=a><plaintext></plaintext>",
            "<i id=a><i",
            "<i id='a",
            "<noscript><textarea></noscript><i id=a></textarea>",
            "<noscript><i title='</noscript><i id=a>",
            "<svg><![CDATA[<i id=a>]]></svg>",
            "<svg><title><i id=a></title></svg>",
            "<SVG><svg></SVG><style><i></style></svg>",
            "<math><mi><xmp><i></xmp>",
            "<!-- <i id=a>",
            "<!--><i id=a>-->",
            "<!---><i id=a>-->",
            "<!-- --!><i id=a>-->",
        ] {
            assert_eq!(names(body), None, "{body}");
        }
    }
}
