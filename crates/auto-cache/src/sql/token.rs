//! Cuts SQL into tokens, as SQLite and PostgreSQL do. It decides nothing about what they mean, and refuses what it is not
//! sure of: text that one of them may cut in another place.

use std::ops::Range;

/// Which database reads the SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
}

/// A piece of SQL.
#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    /// A keyword or a name without quotes, in lower case.
    Word(String),
    /// A name in quotes, in lower case: both databases may know it by other letters, never by fewer.
    Quoted(String),
    /// `'text'`, also as `E'...'` and `$$...$$`.
    Text(String),
    /// As written.
    Number(String),
    /// `x'00'` and `b'01'`.
    Bytes,
    /// The n-th bound value, from 0.
    Parameter(usize),
    /// Operators and punctuation. A run of operator characters is one token.
    Symbol(String),
}

impl Token {
    pub(crate) fn is_word(&self, word: &str) -> bool {
        matches!(self, Token::Word(own) if own == word)
    }

    pub(crate) fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self, Token::Symbol(own) if own == symbol)
    }

    /// What may be the name of a table or column. SQLite takes `'posts'` for a name where only a name can be.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Token::Word(name) | Token::Quoted(name) => Some(name),
            _ => None,
        }
    }

    pub(crate) fn name_or_text(&self) -> Option<String> {
        match self {
            Token::Text(text) => Some(text.to_ascii_lowercase()),
            _ => self.name().map(str::to_owned),
        }
    }
}

/// The SQL can't be cut reliably.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable;

/// The longest statement that is looked at. A longer one (an import) counts as one that may do anything.
pub const MAX_SQL: usize = 256 * 1024;

/// SQLite's own limit of parameters, and PostgreSQL's by its protocol.
const MAX_PARAMETER: usize = 65_535;

pub fn tokens(sql: &str, dialect: Dialect) -> Result<Vec<Token>, Unreadable> {
    if sql.len() > MAX_SQL || sql.contains('\0') {
        return Err(Unreadable);
    }
    let mut scanner =
        Scanner { sql, bytes: sql.as_bytes(), at: 0, dialect, tokens: Vec::new(), named: Vec::new(), last: 0 };
    while scanner.skip_space()? {
        scanner.token()?;
    }
    Ok(scanner.tokens)
}

struct Scanner<'a> {
    sql: &'a str,
    bytes: &'a [u8],
    at: usize,
    dialect: Dialect,
    tokens: Vec<Token>,
    /// SQLite's named parameters, and their numbers.
    named: Vec<(&'a str, usize)>,
    /// How many numbers of parameters are taken.
    last: usize,
}

fn begins_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn continues_name(byte: u8) -> bool {
    begins_name(byte) || byte.is_ascii_digit() || byte == b'$'
}

fn is_operator(byte: u8) -> bool {
    b"+-*/<>=~!@#%^&|`?".contains(&byte)
}

impl<'a> Scanner<'a> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn push(&mut self, token: Token, length: usize) {
        self.at += length;
        self.tokens.push(token);
    }

    fn postgres(&self) -> bool {
        self.dialect == Dialect::Postgres
    }

    /// Skips space and comments; false at the end.
    fn skip_space(&mut self) -> Result<bool, Unreadable> {
        loop {
            match (self.peek(0), self.peek(1)) {
                (b' ' | b'\t' | b'\n' | b'\r' | b'\x0c', _) => self.at += 1,
                (b'-', b'-') => {
                    // PostgreSQL ends the line at a carriage return, too. A comment that has one is refused.
                    let length = self.bytes[self.at..].iter().position(|byte| *byte == b'\n');
                    let end = length.map_or(self.bytes.len(), |length| self.at + length);
                    if self.bytes[self.at..end]
                        .strip_suffix(b"\r")
                        .unwrap_or(&self.bytes[self.at..end])
                        .contains(&b'\r')
                    {
                        return Err(Unreadable);
                    }
                    self.at = end;
                }
                (b'/', b'*') => self.skip_comment()?,
                _ => return Ok(self.at < self.bytes.len()),
            }
        }
    }

    /// PostgreSQL nests comments, SQLite doesn't: one within another is refused.
    fn skip_comment(&mut self) -> Result<(), Unreadable> {
        let length = self.sql[self.at + 2..].find("*/").ok_or(Unreadable)?;
        if self.sql[self.at + 2..self.at + 2 + length].contains("/*") {
            return Err(Unreadable);
        }
        self.at += length + 4;
        Ok(())
    }

    fn token(&mut self) -> Result<(), Unreadable> {
        let (byte, next) = (self.peek(0), self.peek(1));
        match byte {
            b'\'' => self.text(1, false),
            b'"' => {
                let (name, length) = self.quoted(self.at, b'"')?;
                self.push(Token::Quoted(name.to_ascii_lowercase()), length);
                Ok(())
            }
            b'`' | b'[' if !self.postgres() => {
                let (name, length) = match byte {
                    b'`' => self.quoted(self.at, b'`')?,
                    _ => {
                        let length = self.sql[self.at..].find(']').ok_or(Unreadable)?;
                        (self.sql[self.at + 1..self.at + length].to_owned(), length + 1)
                    }
                };
                self.push(Token::Quoted(name.to_ascii_lowercase()), length);
                Ok(())
            }
            b'e' | b'E' if self.postgres() && next == b'\'' => self.text(2, true),
            b'n' | b'N' if self.postgres() && next == b'\'' => self.text(2, false),
            b'u' | b'U' if self.postgres() && next == b'&' && b"'\"".contains(&self.peek(2)) => Err(Unreadable),
            b'x' | b'X' | b'b' | b'B' if next == b'\'' && (self.postgres() || !b"bB".contains(&byte)) => {
                let (_, length) = self.quoted(self.at + 1, b'\'')?;
                self.push(Token::Bytes, length + 1);
                Ok(())
            }
            b'$' if self.postgres() => self.dollar(),
            b'$' | b':' | b'@' if !self.postgres() && begins_name(next) => self.named_parameter(),
            b'?' if !self.postgres() => self.question_mark(),
            b':' if self.postgres() && next == b':' => {
                self.push(Token::Symbol("::".into()), 2);
                Ok(())
            }
            _ if begins_name(byte) => {
                let length = self.run(self.at, continues_name);
                self.push(Token::Word(self.sql[self.at..self.at + length].to_ascii_lowercase()), length);
                Ok(())
            }
            _ if byte.is_ascii_digit() || byte == b'.' && next.is_ascii_digit() => self.number(),
            _ if b"(),.;:[]".contains(&byte) => {
                self.push(Token::Symbol(char::from(byte).into()), 1);
                Ok(())
            }
            _ if is_operator(byte) => {
                self.operator();
                Ok(())
            }
            _ => Err(Unreadable),
        }
    }

    fn run(&self, from: usize, belongs: impl Fn(u8) -> bool) -> usize {
        self.bytes[from..].iter().take_while(|byte| belongs(**byte)).count()
    }

    /// What is between two of these quotes, where a doubled one is one; and its length with quotes.
    fn quoted(&self, from: usize, quote: u8) -> Result<(String, usize), Unreadable> {
        let mut found = Vec::new();
        let mut at = from + 1;
        loop {
            match self.bytes.get(at) {
                None => return Err(Unreadable),
                Some(byte) if *byte == quote && self.bytes.get(at + 1) == Some(&quote) => {
                    found.push(quote);
                    at += 2;
                }
                Some(byte) if *byte == quote => break,
                Some(byte) => {
                    found.push(*byte);
                    at += 1;
                }
            }
        }
        let found = String::from_utf8(found).map_err(|_| Unreadable)?;
        Ok((found, at + 1 - from))
    }

    /// A text whose quote is `opening - 1` bytes from here. With escapes, those that mean one character are read, and a text
    /// that has others is of unknown value.
    fn text(&mut self, opening: usize, escapes: bool) -> Result<(), Unreadable> {
        let quote = self.at + opening - 1;
        let (text, length) = if escapes { self.escaped(quote)? } else { self.quoted(quote, b'\'')? };
        self.push(Token::Text(text), opening - 1 + length);
        // `'a' <line end> 'b'` is one text for PostgreSQL.
        match self.tokens.len().checked_sub(2).map(|before| &self.tokens[before]) {
            Some(Token::Text(_)) => Err(Unreadable),
            _ => Ok(()),
        }
    }

    fn escaped(&self, quote: usize) -> Result<(String, usize), Unreadable> {
        let mut found = Vec::new();
        let mut at = quote + 1;
        loop {
            let (byte, next) = (self.bytes.get(at), self.bytes.get(at + 1));
            match (byte, next) {
                (None, _) => return Err(Unreadable),
                (Some(b'\''), Some(b'\'')) | (Some(b'\\'), Some(b'\'' | b'\\' | b'"')) => {
                    found.extend(next);
                    at += 2;
                }
                (Some(b'\\'), _) => return Err(Unreadable),
                (Some(b'\''), _) => break,
                (Some(byte), _) => {
                    found.push(*byte);
                    at += 1;
                }
            }
        }
        Ok((String::from_utf8(found).map_err(|_| Unreadable)?, at + 1 - quote))
    }

    /// `$1`, or a text in dollars.
    fn dollar(&mut self) -> Result<(), Unreadable> {
        let digits = self.run(self.at + 1, |byte| byte.is_ascii_digit());
        if digits > 0 {
            let number = self.number_of(self.at + 1..self.at + 1 + digits)?;
            self.push(Token::Parameter(number - 1), 1 + digits);
            return Ok(());
        }
        let tag = self.run(self.at + 1, |byte| begins_name(byte) || byte.is_ascii_digit());
        if self.peek(1 + tag) != b'$' {
            return Err(Unreadable);
        }
        let mark = &self.sql[self.at..self.at + tag + 2];
        let body = self.at + mark.len();
        let length = self.sql[body..].find(mark).ok_or(Unreadable)?;
        let text = self.sql[body..body + length].to_owned();
        self.push(Token::Text(text), length + 2 * mark.len());
        Ok(())
    }

    fn number_of(&self, digits: Range<usize>) -> Result<usize, Unreadable> {
        let number = self.sql[digits].parse::<usize>().map_err(|_| Unreadable)?;
        if (1..=MAX_PARAMETER).contains(&number) {
            Ok(number)
        } else {
            Err(Unreadable)
        }
    }

    fn question_mark(&mut self) -> Result<(), Unreadable> {
        let digits = self.run(self.at + 1, |byte| byte.is_ascii_digit());
        let number = if digits > 0 { self.number_of(self.at + 1..self.at + 1 + digits)? } else { self.last + 1 };
        self.last = self.last.max(number);
        self.push(Token::Parameter(number - 1), 1 + digits);
        Ok(())
    }

    fn named_parameter(&mut self) -> Result<(), Unreadable> {
        let length = 1 + self.run(self.at + 1, continues_name);
        // Tcl's `$name::more(text)`.
        if self.peek(length) == b':' || self.peek(0) == b'$' && self.peek(length) == b'(' {
            return Err(Unreadable);
        }
        let name = &self.sql[self.at..self.at + length];
        let number = match self.named.iter().find(|(own, _)| *own == name) {
            Some((_, number)) => *number,
            None => {
                self.last += 1;
                self.named.push((name, self.last));
                self.last
            }
        };
        self.push(Token::Parameter(number - 1), length);
        Ok(())
    }

    /// Digits with a point and an exponent. What else begins like a number is refused: `1or` is two tokens for PostgreSQL 14.
    fn number(&mut self) -> Result<(), Unreadable> {
        let mut length = self.run(self.at, |byte| continues_name(byte) || byte == b'.');
        let exponent =
            matches!(self.bytes[self.at + length - 1], b'e' | b'E') && matches!(self.peek(length), b'+' | b'-');
        if exponent
            && self.bytes[self.at..self.at + length - 1].iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
        {
            length += 1 + self.run(self.at + length + 1, |byte| byte.is_ascii_digit());
        }
        let number = &self.sql[self.at..self.at + length];
        if number.parse::<f64>().is_err() {
            return Err(Unreadable);
        }
        self.push(Token::Number(number.to_owned()), length);
        Ok(())
    }

    /// As long as it is one, and no comment begins.
    fn operator(&mut self) {
        let mut length = 1;
        while is_operator(self.peek(length)) {
            let comment = [self.peek(length), self.peek(length + 1)];
            let parameter = !self.postgres() && b"?@`".contains(&comment[0]);
            if comment == *b"--" || comment == *b"/*" || parameter {
                break;
            }
            length += 1;
        }
        self.push(Token::Symbol(self.sql[self.at..self.at + length].to_owned()), length);
    }
}
