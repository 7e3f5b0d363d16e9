//! The words of a manifest. Used by `manifest.rs` and `dyndep.rs`, which know what may follow what.
//! What a word is, and where an error is said to be, is as in `ninja`'s `lexer.in.cc`.

use crate::error::{Error, ErrorKind};
use crate::eval::Template;

/// A word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Token {
    /// Something that begins no word.
    Error,
    /// `build`
    Build,
    /// `:`
    Colon,
    /// `default`
    Default,
    /// `=`
    Equals,
    /// A name.
    Ident,
    /// `include`
    Include,
    /// Spaces at the beginning of a line.
    Indent,
    /// The end of a line.
    Newline,
    /// `||`
    Pipe2,
    /// `|`
    Pipe,
    /// `|@`
    PipeAt,
    /// `pool`
    Pool,
    /// `rule`
    Rule,
    /// `subninja`
    Subninja,
    /// The end of the file.
    Eof,
}

impl Token {
    /// How messages name it.
    pub fn name(self) -> &'static str {
        match self {
            Token::Error => "lexing error",
            Token::Build => "'build'",
            Token::Colon => "':'",
            Token::Default => "'default'",
            Token::Equals => "'='",
            Token::Ident => "identifier",
            Token::Include => "'include'",
            Token::Indent => "indent",
            Token::Newline => "newline",
            Token::Pipe2 => "'||'",
            Token::Pipe => "'|'",
            Token::PipeAt => "'|@'",
            Token::Pool => "'pool'",
            Token::Rule => "'rule'",
            Token::Subninja => "'subninja'",
            Token::Eof => "eof",
        }
    }
}

/// The columns of a line that a message shows.
const COLUMNS: usize = 72;

/// Reads one file. The text ends with a zero byte, which stands for the end.
pub struct Lexer {
    file: String,
    text: Vec<u8>,
    at: usize,
    /// Where the last word began: errors are there.
    last: usize,
}

fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)
}

fn is_of_a_simple_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-".contains(&byte)
}

impl Lexer {
    /// Begins at the beginning.
    pub fn new(file: &str, text: &[u8]) -> Lexer {
        let mut text = text.to_vec();
        text.push(0);
        Lexer { file: file.to_owned(), text, at: 0, last: 0 }
    }

    /// An error at the last word: file, line, the line itself, and where in it.
    pub fn error(&self, message: &str) -> Error {
        let before = &self.text[..self.last];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let column = self.last - start;
        let mut said = format!("{}:{line}: {message}\n", self.file);
        if (1..COLUMNS).contains(&column) {
            let rest = &self.text[start..];
            let end = rest.iter().take(COLUMNS).position(|byte| *byte == 0 || *byte == b'\n');
            said += &String::from_utf8_lossy(&rest[..end.unwrap_or(COLUMNS)]);
            said += if end.is_none() { "...\n" } else { "\n" };
            said += &" ".repeat(column);
            said += "^ near here";
        }
        Error::new(ErrorKind::Manifest, said)
    }

    /// What is wrong with a word that is none.
    pub fn describe(&self) -> &'static str {
        if self.text[self.last] == b'\t' {
            "tabs are not allowed, use spaces"
        } else {
            "lexing error"
        }
    }

    fn count(&self, from: usize, is: impl Fn(u8) -> bool) -> usize {
        self.text[from..].iter().take_while(|byte| is(**byte)).count()
    }

    /// The next word. What is behind it on the line is skipped up to the word after it.
    pub fn token(&mut self) -> Token {
        let mut at = self.at;
        let (token, start, end) = loop {
            let start = at;
            let after = start + self.count(start, |byte| byte == b' ');
            match self.text[after] {
                b'#' => {
                    let end = after + self.count(after, |byte| byte != b'\n' && byte != 0);
                    if self.text[end] == b'\n' {
                        at = end + 1;
                        continue;
                    }
                    // A comment that no line end follows is none.
                    if after > start {
                        break (Token::Indent, start, after);
                    }
                    break (Token::Error, start, start + 1);
                }
                b'\n' => break (Token::Newline, start, after + 1),
                b'\r' if self.text.get(after + 1) == Some(&b'\n') => break (Token::Newline, start, after + 2),
                _ if after > start => break (Token::Indent, start, after),
                _ => {
                    let (token, length) = self.word(start);
                    break (token, start, start + length);
                }
            }
        };
        self.last = start;
        self.at = end;
        if token != Token::Newline && token != Token::Eof {
            self.skip_blanks();
        }
        token
    }

    /// The word that begins here, and its length.
    fn word(&self, at: usize) -> (Token, usize) {
        let next = self.text.get(at + 1).copied();
        match self.text[at] {
            0 => (Token::Eof, 1),
            b'=' => (Token::Equals, 1),
            b':' => (Token::Colon, 1),
            b'|' if next == Some(b'@') => (Token::PipeAt, 2),
            b'|' if next == Some(b'|') => (Token::Pipe2, 2),
            b'|' => (Token::Pipe, 1),
            byte if is_of_a_name(byte) => {
                let length = self.count(at, is_of_a_name);
                let token = match &self.text[at..at + length] {
                    b"build" => Token::Build,
                    b"pool" => Token::Pool,
                    b"rule" => Token::Rule,
                    b"default" => Token::Default,
                    b"include" => Token::Include,
                    b"subninja" => Token::Subninja,
                    _ => Token::Ident,
                };
                (token, length)
            }
            _ => (Token::Error, 1),
        }
    }

    /// Goes back to before the last word.
    pub fn unread(&mut self) {
        self.at = self.last;
    }

    /// Whether the next word is this one; if so it is read.
    pub fn peek(&mut self, token: Token) -> bool {
        let found = self.token() == token;
        if !found {
            self.unread();
        }
        found
    }

    /// Reads this word.
    pub fn expect(&mut self, token: Token) -> Result<(), Error> {
        let found = self.token();
        if found == token {
            return Ok(());
        }
        let hint = if token == Token::Colon { " ($ also escapes ':')" } else { "" };
        Err(self.error(&format!("expected {}, got {}{hint}", token.name(), found.name())))
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            self.at += match rest {
                [b' ', ..] => 1,
                [b'$', b'\n', ..] => 2,
                [b'$', b'\r', b'\n', ..] => 3,
                _ => return,
            };
        }
    }

    /// Reads a name, of whatever kind.
    pub fn ident(&mut self) -> Option<Vec<u8>> {
        self.last = self.at;
        let length = self.count(self.at, is_of_a_name);
        if length == 0 {
            return None;
        }
        let name = self.text[self.at..self.at + length].to_vec();
        self.at += length;
        self.skip_blanks();
        Some(name)
    }

    /// Reads a path, which may be empty: then the next thing is something else.
    pub fn path(&mut self) -> Result<Template, Error> {
        let template = self.template(true)?;
        self.skip_blanks();
        Ok(template)
    }

    /// Reads the rest of the line, as a value.
    pub fn value(&mut self) -> Result<Template, Error> {
        self.template(false)
    }

    fn template(&mut self, is_path: bool) -> Result<Template, Error> {
        let mut out = Template::default();
        let mut at = self.at;
        loop {
            let start = at;
            let plain = self.count(at, |byte| !matches!(byte, b'$' | b' ' | b':' | b'\r' | b'\n' | b'|' | 0));
            if plain > 0 {
                out.text(&self.text[at..at + plain]);
                at += plain;
                continue;
            }
            match self.text[at] {
                b'\r' if self.text[at + 1] == b'\n' => {
                    at += if is_path { 0 } else { 2 };
                    self.last = start;
                    break;
                }
                b' ' | b':' | b'|' | b'\n' if is_path => {
                    self.last = start;
                    break;
                }
                b'\n' => {
                    self.last = start;
                    at += 1;
                    break;
                }
                byte @ (b' ' | b':' | b'|') => {
                    out.text(&[byte]);
                    at += 1;
                }
                b'$' => at = self.escape(at, &mut out)?,
                0 => {
                    self.last = start;
                    return Err(self.error("unexpected EOF"));
                }
                _ => {
                    self.last = start;
                    return Err(self.error(self.describe()));
                }
            }
        }
        self.at = at;
        Ok(out)
    }

    /// What a dollar begins; returns where it ends.
    fn escape(&mut self, at: usize, out: &mut Template) -> Result<usize, Error> {
        let after = at + 1;
        let next = self.text[after];
        let skipped = |end: usize| end + self.count(end, |byte| byte == b' ');
        match next {
            b'$' | b' ' | b':' => {
                out.text(&[next]);
                return Ok(after + 1);
            }
            b'\n' => return Ok(skipped(after + 1)),
            b'\r' if self.text[after + 1] == b'\n' => return Ok(skipped(after + 2)),
            // From version 1.14 on; there was no meaning before.
            b'^' => {
                out.text(b"\n");
                return Ok(after + 1);
            }
            b'{' => {
                let length = self.count(after + 1, is_of_a_name);
                let end = after + 1 + length;
                if length > 0 && self.text[end] == b'}' {
                    out.variable(&self.text[after + 1..end]);
                    return Ok(end + 1);
                }
            }
            _ => {
                let length = self.count(after, is_of_a_simple_name);
                if length > 0 {
                    out.variable(&self.text[after..after + length]);
                    return Ok(after + length);
                }
            }
        }
        self.last = at;
        Err(self.error("bad $-escape (literal $ must be written as $$)"))
    }
}
