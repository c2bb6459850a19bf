// SPDX-License-Identifier: GPL-2.0-only
//! Parses C declarations such as `s32 scx_bpf_create_dsq(u64 dsq_id, s32 node)` to BTF.
//!
//! The parser reads one declaration of a function or variable, with pointers, arrays, qualifiers
//! and pointers to functions. A declaration can refer to structs, unions and enumerations, but not
//! define them. An unknown struct becomes a forward declaration.

use super::build::Builder;
use super::{Param, TypeKind};
use crate::error::Error;

/// Keywords that do not change the resulting type.
const IGNORED: [&str; 12] = [
    "extern",
    "static",
    "inline",
    "restrict",
    "__restrict",
    "__user",
    "__rcu",
    "__percpu",
    "__weak",
    "__ksym",
    "__iomem",
    "__kernel",
];
/// Keywords of C's integer types.
const INT_WORDS: [&str; 7] = ["char", "short", "int", "long", "signed", "unsigned", "_Bool"];
/// Maximum nesting of pointers and parentheses.
const MAX_NESTING: u32 = 16;

impl Builder {
    /// Parses a function declaration, adds the function and returns its id. The final `;` is
    /// optional.
    pub fn declare_func(&mut self, text: &str) -> Result<u32, Error> {
        let (name, ty) = self.declaration(text)?;
        match self.btf().kind(ty) {
            TypeKind::FuncProto { .. } => Ok(self.func(&name, ty)),
            _ => Err(Error::new(format!("\"{text}\" declares no function"))),
        }
    }

    /// Parses a variable declaration, adds the variable and returns its id.
    pub fn declare_var(&mut self, text: &str) -> Result<u32, Error> {
        let (name, ty) = self.declaration(text)?;
        Ok(self.var(&name, ty))
    }

    /// Parses a type name such as `struct task_struct *` or `u64[4]` and returns its id.
    pub fn declare_type(&mut self, text: &str) -> Result<u32, Error> {
        let mut parser = Parser {
            tokens: tokens(text)?,
            pos: 0,
            text,
            builder: self,
        };
        let (_, ty) = parser.declaration(0)?;
        parser.end()?;
        Ok(ty)
    }

    fn declaration(&mut self, text: &str) -> Result<(String, u32), Error> {
        let mut parser = Parser {
            tokens: tokens(text)?,
            pos: 0,
            text,
            builder: self,
        };
        let (name, ty) = parser.declaration(0)?;
        parser.end()?;
        match name.is_empty() {
            true => Err(Error::new(format!("\"{text}\" declares no name"))),
            false => Ok((name, ty)),
        }
    }
}

fn tokens(text: &str) -> Result<Vec<&str>, Error> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        let len = match first {
            _ if word(first) => rest.find(|c| !word(c)).unwrap_or(rest.len()),
            '*' | '(' | ')' | '[' | ']' | ',' | ';' => 1,
            '.' if rest.starts_with("...") => 3,
            _ => return Err(Error::new(format!("\"{text}\": unexpected '{first}'"))),
        };
        tokens.push(&rest[..len]);
        rest = rest[len..].trim_start();
    }
    Ok(tokens)
}

struct Parser<'a> {
    tokens: Vec<&'a str>,
    pos: usize,
    text: &'a str,
    builder: &'a mut Builder,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> &'a str {
        self.tokens.get(self.pos).copied().unwrap_or("")
    }

    fn accept(&mut self, token: &str) -> bool {
        let found = self.peek() == token;
        self.pos += usize::from(found);
        found
    }

    fn error(&self, message: &str) -> Error {
        let before = self.tokens[..self.pos.min(self.tokens.len())].join(" ");
        Error::new(format!("\"{}\": {message} after \"{before}\"", self.text))
    }

    fn expect(&mut self, token: &str) -> Result<(), Error> {
        if self.accept(token) {
            Ok(())
        } else {
            Err(self.error(&format!("expected '{token}'")))
        }
    }

    fn word(&mut self) -> Result<&'a str, Error> {
        let word = self.peek();
        if !word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return Err(self.error("expected a name"));
        }
        self.pos += 1;
        Ok(word)
    }

    fn end(&mut self) -> Result<(), Error> {
        self.accept(";");
        if self.pos == self.tokens.len() {
            Ok(())
        } else {
            Err(self.error("expected the end of the declaration"))
        }
    }

    fn declaration(&mut self, nesting: u32) -> Result<(String, u32), Error> {
        let base = self.specifiers()?;
        self.declarator(base, nesting)
    }

    /// Parses specifiers such as `const struct foo`, `unsigned long`, `u32`.
    fn specifiers(&mut self) -> Result<u32, Error> {
        let (mut is_const, mut is_volatile) = (false, false);
        let mut ints: Vec<&str> = Vec::new();
        let mut base = None;
        loop {
            let word = self.peek();
            match word {
                "const" => is_const = true,
                "volatile" => is_volatile = true,
                _ if IGNORED.contains(&word) => (),
                "struct" | "union" if base.is_none() && ints.is_empty() => {
                    self.pos += 1;
                    let name = self.word()?;
                    base = Some(self.builder.forward(name, word == "union"));
                    continue;
                }
                "enum" if base.is_none() && ints.is_empty() => {
                    self.pos += 1;
                    let name = self.word()?;
                    // The only property of an enumeration that matters in a prototype is its size.
                    // An unknown enumeration gets the size of unsigned int, as in C.
                    base = Some(self.builder.named_enum(name, 4));
                    continue;
                }
                _ if base.is_none() && INT_WORDS.contains(&word) => ints.push(word),
                "void" if base.is_none() && ints.is_empty() => base = Some(0),
                _ if base.is_none() && ints.is_empty() => {
                    let name = self.word()?;
                    let message = format!("unknown type \"{name}\"");
                    base = Some(self.builder.by_name(name).ok_or_else(|| self.error(&message))?);
                    continue;
                }
                _ => break,
            }
            self.pos += 1;
        }
        let mut id = match base {
            Some(id) => id,
            None => self.integer(&ints)?,
        };
        if is_volatile {
            id = self.builder.volatile(id);
        }
        if is_const {
            id = self.builder.constant(id);
        }
        Ok(id)
    }

    fn integer(&mut self, words: &[&str]) -> Result<u32, Error> {
        let count = |word| words.iter().filter(|w| **w == word).count();
        let base = match (count("char"), count("short"), count("long"), count("_Bool")) {
            (1, 0, 0, 0) => "char",
            (0, 1, 0, 0) => "short",
            (0, 0, 0, 0) => "int",
            (0, 0, 1, 0) => "long",
            (0, 0, 2, 0) => "long long",
            (0, 0, 0, 1) => "_Bool",
            _ => return Err(self.error("contradictory integer type")),
        };
        let name = match (count("unsigned"), count("signed"), base) {
            (0, 1, "char") => "signed char".to_string(),
            (0, _, _) => base.to_string(),
            (_, _, _) => format!("unsigned {base}"),
        };
        self.builder
            .by_name(&name)
            .ok_or_else(|| self.error("contradictory integer type"))
    }

    /// Parses pointers, a name or a parenthesised declarator, arrays and parameters. Returns the
    /// declared name, which is empty for an abstract declarator, and the type.
    fn declarator(&mut self, mut base: u32, nesting: u32) -> Result<(String, u32), Error> {
        if nesting > MAX_NESTING {
            return Err(self.error("nested too deeply"));
        }
        loop {
            match self.peek() {
                "*" => base = self.builder.ptr(base),
                "const" => base = self.builder.constant(base),
                "volatile" => base = self.builder.volatile(base),
                word if IGNORED.contains(&word) => (),
                _ => break,
            }
            self.pos += 1;
        }
        // In `int (*f)(u64)`, the suffix `(u64)` stands after the parenthesised declarator `(*f)`,
        // but it is part of the type to which `f` points. The parser therefore reads the suffixes
        // first, and then goes back to the parenthesised declarator.
        let inner = self.pos + 1;
        let next = |i: usize| self.tokens.get(i).copied().unwrap_or("");
        let nested = self.peek() == "(" && (next(inner) == "*" || next(inner + 1) == ")" && next(inner) != "void");
        let mut name = String::new();
        if nested {
            self.skip_parentheses()?;
        } else if self.peek().starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            name = self.word()?.to_string();
        }
        base = self.suffixes(base, nesting)?;
        if !nested {
            return Ok((name, base));
        }
        let end = std::mem::replace(&mut self.pos, inner);
        let result = self.declarator(base, nesting + 1)?;
        self.expect(")")?;
        self.pos = end;
        Ok(result)
    }

    fn skip_parentheses(&mut self) -> Result<(), Error> {
        let mut depth = 0;
        loop {
            match self.peek() {
                "(" => depth += 1,
                ")" => depth -= 1,
                "" => return Err(self.error("expected ')'")),
                _ => (),
            }
            self.pos += 1;
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn suffixes(&mut self, base: u32, nesting: u32) -> Result<u32, Error> {
        if self.accept("(") {
            let params = self.parameters(nesting)?;
            return Ok(self.builder.func_proto(base, params));
        }
        if !self.accept("[") {
            return Ok(base);
        }
        let len = match self.peek() {
            "]" => 0,
            number => {
                let len = number.parse().map_err(|_| self.error("expected an array length"))?;
                self.pos += 1;
                len
            }
        };
        self.expect("]")?;
        if nesting > MAX_NESTING {
            return Err(self.error("nested too deeply"));
        }
        let element = self.suffixes(base, nesting + 1)?;
        Ok(self.builder.array(element, len))
    }

    fn parameters(&mut self, nesting: u32) -> Result<Vec<Param>, Error> {
        let mut params = Vec::new();
        if self.accept(")") {
            return Ok(params);
        }
        if self.peek() == "void" && self.tokens.get(self.pos + 1) == Some(&")") {
            self.pos += 2;
            return Ok(params);
        }
        loop {
            if self.accept("...") {
                params.push(Param { name: "".into(), ty: 0 });
                self.expect(")")?;
                return Ok(params);
            }
            let (name, ty) = self.declaration(nesting + 1)?;
            // Parameters of function type and array type become pointers, as in C.
            let ty = match *self.builder.btf().kind(ty) {
                TypeKind::FuncProto { .. } => self.builder.ptr(ty),
                TypeKind::Array { ty, .. } => self.builder.ptr(ty),
                _ => ty,
            };
            params.push(Param { name: name.into(), ty });
            if self.accept(")") {
                return Ok(params);
            }
            if !self.accept(",") {
                return Err(self.error("expected ',' or ')'"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Builder;

    #[test]
    fn declarations_print_as_written() {
        let check = |text: &str| {
            let mut builder = Builder::new();
            let id = builder.declare_func(text).unwrap();
            assert_eq!(builder.btf().c_name(id), text);
        };
        check("s32 scx_bpf_create_dsq(u64 dsq_id, s32 node)");
        check("void f(void)");
        check("struct task_struct *bpf_task_from_pid(s32 pid)");
        check("void g(const struct cpumask *mask, unsigned long flags, char *fmt, ...)");
        check(
            "int bpf_rbtree_add_impl(struct bpf_rb_root *root, bool (*less)(struct bpf_rb_node *a, int b), void *meta)",
        );
        check("const struct cpumask *const h(unsigned long long x, enum foo e)");
    }

    #[test]
    fn parameters_of_function_and_array_type_become_pointers() {
        let mut builder = Builder::new();
        let id = builder
            .declare_func("bool f(bool (less)(int a, int b), u64 x[4]);")
            .unwrap();
        assert_eq!(builder.btf().c_name(id), "bool f(bool (*less)(int a, int b), u64 *x)");
    }

    #[test]
    fn equal_types_get_one_id() {
        let mut builder = Builder::new();
        let (a, b) = (
            builder.declare_type("const struct foo **").unwrap(),
            builder.declare_type("struct foo").unwrap(),
        );
        assert_eq!(a, builder.declare_type("struct foo const **").unwrap());
        assert!(builder.is_forward(b));
    }

    #[test]
    fn errors_name_the_position() {
        let check = |text: &str, expect: &str| {
            let error = Builder::new().declare_func(text).unwrap_err().to_string();
            assert!(error.contains(expect), "{text}: {error}");
        };
        check("sched_t f(void)", "unknown type \"sched_t\"");
        check("int f(int", "expected ',' or ')' after \"int f ( int\"");
        check("int f", "declares no function");
        check("int (*)(int)", "declares no name");
        check(
            "int f(int a) int",
            "expected the end of the declaration after \"int f ( int a )\"",
        );
        check("int f($)", "unexpected '$'");
    }
}
