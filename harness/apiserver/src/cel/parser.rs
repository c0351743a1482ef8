//! Parses expressions. The recursion of the parser, and the nesting of the expressions and of their values, are limited.

use kube_cel::cel::Value;

use super::error::SyntaxError;
use super::expression::{Comprehension, ComprehensionKind, Expression, Field, Kind, Operator};
use super::lexer::{Lexer, Token};
use super::types::RESERVED;
use super::{MAX_DEPTH, MAX_LENGTH, functions};

/// Parses an expression.
///
/// # Errors
/// If the text is not an expression, is too long, or is nested too deeply.
pub(crate) fn parse(text: &str) -> Result<Expression, SyntaxError> {
    let size = text.chars().count();
    if size > MAX_LENGTH {
        let why = format!("expression code point size exceeds limit: size: {size}, limit {MAX_LENGTH}");
        return Err(SyntaxError::plain(why));
    }
    let characters: Vec<char> = text.chars().collect();
    let mut parser = Parser {
        tokens: Lexer::new(text).tokens()?,
        characters,
        at: 0,
        depth: 0,
    };
    let expression = parser.expression()?;
    if *parser.peek() == Token::End {
        Ok(expression)
    } else {
        Err(parser.unexpected("<EOF>"))
    }
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    characters: Vec<char>,
    at: usize,
    depth: usize,
}

type Parsed = Result<Expression, SyntaxError>;

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |(token, _)| token)
    }

    /// The position of the next token.
    fn position(&self) -> usize {
        self.tokens.get(self.at).map_or(self.characters.len(), |(_, at)| *at)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at = self.at.saturating_add(1);
        token
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Token::Sign(own) if *own == sign);
        self.at = self.at.saturating_add(usize::from(found));
        found
    }

    fn need(&mut self, sign: &str) -> Result<(), SyntaxError> {
        if self.take(sign) {
            Ok(())
        } else {
            Err(self.unexpected(&format!("'{sign}'")))
        }
    }

    fn error(&self, at: usize, why: impl Into<String>) -> SyntaxError {
        SyntaxError::at(&self.characters, at, why)
    }

    fn unexpected(&self, wanted: &str) -> SyntaxError {
        let found = match self.peek() {
            Token::Name(text) | Token::Int(text) | Token::Uint(text) | Token::Float(text) => text.clone(),
            Token::Text(_) | Token::Bytes(_) => "a string".to_owned(),
            Token::Sign(sign) => (*sign).to_owned(),
            Token::End => "<EOF>".to_owned(),
        };
        let why = format!("Syntax error: mismatched input '{found}' expecting {wanted}");
        self.error(self.position(), why)
    }

    /// A node of limited height, whose value has a limited nesting.
    fn node(&self, at: usize, kind: Kind) -> Parsed {
        let inner = kind.parts().iter().map(|part| part.height).max().unwrap_or_default();
        let height = inner.saturating_add(1);
        let levels = kind.levels();
        if height > MAX_DEPTH || levels > MAX_DEPTH {
            return Err(self.error(at, "max recursion depth exceeded"));
        }
        Ok(Expression {
            at,
            height,
            levels,
            kind,
        })
    }

    fn expression(&mut self) -> Parsed {
        if self.depth == MAX_DEPTH {
            return Err(SyntaxError::plain(format!(
                "expression recursion limit exceeded: {MAX_DEPTH}"
            )));
        }
        self.depth = self.depth.saturating_add(1);
        let parsed = self.conditional();
        self.depth = self.depth.saturating_sub(1);
        parsed
    }

    fn conditional(&mut self) -> Parsed {
        let condition = self.logic(false)?;
        let at = self.position();
        if !self.take("?") {
            return Ok(condition);
        }
        let yes = self.logic(false)?;
        self.need(":")?;
        let no = self.expression()?;
        let [condition, yes, no] = [condition, yes, no].map(Box::new);
        self.node(at, Kind::Conditional { condition, yes, no })
    }

    /// `a || b`, or `a && b`.
    fn logic(&mut self, and: bool) -> Parsed {
        let at = self.position();
        let part = |parser: &mut Self| if and { parser.binary(0) } else { parser.logic(true) };
        let mut parts = vec![part(self)?];
        while self.take(if and { "&&" } else { "||" }) {
            parts.push(part(self)?);
        }
        if parts.len() == 1 {
            return parts.pop().ok_or_else(|| self.unexpected("an expression"));
        }
        self.node(at, if and { Kind::And(parts) } else { Kind::Or(parts) })
    }

    /// Operators that bind at least as strongly as `least`: relations 0, sums 1, products 2.
    fn binary(&mut self, least: u8) -> Parsed {
        let mut left = self.unary()?;
        loop {
            let at = self.position();
            let Some((operator, strength)) = operator(self.peek()).filter(|(_, strength)| *strength >= least) else {
                return Ok(left);
            };
            self.next();
            let right = self.binary(strength.saturating_add(1))?;
            let (left_box, right) = (Box::new(left), Box::new(right));
            left = self.node(
                at,
                Kind::Binary {
                    operator,
                    left: left_box,
                    right,
                },
            )?;
        }
    }

    fn unary(&mut self) -> Parsed {
        let at = self.position();
        for sign in ["!", "-"] {
            let mut count = 0_usize;
            while self.take(sign) {
                count = count.saturating_add(1);
            }
            if count == 0 {
                continue;
            }
            if sign == "-"
                && count == 1
                && let Token::Int(digits) | Token::Float(digits) = self.peek()
            {
                let negative = format!("-{digits}");
                if let Some(token) = self.tokens.get_mut(self.at) {
                    match &mut token.0 {
                        Token::Int(digits) | Token::Float(digits) => *digits = negative,
                        _ => {}
                    }
                }
                return self.member();
            }
            let inner = self.member()?;
            return match (count % 2, sign) {
                (0, _) => Ok(inner),
                (_, "!") => self.node(at, Kind::Not(Box::new(inner))),
                _ => self.node(at, Kind::Negate(Box::new(inner))),
            };
        }
        self.member()
    }

    fn member(&mut self) -> Parsed {
        let mut operand = self.primary()?;
        loop {
            let at = self.position();
            if self.take(".") {
                let optional = self.take("?");
                let Token::Name(field) = self.next() else {
                    self.at = self.at.saturating_sub(1);
                    return Err(self.unexpected("IDENTIFIER"));
                };
                let call = self.position();
                operand = if optional {
                    let operand = Box::new(operand);
                    self.node(at, Kind::OptionalSelect { operand, field })?
                } else if self.take("(") {
                    let arguments = self.list(")")?;
                    self.method(operand, field, arguments, call)?
                } else {
                    let operand = Box::new(operand);
                    self.node(at, Kind::Select { operand, field })?
                };
            } else if self.take("[") {
                let optional = self.take("?");
                let (operand_box, index) = (Box::new(operand), Box::new(self.expression()?));
                self.need("]")?;
                let kind = if optional {
                    Kind::OptionalIndex {
                        operand: operand_box,
                        index,
                    }
                } else {
                    Kind::Index {
                        operand: operand_box,
                        index,
                    }
                };
                operand = self.node(at, kind)?;
            } else if let Some(type_) = type_name(&operand).filter(|_| self.take("{")) {
                operand = self.message(type_, at)?;
            } else {
                return Ok(operand);
            }
        }
    }

    /// The fields of a message, after its type and the opening bracket.
    fn message(&mut self, type_: String, at: usize) -> Parsed {
        let mut fields = Vec::new();
        while !self.take("}") {
            let is_optional = self.take("?");
            let Token::Name(name) = self.next() else {
                self.at = self.at.saturating_sub(1);
                return Err(self.unexpected("IDENTIFIER"));
            };
            self.need(":")?;
            let value = self.expression()?;
            fields.push(Field {
                name,
                is_optional,
                value,
            });
            if !self.take(",") {
                self.need("}")?;
                break;
            }
        }
        self.node(at, Kind::Message { type_, fields })
    }

    /// Expressions up to a closing bracket; a comma may follow the last one.
    fn list(&mut self, end: &str) -> Result<Vec<Expression>, SyntaxError> {
        let mut parts = Vec::new();
        while !self.take(end) {
            parts.push(self.expression()?);
            if !self.take(",") {
                self.need(end)?;
                break;
            }
        }
        Ok(parts)
    }

    fn primary(&mut self) -> Parsed {
        let at = self.position();
        if self.take("(") {
            let inner = self.expression()?;
            self.need(")")?;
            return Ok(inner);
        }
        if self.take("[") {
            let items = self.list("]")?;
            return self.node(at, Kind::List(items));
        }
        if self.take("{") {
            return self.map(at);
        }
        self.take(".");
        let invalid = |parser: &Self, type_: &str| parser.error(at, format!("invalid {type_} literal"));
        let literal = match self.next() {
            Token::Name(name) => return self.name(at, name),
            Token::Int(digits) => int(&digits).map(Value::Int).ok_or_else(|| invalid(self, "int"))?,
            Token::Uint(digits) => uint(&digits).map(Value::UInt).ok_or_else(|| invalid(self, "uint"))?,
            Token::Float(text) => {
                let float: Option<f64> = text.parse().ok();
                float
                    .filter(|float| float.is_finite())
                    .map(Value::Float)
                    .ok_or_else(|| invalid(self, "double"))?
            }
            Token::Text(text) => text.into(),
            Token::Bytes(bytes) => Value::Bytes(bytes.into()),
            Token::Sign(_) | Token::End => {
                self.at = self.at.saturating_sub(1);
                return Err(self.unexpected(
                    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, \
                     BYTES, IDENTIFIER}",
                ));
            }
        };
        self.node(at, Kind::Literal(literal))
    }

    fn name(&mut self, at: usize, name: String) -> Parsed {
        let literal = match name.as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "null" => Value::Null,
            reserved if RESERVED.contains(&reserved) => {
                return Err(self.error(at, format!("reserved identifier: {reserved}")));
            }
            _ => {
                let call = self.position();
                if self.take("(") {
                    let arguments = self.list(")")?;
                    return self.function(name, arguments, call);
                }
                return self.node(at, Kind::Name(name));
            }
        };
        self.node(at, Kind::Literal(literal))
    }

    fn map(&mut self, at: usize) -> Parsed {
        let mut entries = Vec::new();
        while !self.take("}") {
            let key = self.expression()?;
            self.need(":")?;
            entries.push((key, self.expression()?));
            if !self.take(",") {
                self.need("}")?;
                break;
            }
        }
        self.node(at, Kind::Map(entries))
    }

    fn function(&mut self, function: String, mut arguments: Vec<Expression>, at: usize) -> Parsed {
        if function == "has" && arguments.len() == 1 {
            return match arguments.pop().map(|argument| argument.kind) {
                Some(Kind::Select { operand, field }) => self.node(at, Kind::Has { operand, field }),
                _ => Err(self.error(at, "invalid argument to has() macro")),
            };
        }
        let target = None;
        self.node(
            at,
            Kind::Call {
                target,
                function,
                arguments,
            },
        )
    }

    fn method(&mut self, target: Expression, function: String, arguments: Vec<Expression>, at: usize) -> Parsed {
        if let Kind::Name(name) = &target.kind {
            let function = format!("{name}.{function}");
            if functions::is_known(&function) {
                let target = None;
                return self.node(
                    at,
                    Kind::Call {
                        target,
                        function,
                        arguments,
                    },
                );
            }
        }
        let count = arguments.len();
        let (kind, two, filtered) = match (function.as_str(), count) {
            ("all", 2 | 3) => (ComprehensionKind::All, count == 3, false),
            ("exists", 2 | 3) => (ComprehensionKind::Exists, count == 3, false),
            ("exists_one" | "existsOne", 2 | 3) => (ComprehensionKind::ExistsOne, count == 3, false),
            ("map", 2 | 3) => (ComprehensionKind::Map, false, count == 3),
            ("filter", 2) => (ComprehensionKind::Filter, false, false),
            ("transformList", 3 | 4) => (ComprehensionKind::Map, true, count == 4),
            ("transformMap", 3 | 4) => (ComprehensionKind::TransformMap, true, count == 4),
            ("sortBy", 2) => (ComprehensionKind::SortBy, false, false),
            ("optMap", 2) => (ComprehensionKind::OptionalMap, false, false),
            ("optFlatMap", 2) => (ComprehensionKind::OptionalFlatMap, false, false),
            _ => {
                let target = Some(Box::new(target));
                return self.node(
                    at,
                    Kind::Call {
                        target,
                        function,
                        arguments,
                    },
                );
            }
        };
        let mut arguments = arguments.into_iter();
        let mut variable = |parser: &Self| match arguments.next() {
            Some(Expression {
                kind: Kind::Name(name), ..
            }) => Ok(name),
            other => Err(parser.error(other.map_or(at, |other| other.at), "argument is not an identifier")),
        };
        let first = variable(self)?;
        let second = if two { Some(variable(self)?) } else { None };
        let filter = if filtered { arguments.next() } else { None };
        let body = arguments.next().ok_or_else(|| self.unexpected("an expression"))?;
        let comprehension = Comprehension {
            kind,
            range: target,
            first,
            second,
            filter,
            body,
        };
        self.node(at, Kind::Comprehension(Box::new(comprehension)))
    }
}

/// The name of a type that an expression can be: names with points between them.
fn type_name(expression: &Expression) -> Option<String> {
    match &expression.kind {
        Kind::Name(name) => Some(name.clone()),
        Kind::Select { operand, field } => Some(format!("{}.{field}", type_name(operand)?)),
        _ => None,
    }
}

fn operator(token: &Token) -> Option<(Operator, u8)> {
    let sign = match token {
        Token::Name(name) if name == "in" => return Some((Operator::In, 0)),
        Token::Sign(sign) => *sign,
        _ => return None,
    };
    Some(match sign {
        "==" => (Operator::Equal, 0),
        "!=" => (Operator::NotEqual, 0),
        "<" => (Operator::Less, 0),
        "<=" => (Operator::LessOrEqual, 0),
        ">" => (Operator::Greater, 0),
        ">=" => (Operator::GreaterOrEqual, 0),
        "+" => (Operator::Add, 1),
        "-" => (Operator::Subtract, 1),
        "*" => (Operator::Multiply, 2),
        "/" => (Operator::Divide, 2),
        "%" => (Operator::Remainder, 2),
        _ => return None,
    })
}

fn int(digits: &str) -> Option<i64> {
    match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => match digits.strip_prefix("-0x") {
            Some(hex) => i64::from_str_radix(&format!("-{hex}"), 16).ok(),
            None => digits.parse().ok(),
        },
    }
}

fn uint(digits: &str) -> Option<u64> {
    match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    }
}
