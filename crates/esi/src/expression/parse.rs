//! Reads an expression (5.1). It never recurses deeper than its bound, however many operators or parentheses there are.

use super::{Node, Operator};
use crate::{variable::Variable, ExpressionError};

/// Parentheses within each other.
const DEEPEST: usize = 32;

pub(super) fn parse(text: &[u8]) -> Result<Node, ExpressionError> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let node = parser.any()?;
    match parser.peek() {
        None => parser.condition(node, 0),
        Some(b')') => Err(parser.error("a parenthesis closes nothing")),
        Some(_) => Err(parser.error("an operator is due here")),
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn error(&self, reason: &'static str) -> ExpressionError {
        ExpressionError { reason, at: self.at }
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn takes(&mut self, token: &[u8]) -> bool {
        self.peek();
        let found = self.text[self.at..].starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn condition(&self, node: Node, at: usize) -> Result<Node, ExpressionError> {
        if node.is_condition() {
            Ok(node)
        } else {
            Err(ExpressionError { reason: "a literal alone is neither true nor false", at })
        }
    }

    fn any(&mut self) -> Result<Node, ExpressionError> {
        self.chain(Self::all, b'|', Node::Any)
    }

    fn all(&mut self) -> Result<Node, ExpressionError> {
        self.chain(Self::negation, b'&', Node::All)
    }

    /// Members joined by an operator, single or doubled.
    fn chain(
        &mut self,
        member: fn(&mut Self) -> Result<Node, ExpressionError>,
        operator: u8,
        join: fn(Vec<Node>) -> Node,
    ) -> Result<Node, ExpressionError> {
        let began = self.at;
        let first = member(self)?;
        if self.peek() != Some(operator) {
            return Ok(first);
        }
        let mut members = vec![self.condition(first, began)?];
        while self.takes(&[operator]) {
            self.at += usize::from(self.text.get(self.at) == Some(&operator));
            let began = self.at;
            let node = member(self)?;
            members.push(self.condition(node, began)?);
        }
        Ok(join(members))
    }

    fn negation(&mut self) -> Result<Node, ExpressionError> {
        let mut count = 0;
        while self.peek() == Some(b'!') && self.text.get(self.at + 1) != Some(&b'=') {
            self.at += 1;
            count += 1;
        }
        let began = self.at;
        let node = self.comparison()?;
        Ok(match count {
            0 => node,
            count => {
                let node = self.condition(node, began)?;
                let negated = Node::Not(Box::new(node));
                if count % 2 == 0 {
                    Node::Not(Box::new(negated))
                } else {
                    negated
                }
            }
        })
    }

    fn comparison(&mut self) -> Result<Node, ExpressionError> {
        let left = self.operand()?;
        let Some(operator) = self.operator() else { return Ok(left) };
        let right = self.operand()?;
        match self.operator() {
            None => Ok(Node::Compare(operator, Box::new(left), Box::new(right))),
            Some(_) => Err(self.error("two comparisons in a row need parentheses")),
        }
    }

    fn operator(&mut self) -> Option<Operator> {
        let operators: [(&[u8], _); 6] = [
            (b"==", Operator::Equal),
            (b"!=", Operator::NotEqual),
            (b"<=", Operator::LessOrEqual),
            (b">=", Operator::GreaterOrEqual),
            (b"<", Operator::Less),
            (b">", Operator::Greater),
        ];
        operators.into_iter().find(|(token, _)| self.takes(token)).map(|(_, operator)| operator)
    }

    fn operand(&mut self) -> Result<Node, ExpressionError> {
        match self.peek() {
            None => Err(self.error("the expression ends where a value is due")),
            Some(b'(') => self.group(),
            Some(b'\'') => {
                let rest = &self.text[self.at + 1..];
                let end = rest.iter().position(|byte| *byte == b'\'').ok_or(self.error("a quote is not closed"))?;
                self.at += end + 2;
                Ok(Node::Text(rest[..end].to_vec()))
            }
            Some(b'$') => {
                let found = Variable::parse(&self.text[self.at..]);
                let (variable, length) =
                    found.map_err(|_| self.error("a variable is written $(NAME), $(NAME{key}) or $(NAME|default)"))?;
                self.at += length;
                Ok(Node::Variable(variable))
            }
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => Err(self.error("a value is due here: a variable, a number or text in single quotes")),
        }
    }

    fn group(&mut self) -> Result<Node, ExpressionError> {
        if self.depth == DEEPEST {
            return Err(self.error("too many parentheses within each other"));
        }
        self.at += 1;
        self.depth += 1;
        let node = self.any()?;
        self.depth -= 1;
        if self.takes(b")") {
            Ok(node)
        } else {
            Err(self.error("a parenthesis is not closed"))
        }
    }

    fn number(&mut self) -> Result<Node, ExpressionError> {
        let rest = &self.text[self.at..];
        let length = 1 + rest[1..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'.').count();
        if super::decimal::compare(&rest[..length], b"0").is_none() {
            return Err(self.error("this is no number; text stands in single quotes"));
        }
        self.at += length;
        Ok(Node::Number(rest[..length].to_vec()))
    }
}
