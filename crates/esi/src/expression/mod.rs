//! The tests of `when` (5): comparisons bind closest, then `!`, `&`, `|`. It evaluates in time linear to the expression
//! and never fails once it is parsed.

mod decimal;
mod parse;

use std::cmp::Ordering;

use crate::{facts::Facts, variable::Variable, ExpressionError};

/// A condition on a client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression(Node);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    /// In single quotes: never a number.
    Text(Vec<u8>),
    Number(Vec<u8>),
    Variable(Variable),
    Compare(Operator, Box<Node>, Box<Node>),
    Not(Box<Node>),
    All(Vec<Node>),
    Any(Vec<Node>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Expression {
    /// Parses the value of a `test` attribute. `&&` and `||` are taken for `&` and `|`, as other processors do.
    pub fn parse(text: &[u8]) -> Result<Expression, ExpressionError> {
        parse::parse(text).map(Expression)
    }

    /// Whether it is true of the request.
    pub fn holds(&self, facts: &Facts) -> bool {
        self.0.holds(facts)
    }
}

impl Node {
    fn holds(&self, facts: &Facts) -> bool {
        match self {
            // Alone, a variable tells whether there is something: the note leaves it open.
            Node::Variable(variable) => !matches!(variable.value(facts).bytes(), b"" | b"false"),
            Node::Compare(operator, left, right) => {
                let (mut of_left, mut of_right) = (Vec::new(), Vec::new());
                let left_number = left.operand(facts, &mut of_left);
                let right_number = right.operand(facts, &mut of_right);
                // "If an operand is empty or undefined, the expression will always evaluate to false."
                if of_left.is_empty() || of_right.is_empty() {
                    return false;
                }
                let numbers = if left_number && right_number { decimal::compare(&of_left, &of_right) } else { None };
                operator.accepts(numbers.unwrap_or_else(|| of_left.cmp(&of_right)))
            }
            Node::Not(node) => !node.holds(facts),
            Node::All(nodes) => nodes.iter().all(|node| node.holds(facts)),
            Node::Any(nodes) => nodes.iter().any(|node| node.holds(facts)),
            Node::Text(_) | Node::Number(_) => false,
        }
    }

    /// Writes its value, and says whether that may be a number.
    fn operand(&self, facts: &Facts, value: &mut Vec<u8>) -> bool {
        match self {
            Node::Text(text) => value.extend_from_slice(text),
            Node::Number(text) => value.extend_from_slice(text),
            Node::Variable(variable) => value.extend_from_slice(variable.value(facts).bytes()),
            condition => value.extend_from_slice(if condition.holds(facts) { b"true" } else { b"false" }),
        }
        matches!(self, Node::Number(_) | Node::Variable(_))
    }

    /// Whether it can be true or false: a literal is neither.
    fn is_condition(&self) -> bool {
        !matches!(self, Node::Text(_) | Node::Number(_))
    }
}

impl Operator {
    fn accepts(self, ordering: Ordering) -> bool {
        match self {
            Operator::Equal => ordering.is_eq(),
            Operator::NotEqual => ordering.is_ne(),
            Operator::Less => ordering.is_lt(),
            Operator::LessOrEqual => ordering.is_le(),
            Operator::Greater => ordering.is_gt(),
            Operator::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

#[cfg(test)]
mod tests;
