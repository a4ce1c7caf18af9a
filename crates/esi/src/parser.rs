//! Bytes of a document in, pieces out, as they come (3). It holds to the note to the letter where a mistake would
//! change what the reader sees, and never guesses. HTML around the elements is not looked at, comments and scripts no
//! more than the rest.

use bytes::Bytes;

use crate::{
    expression::Expression,
    piece::{Include, Piece},
    scan::{Scanner, Token},
    tag::{Element, Tag},
    template::Template,
    variable::Variable,
    Error, ErrorKind, Limits,
};

/// Parses one document. However it is cut, the same pieces come out, but for how text is cut.
#[derive(Debug)]
pub struct Parser {
    scanner: Scanner,
    open: Vec<Open>,
    /// How many of `open` are `vars`.
    vars: usize,
    nesting: usize,
    failed: Option<Error>,
    rest: Vec<Bytes>,
}

/// An element that is not closed yet.
#[derive(Debug)]
struct Open {
    element: Element,
    at: u64,
    /// Which children it has had.
    children: Vec<Element>,
}

impl Parser {
    pub fn new(limits: &Limits) -> Parser {
        let scanner = Scanner::new(limits.tag);
        Parser { scanner, open: Vec::new(), vars: 0, nesting: limits.nesting, failed: None, rest: Vec::new() }
    }

    /// Adds the pieces that are complete with these bytes. Text is out at once, as slices of what came in; at most a
    /// tag is held back (`Limits::tag`).
    ///
    /// # Errors
    /// The first mistake in the document, once the pieces before it have been added; the parser stays there and takes
    /// nothing more. What it did not understand is in [`Parser::take_rest`].
    pub fn feed(&mut self, mut chunk: Bytes, pieces: &mut Vec<Piece>) -> Result<(), Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        loop {
            let token = match self.scanner.next(&mut chunk, self.vars > 0) {
                Ok(Some(token)) => token,
                Ok(None) => return Ok(()),
                Err(error) => return Err(self.fail(error, None, chunk)),
            };
            let taken = match &token {
                Token::Text(text) => self.text(text, pieces),
                Token::Variable(text, at) => self.variable(text, *at, pieces),
                Token::Tag(text, at) => {
                    let read = Tag::parse(text).and_then(|tag| self.tag(tag, *at, pieces));
                    read.map_err(|kind| Error { kind, at: *at })
                }
            };
            if let Err(error) = taken {
                return Err(self.fail(error, Some(token), chunk));
            }
        }
    }

    /// The document is complete.
    ///
    /// # Errors
    /// Something is open, or `feed` has failed.
    pub fn finish(&mut self, pieces: &mut Vec<Piece>) -> Result<(), Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let position = self.scanner.position();
        let end = match self.scanner.finish() {
            Ok(text) => text.map_or(Ok(()), |text| self.text(&text, pieces)),
            Err(error) => Err(error),
        };
        let unclosed = |kind, at| Err(Error { kind, at });
        end.and_then(|()| match self.open.last() {
            Some(open) => unclosed(ErrorKind::Unclosed(open.element.name()), open.at),
            None if self.scanner.is_escaped() => unclosed(ErrorKind::Unclosed("<!--esi"), position),
            None => Ok(()),
        })
        .map_err(|error| self.fail(error, None, Bytes::new()))
    }

    /// After a failure: what was fed and is in no piece, from the mistake on. To be shown as it is, or thrown away.
    pub fn take_rest(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.rest)
    }

    fn fail(&mut self, error: Error, token: Option<Token>, chunk: Bytes) -> Error {
        self.rest.extend(token.map(Token::into_source));
        self.rest.extend(self.scanner.take_held());
        self.rest.extend((!chunk.is_empty()).then_some(chunk));
        self.failed = Some(error.clone());
        error
    }

    /// `choose` or `try`, if that is what a child would be in.
    fn selective(&self) -> Option<Element> {
        self.open.last().map(|open| open.element).filter(|element| matches!(element, Element::Choose | Element::Try))
    }

    fn text(&mut self, text: &Bytes, pieces: &mut Vec<Piece>) -> Result<(), Error> {
        let Some(within) = self.selective() else {
            pieces.push(Piece::Text(text.clone()));
            return Ok(());
        };
        match text.iter().position(|byte| !byte.is_ascii_whitespace()) {
            None => Ok(()),
            Some(_) => {
                let at = self.open.last().map_or(0, |open| open.at);
                Err(Error { kind: ErrorKind::TextWithin(within.name()), at })
            }
        }
    }

    fn variable(&mut self, text: &Bytes, at: u64, pieces: &mut Vec<Piece>) -> Result<(), Error> {
        if let Some(within) = self.selective() {
            return Err(Error { kind: ErrorKind::TextWithin(within.name()), at });
        }
        pieces.push(Piece::Variable(Variable::from_scanned(text)));
        Ok(())
    }

    fn tag(&mut self, tag: Tag, at: u64, pieces: &mut Vec<Piece>) -> Result<(), ErrorKind> {
        if tag.closes {
            // Empty elements have no closing tag; where a generator of XML writes one it does no harm.
            return match tag.element {
                Element::Include | Element::Comment => Ok(()),
                element => self.close(element, pieces),
            };
        }
        self.check_place(tag.element)?;
        match tag.element {
            Element::Comment => {}
            Element::Remove if tag.empty => {}
            Element::Remove => self.scanner.remove(),
            Element::Include => pieces.push(Piece::Include(include(&tag)?)),
            element => {
                match element {
                    Element::Choose => pieces.push(Piece::Choose),
                    Element::Try => pieces.push(Piece::Try),
                    Element::Otherwise => pieces.push(Piece::Otherwise),
                    Element::Attempt => pieces.push(Piece::Attempt),
                    Element::Except => pieces.push(Piece::Except),
                    Element::When => {
                        let test = Expression::parse(tag.required("test")?).map_err(ErrorKind::Expression)?;
                        pieces.push(Piece::When(test));
                    }
                    _ => {}
                }
                self.open(element, at)?;
                if tag.empty {
                    self.close(element, pieces)?;
                }
            }
        }
        Ok(())
    }

    /// Whether an element may stand here (3.3, 3.4). What leaves nothing behind may stand anywhere.
    fn check_place(&mut self, element: Element) -> Result<(), ErrorKind> {
        use Element::*;
        let name = element.name();
        let parent = match element {
            When | Otherwise => Choose,
            Attempt | Except => Try,
            Comment | Remove => return Ok(()),
            _ => {
                let within = self.selective();
                return within.map_or(Ok(()), |within| {
                    Err(ErrorKind::NotAllowedWithin { element: name, within: within.name() })
                });
            }
        };
        let misplaced = ErrorKind::Misplaced { element: name, within: parent.name() };
        let open = self.open.last_mut().filter(|open| open.element == parent).ok_or(misplaced)?;
        if open.children.contains(&element) && element != When || open.children.contains(&Otherwise) {
            return Err(ErrorKind::OneTooMany { element: name, within: parent.name() });
        }
        if !open.children.contains(&element) {
            open.children.push(element);
        }
        Ok(())
    }

    fn open(&mut self, element: Element, at: u64) -> Result<(), ErrorKind> {
        if self.open.len() >= self.nesting {
            return Err(ErrorKind::NestedTooDeep { limit: self.nesting });
        }
        self.vars += usize::from(element == Element::Vars);
        self.open.push(Open { element, at, children: Vec::new() });
        Ok(())
    }

    fn close(&mut self, element: Element, pieces: &mut Vec<Piece>) -> Result<(), ErrorKind> {
        use Element::*;
        let last = self.open.last();
        let Some(open) = last.filter(|open| open.element == element) else {
            return Err(ErrorKind::UnexpectedEnd {
                element: element.name(),
                open: last.map(|open| open.element.name()),
            });
        };
        let needs: &[Element] = match element {
            Choose => &[When],
            Try => &[Attempt, Except],
            _ => &[],
        };
        if let Some(lacks) = needs.iter().find(|child| !open.children.contains(child)) {
            return Err(ErrorKind::Lacks { element: element.name(), needs: lacks.name() });
        }
        self.open.pop();
        match element {
            Choose => pieces.push(Piece::EndChoose),
            Try => pieces.push(Piece::EndTry),
            Vars => self.vars -= 1,
            _ => {}
        }
        Ok(())
    }
}

fn include(tag: &Tag) -> Result<Include, ErrorKind> {
    let src = Template::parse(tag.required("src")?);
    let alt = tag.attribute("alt").map(Template::parse);
    Ok(Include { src, alt, continue_on_error: tag.attribute("onerror") == Some(b"continue") })
}
