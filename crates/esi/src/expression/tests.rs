//! Each rule of section 5, and a second evaluator, slow and plain, to hold random expressions against.

use super::Expression;
use crate::Facts;

fn facts() -> Facts {
    Facts {
        accept_language: "en-gb".into(),
        cookie: "group=Advanced; visits=42; long=007; version=3.01.23; no=false".into(),
        host: "example.com".into(),
        ..Facts::default()
    }
}

fn holds(text: &str) -> bool {
    Expression::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}")).holds(&facts())
}

#[test]
fn expressions_evaluate_as_the_note_has_them() {
    let cases = [
        // The note's own
        ("!(1==1)", false),
        ("!('a'<='c')", false),
        ("(1==1)|('abc'=='def')", true),
        ("(4!=5)&(4==5)", false),
        ("$(HTTP_HOST) == 'example.com'", true),
        ("$(HTTP_COOKIE{group})=='Advanced'", true),
        ("$(HTTP_COOKIE{group})=='Basic User'", false),
        // Each operator
        ("1<2", true),
        ("2<2", false),
        ("2<=2", true),
        ("3<=2", false),
        ("2>1", true),
        ("2>2", false),
        ("2>=2", true),
        ("1>=2", false),
        ("1!=2", true),
        ("2!=2", false),
        // Precedence: comparison, !, &, |
        ("!1==2", true),
        ("! 1 == 1 | 1 == 1", true),
        ("!1==1 & 1==2", false),
        ("1==1 | 1==1 & 1==2", true),
        ("(1==1 | 1==1) & 1==2", false),
        ("1==2 & 1==1 | 1==1", true),
        ("!!1==1", true),
        ("! ! ! 1==1", false),
        ("1 > 2 | 3 > 2", true),
        ("(1>2)||(3>2&&2>1)", true),
        // "If both operands are numeric, the expression is evaluated numerically"
        ("9 < 10", true),
        ("'9' < '10'", false),
        ("9 < '10'", false),
        ("$(HTTP_COOKIE{visits}) > 9", true),
        ("$(HTTP_COOKIE{visits}) == 42.0", true),
        ("$(HTTP_COOKIE{visits}) == '42.0'", false),
        ("$(HTTP_COOKIE{long}) == 7", true),
        ("$(HTTP_COOKIE{long}) == '007'", true),
        ("$(HTTP_COOKIE{long}) == '7'", false),
        ("$(HTTP_COOKIE{version}) > 21", true),
        ("-1 < 1", true),
        ("-2 < -1", true),
        ("-0 == 0", true),
        ("1.50 == 1.5", true),
        ("0.1 < 0.09", false),
        ("9007199254740993 == 9007199254740992", false),
        ("3.02 > 2.4124 & 1 <= 1", true),
        // "If an operand is empty or undefined, the expression will always evaluate to false"
        ("$(HTTP_COOKIE{none}) == ''", false),
        ("$(HTTP_COOKIE{none}) != 'a'", false),
        ("'' == ''", false),
        ("!($(HTTP_COOKIE{none}) == 'a')", true),
        ("$(HTTP_COOKIE{none}|'a') == 'a'", true),
        // Lists, 4.1.2
        ("$(HTTP_ACCEPT_LANGUAGE{en-gb})", true),
        ("$(HTTP_ACCEPT_LANGUAGE{fr})", false),
        ("!$(HTTP_ACCEPT_LANGUAGE{fr})", true),
        ("$(HTTP_ACCEPT_LANGUAGE{fr}) == 'false'", true),
        // Variables alone
        ("$(HTTP_COOKIE{group})", true),
        ("$(HTTP_COOKIE{none})", false),
        ("$(HTTP_COOKIE{no})", false),
        // Quoted text has anything but a quote in it
        ("' a & (b) | \"$(HTTP_HOST)\" ' == ' a & (b) | \"$(HTTP_HOST)\" '", true),
        ("(('a'))==('a')", true),
        ("(1==1)==(2==2)", true),
        (" 1\t==\n1 ", true),
    ];
    for (text, expected) in cases {
        assert_eq!(holds(text), expected, "{text}");
    }
}

#[test]
fn what_is_no_expression_says_why_and_where() {
    let cases = [
        ("", 0, "ends where a value"),
        ("1 & 4", 0, "a literal alone"),
        ("'abc' | 'def'", 0, "a literal alone"),
        ("1==1 & 4", 6, "a literal alone"),
        ("!'a'", 1, "a literal alone"),
        ("'a'", 0, "a literal alone"),
        ("\"abc\" == 'abc'", 0, "a value is due"),
        ("abc == 'abc'", 0, "a value is due"),
        ("'hello' 'there'", 8, "an operator is due"),
        ("3 'hello'", 2, "an operator is due"),
        ("1 = 1", 2, "an operator is due"),
        ("1 ==", 4, "ends where a value"),
        ("1 == 1 |", 8, "ends where a value"),
        ("1 == !(1==1)", 5, "a value is due"),
        ("1 == 1 == 1", 9, "two comparisons"),
        ("(1 == 1", 7, "not closed"),
        ("1 == 1)", 6, "closes nothing"),
        ("'a", 0, "a quote"),
        ("$(a) == 1", 0, "a variable is written"),
        ("3.01.23 == 1", 0, "no number"),
        ("1.05a == 1", 0, "no number"),
        ("- == 1", 0, "no number"),
        ("1 has 2", 2, "an operator is due"),
    ];
    for (text, at, reason) in cases {
        let error = Expression::parse(text.as_bytes()).expect_err(text);
        assert!(error.at == at && error.reason.contains(reason), "{text}: {error}");
    }
    assert!(Expression::parse(&b"(".repeat(10_000)).is_err());
    assert!(Expression::parse(&[b"!".repeat(10_000), b"1==1".to_vec()].concat()).is_ok());
    assert!(Expression::parse(&[b"1==1|".repeat(10_000), b"1==1".to_vec()].concat()).is_ok());
}

/// Writes an expression and says what it comes to. Numbers are small enough for f64 and every condition stands in
/// parentheses where it may; some stand without to try the precedence.
struct Model(u64);

/// How closely an operator of the text binds, to know where parentheses are needed.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Binding {
    Any,
    All,
    Not,
    Comparison,
}

impl Model {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn operand(&mut self) -> (String, String, bool) {
        match self.below(6) {
            0 => ("$(HTTP_COOKIE{visits})".into(), "42".into(), true),
            1 => ("$(HTTP_COOKIE{none})".into(), String::new(), true),
            2 => ("$(HTTP_COOKIE{group})".into(), "Advanced".into(), true),
            3 => {
                let text = ["", "a", "42", "Advanced", "-5"][self.below(5) as usize];
                (format!("'{text}'"), text.into(), false)
            }
            _ => {
                let text = ["0", "-5", "42", "42.0", "41.99", "100", "007"][self.below(7) as usize];
                (text.into(), text.into(), true)
            }
        }
    }

    fn comparison(&mut self) -> (String, bool) {
        let ((left, of_left, left_number), (right, of_right, right_number)) = (self.operand(), self.operand());
        let operator = ["==", "!=", "<", "<=", ">", ">="][self.below(6) as usize];
        let numbers =
            of_left.parse::<f64>().ok().filter(|_| left_number).zip(of_right.parse().ok().filter(|_| right_number));
        let ordering = match numbers {
            Some((left, right)) => left.partial_cmp(&right).unwrap(),
            None => of_left.cmp(&of_right),
        };
        let accepted = match operator {
            "==" => ordering.is_eq(),
            "!=" => ordering.is_ne(),
            "<" => ordering.is_lt(),
            "<=" => ordering.is_le(),
            ">" => ordering.is_gt(),
            _ => ordering.is_ge(),
        };
        let space = " ".repeat(self.below(2) as usize);
        (format!("{left}{space}{operator}{space}{right}"), accepted && !of_left.is_empty() && !of_right.is_empty())
    }

    fn condition(&mut self, depth: u64) -> (String, bool, Binding) {
        match if depth == 0 { 0 } else { self.below(4) } {
            0 => {
                let (text, value) = self.comparison();
                (text, value, Binding::Comparison)
            }
            1 => {
                let (text, value) = self.within(depth, Binding::Not);
                (format!("!{text}"), !value, Binding::Not)
            }
            2 => {
                let ((left, of_left), (right, of_right)) =
                    (self.within(depth, Binding::All), self.within(depth, Binding::Not));
                (format!("{left} & {right}"), of_left && of_right, Binding::All)
            }
            _ => {
                let ((left, of_left), (right, of_right)) =
                    (self.within(depth, Binding::Any), self.within(depth, Binding::All));
                (format!("{left}|{right}"), of_left || of_right, Binding::Any)
            }
        }
    }

    fn within(&mut self, depth: u64, least: Binding) -> (String, bool) {
        let (text, value, binding) = self.condition(depth - 1);
        if binding < least || self.below(4) == 0 {
            (format!("({text})"), value)
        } else {
            (text, value)
        }
    }
}

#[test]
fn random_expressions_come_to_what_a_plain_evaluator_says() {
    let mut model = Model(0x9e37_79b9_7f4a_7c15);
    let mut both = [0, 0];
    for _ in 0..20_000 {
        let depth = model.below(6);
        let (text, expected, _) = model.condition(depth);
        assert_eq!(holds(&text), expected, "{text}");
        both[usize::from(expected)] += 1;
    }
    assert!(both.iter().all(|count| *count > 5000), "{both:?}");
}
