//! The document type declaration: its entities are kept, all else in it is passed over. Nothing outside of the document
//! is asked for, and parameter entities, by which declarations multiply, are refused where they are used.

use memchr::{memchr, memmem};

use super::{
    characters::{name_length, skip_space},
    error::Mistake,
    references::{bad_number, inside_reference, numbered, Entities, Entity, LONE},
};

/// Reads `<!DOCTYPE ...>`, all of it, which stands at `start` in the document.
pub(super) fn read(declaration: &str, start: usize, entities: &mut Entities) -> Result<(), Mistake> {
    Doctype { text: declaration, at: 0 }.read(entities).map_err(|mistake| Mistake { at: start + mistake.at, ..mistake })
}

struct Doctype<'a> {
    text: &'a str,
    at: usize,
}

type ParseResult<T = ()> = Result<T, Mistake>;

impl<'a> Doctype<'a> {
    fn read(&mut self, entities: &mut Entities) -> ParseResult {
        if !self.take("<!DOCTYPE") {
            return self.wrong("only \"<!DOCTYPE\" can stand here");
        }
        self.space()?;
        self.name()?;
        let apart = self.skip_space();
        if apart && !self.rest().starts_with(['[', '>']) {
            self.external()?;
            self.skip_space();
        }
        if self.take("[") {
            self.subset(entities)?;
            self.skip_space();
        }
        if !self.take(">") || self.at != self.text.len() {
            return self.wrong("the document type declaration does not end here as it should");
        }
        Ok(())
    }

    fn subset(&mut self, entities: &mut Entities) -> ParseResult {
        loop {
            self.skip_space();
            if self.take("]") {
                return Ok(());
            } else if self.take("<!ENTITY") {
                self.entity(entities)?;
            } else if self.take("<!--") {
                self.comment()?;
            } else if self.take("<?") {
                self.past("?>", "a processing instruction")?;
            } else if self.take("<!ELEMENT") {
                self.past(">", "a declaration")?;
            } else if self.take("<!ATTLIST") || self.take("<!NOTATION") {
                self.declaration()?;
            } else if self.rest().starts_with('%') {
                return self.wrong("references to parameter entities are not read");
            } else {
                return self.wrong("the document type holds something that is no declaration");
            }
        }
    }

    fn entity(&mut self, entities: &mut Entities) -> ParseResult {
        self.space()?;
        let parameter = self.take("%");
        if parameter {
            self.space()?;
        }
        let name = self.name()?;
        self.space()?;
        let entity = if self.rest().starts_with(['"', '\'']) {
            Entity::Text(self.value()?)
        } else {
            self.external()?;
            let apart = self.skip_space();
            if apart && !parameter && self.take("NDATA") {
                self.space()?;
                self.name()?;
            }
            Entity::External
        };
        self.skip_space();
        if !self.take(">") {
            return self.wrong("\">\" is missing after the declaration of an entity");
        }
        if !parameter {
            entities.declare(name, entity);
        }
        Ok(())
    }

    /// The value of an entity, in which references to characters are done at once.
    fn value(&mut self) -> ParseResult<String> {
        let start = self.at + 1;
        let value = self.literal()?;
        let mut text = String::with_capacity(value.len());
        let (mut at, bytes) = (0, value.as_bytes());
        while let Some(found) = bytes[at..].iter().position(|byte| matches!(byte, b'&' | b'%' | b'\r')) {
            text.push_str(&value[at..at + found]);
            at += found;
            match bytes[at] {
                b'%' => return Err(Mistake::new(start + at, "references to parameter entities are not read")),
                b'\r' => {
                    text.push('\n');
                    at += 1 + usize::from(bytes.get(at + 1) == Some(&b'\n'));
                }
                _ => {
                    let inner = inside_reference(&value[at..]).ok_or_else(|| Mistake::new(start + at, LONE))?;
                    match inner.strip_prefix('#') {
                        Some(number) => {
                            text.push(numbered(number).ok_or_else(|| Mistake::new(start + at, bad_number(inner)))?);
                        }
                        None => text.push_str(&value[at..at + inner.len() + 2]),
                    }
                    at += inner.len() + 2;
                }
            }
        }
        text.push_str(&value[at..]);
        Ok(text)
    }

    /// `SYSTEM "..."` or `PUBLIC "..." "..."`.
    fn external(&mut self) -> ParseResult {
        if self.take("PUBLIC") {
            self.space()?;
            self.literal()?;
        } else if !self.take("SYSTEM") {
            return self.wrong("SYSTEM or PUBLIC is missing");
        }
        self.space()?;
        self.literal().map(drop)
    }

    /// A declaration that means nothing here. `>` in quotes is no end of it.
    fn declaration(&mut self) -> ParseResult {
        loop {
            let Some(found) = self.rest().find(['>', '"', '\'']) else {
                return self.wrong("there is no end to a declaration");
            };
            self.at += found;
            if self.take(">") {
                return Ok(());
            }
            self.literal()?;
        }
    }

    fn comment(&mut self) -> ParseResult {
        let start = self.at;
        self.past("--", "a comment")?;
        if !self.take(">") {
            return Err(Mistake::new(start, DOUBLE_HYPHEN));
        }
        Ok(())
    }

    fn past(&mut self, end: &str, what: &str) -> ParseResult {
        match memmem::find(self.rest().as_bytes(), end.as_bytes()) {
            Some(found) => {
                self.at += found + end.len();
                Ok(())
            }
            None => self.wrong(&format!("there is no end to {what}")),
        }
    }

    fn literal(&mut self) -> ParseResult<&'a str> {
        let rest = self.rest();
        let Some(quote @ (b'"' | b'\'')) = rest.as_bytes().first() else {
            return self.wrong("a quote is missing");
        };
        let Some(length) = memchr(*quote, &rest.as_bytes()[1..]) else {
            return self.wrong("there is no end to a quotation");
        };
        self.at += length + 2;
        Ok(&rest[1..=length])
    }

    fn name(&mut self) -> ParseResult<&'a str> {
        let rest = self.rest();
        let length = name_length(rest);
        if length == 0 {
            return self.wrong("a name is missing in the document type declaration");
        }
        self.at += length;
        Ok(&rest[..length])
    }

    fn space(&mut self) -> ParseResult {
        if self.skip_space() {
            Ok(())
        } else {
            self.wrong("white space is missing in the document type declaration")
        }
    }

    fn skip_space(&mut self) -> bool {
        let start = self.at;
        self.at = skip_space(self.text.as_bytes(), start);
        self.at > start
    }

    fn take(&mut self, what: &str) -> bool {
        let found = self.rest().starts_with(what);
        self.at += if found { what.len() } else { 0 };
        found
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn wrong<T>(&self, message: &str) -> ParseResult<T> {
        Err(Mistake::new(self.at, message))
    }
}

pub(super) const DOUBLE_HYPHEN: &str = "\"--\" within a comment";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::limits::Limits;

    fn declared(declaration: &str, reference: &str) -> Result<String, String> {
        let mut entities = Entities::new(&Limits::default());
        read(declaration, 0, &mut entities).map_err(|mistake| format!("{}: {}", mistake.at, mistake.message))?;
        let mut out = String::new();
        entities.resolve(reference, 0, &mut out).map_err(|mistake| mistake.message)?;
        Ok(out)
    }

    #[test]
    fn entities_are_kept() {
        let all = "<!DOCTYPE a PUBLIC '-//x' \"y\" [\n<!ELEMENT a (b|c)*>\n<!ATTLIST a b CDATA '>'><!NOTATION n SYSTEM \">\">\
                   <!-- <!ENTITY e 'no'> --><?p ]>?><!ENTITY % p 'x'><!ENTITY x SYSTEM 'file'><!ENTITY y PUBLIC 'p' 'f' NDATA n >\
                   <!ENTITY e \"a&#60;\r\n&#38;f;'>\" ><!ENTITY f '1'> ] >";
        assert_eq!(declared(&all.replace("&#60;", "&#65;"), "e"), Ok("aA\n1'>".into()));
        assert!(declared(all, "e").unwrap_err().contains("markup"));
        assert!(declared(all, "x").unwrap_err().contains("fetched"));
        assert!(declared(all, "p").unwrap_err().contains("not declared"));
        for plain in ["<!DOCTYPE a>", "<!DOCTYPE a SYSTEM 'x'>", "<!DOCTYPE a[]>", "<!DOCTYPE a SYSTEM 'x'[ ]>"] {
            assert_eq!(declared(plain, "amp"), Ok("&".into()), "{plain}");
        }
    }

    #[test]
    fn mistakes_have_their_place() {
        let cases = [
            ("<!doctype a>", 0),
            ("<!DOCTYPE>", 9),
            ("<!DOCTYPE 1>", 10),
            ("<!DOCTYPE a b>", 12),
            ("<!DOCTYPE a SYSTEM>", 18),
            ("<!DOCTYPE a PUBLIC 'x'>", 22),
            ("<!DOCTYPE a SYSTEM 'x' y>", 23),
            ("<!DOCTYPE a [%p;]>", 13),
            ("<!DOCTYPE a [x]>", 13),
            ("<!DOCTYPE a [<!ENTITY e 'a%p;'>]>", 26),
            ("<!DOCTYPE a [<!ENTITY e 'a&b'>]>", 26),
            ("<!DOCTYPE a [<!ENTITY e '&#0;'>]>", 25),
            ("<!DOCTYPE a [<!ENTITY e>]>", 23),
            ("<!DOCTYPE a [<!ENTITY e 'x' y>]>", 28),
            ("<!DOCTYPE a [<!-- a -- b -->]>", 17),
            ("<!DOCTYPE a [<!ATTLIST ']>", 23),
            ("<!DOCTYPE a [<!ELEMENT", 22),
        ];
        for (declaration, at) in cases {
            let told = declared(declaration, "amp").unwrap_err();
            assert!(told.starts_with(&format!("{at}: ")), "{declaration}: {told}");
        }
    }
}
