//! Splits an expression into tokens.

use super::error::SyntaxError;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Name(String),
    Int(String),
    Uint(String),
    Float(String),
    Text(String),
    Bytes(Vec<u8>),
    /// An operator or bracket.
    Sign(&'static str),
    End,
}

/// Longer signs first.
const SIGNS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "+", "-", "*", "/", "%", "?", ":", ".", ",", "(", ")", "[", "]",
    "{", "}",
];

pub(super) struct Lexer {
    characters: Vec<char>,
    at: usize,
}

impl Lexer {
    pub(super) fn new(text: &str) -> Self {
        Self {
            characters: text.chars().collect(),
            at: 0,
        }
    }

    /// All tokens with their positions; the last one is [`Token::End`].
    pub(super) fn tokens(mut self) -> Result<Vec<(Token, usize)>, SyntaxError> {
        let mut tokens = Vec::new();
        loop {
            self.blanks();
            let start = self.at;
            let token = self.token()?;
            let is_end = token == Token::End;
            tokens.push((token, start));
            if is_end {
                return Ok(tokens);
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at.saturating_add(ahead)).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek(0);
        self.at = self.at.saturating_add(usize::from(next.is_some()));
        next
    }

    fn skip(&mut self, count: usize) {
        self.at = self.at.saturating_add(count).min(self.characters.len());
    }

    fn error(&self, at: usize, why: impl Into<String>) -> SyntaxError {
        SyntaxError::at(&self.characters, at, why)
    }

    /// Blanks and comments.
    fn blanks(&mut self) {
        while let Some(next) = self.peek(0) {
            if next == '/' && self.peek(1) == Some('/') {
                while self.next().is_some_and(|next| next != '\n') {}
            } else if next.is_whitespace() {
                self.skip(1);
            } else {
                return;
            }
        }
    }

    fn token(&mut self) -> Result<Token, SyntaxError> {
        let Some(first) = self.peek(0) else {
            return Ok(Token::End);
        };
        if let Some(token) = self.quoted()? {
            return Ok(token);
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let name = self.run(|next| next.is_ascii_alphanumeric() || next == '_');
            return Ok(Token::Name(name));
        }
        let digit_after_dot = first == '.' && self.peek(1).is_some_and(|next| next.is_ascii_digit());
        if first.is_ascii_digit() || digit_after_dot {
            return Ok(self.number());
        }
        for sign in SIGNS {
            let matches = sign
                .chars()
                .enumerate()
                .all(|(ahead, wanted)| self.peek(ahead) == Some(wanted));
            if matches {
                self.skip(sign.len());
                return Ok(Token::Sign(sign));
            }
        }
        Err(self.error(self.at, format!("Syntax error: token recognition error at: '{first}'")))
    }

    fn run(&mut self, good: impl Fn(char) -> bool) -> String {
        let mut run = String::new();
        while let Some(next) = self.peek(0).filter(|next| good(*next)) {
            run.push(next);
            self.skip(1);
        }
        run
    }

    fn number(&mut self) -> Token {
        if self.peek(0) == Some('0') && matches!(self.peek(1), Some('x' | 'X')) {
            self.skip(2);
            let digits = format!("0x{}", self.run(|next| next.is_ascii_hexdigit()));
            return self.whole(digits);
        }
        let mut text = self.run(|next| next.is_ascii_digit());
        let mut float = false;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|next| next.is_ascii_digit()) {
            self.skip(1);
            text = format!("{text}.{}", self.run(|next| next.is_ascii_digit()));
            float = true;
        }
        let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
        if matches!(self.peek(0), Some('e' | 'E'))
            && self
                .peek(sign.saturating_add(1))
                .is_some_and(|next| next.is_ascii_digit())
        {
            self.skip(1);
            text.push('e');
            text.extend((sign == 1).then(|| self.next()).flatten());
            text.push_str(&self.run(|next| next.is_ascii_digit()));
            float = true;
        }
        if float { Token::Float(text) } else { self.whole(text) }
    }

    fn whole(&mut self, digits: String) -> Token {
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.skip(1);
            Token::Uint(digits)
        } else {
            Token::Int(digits)
        }
    }

    /// A string or bytes with its prefixes; `None` at any other token.
    fn quoted(&mut self) -> Result<Option<Token>, SyntaxError> {
        let start = self.at;
        let (mut raw, mut bytes, mut length) = (false, false, 0_usize);
        while let Some(prefix) = self.peek(length) {
            match prefix {
                'r' | 'R' if !raw => raw = true,
                'b' | 'B' if !bytes => bytes = true,
                '"' | '\'' => break,
                _ => return Ok(None),
            }
            length = length.saturating_add(1);
        }
        let Some(quote) = self.peek(length) else {
            return Ok(None);
        };
        self.skip(length.saturating_add(1));
        let long = self.peek(0) == Some(quote) && self.peek(1) == Some(quote);
        if long {
            self.skip(2);
        }
        let mut text = Vec::new();
        loop {
            let here = self.at;
            let Some(next) = self.next() else {
                return Err(self.error(start, "Syntax error: token recognition error: a string is not closed"));
            };
            if next == quote && (!long || (self.peek(0) == Some(quote) && self.peek(1) == Some(quote))) {
                if long {
                    self.skip(2);
                }
                break;
            }
            if matches!(next, '\n' | '\r') && !long {
                return Err(self.error(
                    start,
                    "Syntax error: token recognition error: a string contains a line break",
                ));
            }
            if next == '\\' && !raw {
                self.escape(here, bytes, &mut text)?;
            } else {
                push(&mut text, next);
            }
        }
        if bytes {
            return Ok(Some(Token::Bytes(text)));
        }
        match String::from_utf8(text) {
            Ok(text) => Ok(Some(Token::Text(text))),
            Err(_) => Err(self.error(start, "a string is not UTF-8")),
        }
    }

    fn escape(&mut self, start: usize, bytes: bool, text: &mut Vec<u8>) -> Result<(), SyntaxError> {
        let invalid = |lexer: &Self| lexer.error(start, "Syntax error: unable to unescape string");
        let Some(next) = self.next() else {
            return Err(invalid(self));
        };
        let plain = match next {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '\\' | '\'' | '"' | '`' | '?' => next,
            'x' | 'X' => return self.code(2, 16, bytes, text).ok_or_else(|| invalid(self)),
            'u' if !bytes => return self.code(4, 16, false, text).ok_or_else(|| invalid(self)),
            'U' if !bytes => return self.code(8, 16, false, text).ok_or_else(|| invalid(self)),
            '0'..='3' => {
                self.at = self.at.saturating_sub(1);
                return self.code(3, 8, bytes, text).ok_or_else(|| invalid(self));
            }
            _ => return Err(invalid(self)),
        };
        push(text, plain);
        Ok(())
    }

    /// A character, or a byte, by its number.
    fn code(&mut self, digits: usize, radix: u32, bytes: bool, text: &mut Vec<u8>) -> Option<()> {
        let mut number = String::new();
        for _ in 0..digits {
            number.push(self.next().filter(|next| next.is_digit(radix))?);
        }
        let code = u32::from_str_radix(&number, radix).ok()?;
        if bytes {
            text.push(u8::try_from(code).ok()?);
        } else {
            push(text, char::from_u32(code)?);
        }
        Some(())
    }
}

fn push(text: &mut Vec<u8>, character: char) {
    text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}
